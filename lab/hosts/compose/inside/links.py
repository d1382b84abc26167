"""Links as containers get them: tables made with the images, which have no reader of topologies.

`table` belongs to the build; the rest runs inside and needs the standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.hosts.host import Host, Ports
from lab.link.plan import LossModel, QdiscPlan, plan
from lab.link.readback import compare
from lab.model.errors import LabFault, UsageProblem
from lab.model.units import BitRate, Duration, Ratio

if TYPE_CHECKING:
    from lab.model.link import DirectionName
    from lab.model.topology import Topology

FOLDER = Path("/usr/lib/roughwater/links")
DIRECTIONS: tuple[DirectionName, ...] = ("up", "down")


@dataclass(frozen=True)
class Profile:
    """One topology, resolved: the qdisc of each direction (None: unshaped), and the pins of both ends."""

    name: str
    plans: Mapping[str, QdiscPlan | None]
    mtu: int
    congestion_control: str

    @property
    def rtt(self) -> Duration:
        """Round trip of the idle link without the packets' own serialisation time."""
        return Duration(sum(found.delay.ns for found in self.plans.values() if found))


def table(topology: Topology) -> dict[str, Any]:
    """Plain JSON: integers of ns, bit/s and packets; shares as numbers. The container checks what its router supports.

    A topology that containers cannot obey has a table with the reason alone.
    """
    from lab.model.obeyed import refusal

    if problem := refusal("compose", topology, "real"):
        return {"name": topology.name, "refused": str(problem)}
    link = topology.link
    directions = {name: plan(link.direction(name), link.rtt, supports_seed=True) for name in DIRECTIONS}
    return {
        "name": topology.name,
        "mtu": link.mtu,
        "congestion_control": topology.congestion_control,
        **{name: _row(found) if found else None for name, found in directions.items()},
    }


def _row(found: QdiscPlan) -> dict[str, Any]:
    return {
        "limit_packets": found.limit_packets,
        "delay_ns": found.delay.ns,
        "jitter_ns": found.jitter.ns,
        "rate_bit_s": found.rate.bit_s if found.rate else None,
        "loss": found.loss.value,
        "reorder": found.reorder.value,
        "corrupt": found.corrupt.value,
        "duplicate": found.duplicate.value,
        "seed": found.seed,
        "loss_model": _loss_row(found.loss_model),
    }


def _loss_row(model: LossModel | None) -> list[Any] | None:
    return [model.name, [[name, share.value] for name, share in model.probabilities]] if model else None


def _loss_model(row: list[Any] | None) -> LossModel | None:
    return LossModel(row[0], tuple((name, Ratio(share)) for name, share in row[1])) if row else None


def load(name: str, folder: Path = FOLDER) -> Profile:
    """The link of that name. Raises UsageProblem that lists the known ones, LabFault for a damaged table."""
    found = {path.stem: path for path in sorted(folder.glob("*.json"))}
    if name not in found:
        there_are = ", ".join(each for each, path in found.items() if '"refused"' not in path.read_text(encoding="utf-8"))
        raise UsageProblem(f"LINK={name}: there is no such link", remedy=f"there are: {there_are or 'none in this image'}")
    try:
        data = json.loads(found[name].read_text(encoding="utf-8"))
        if "refused" in data:
            raise UsageProblem(f"LINK={name}: {data['refused']}")
        plans: dict[str, QdiscPlan | None] = {
            direction: _plan(data[direction]) if data[direction] else None for direction in DIRECTIONS
        }
        return Profile(str(data["name"]), plans, int(data["mtu"]), str(data["congestion_control"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise LabFault(f"the table of link {name} is damaged ({why})", remedy="lab images build") from None


def _plan(row: Mapping[str, Any]) -> QdiscPlan:
    return QdiscPlan(
        limit_packets=row["limit_packets"],
        delay=Duration(row["delay_ns"]),
        jitter=Duration(row["jitter_ns"]),
        rate=BitRate(row["rate_bit_s"]) if row["rate_bit_s"] is not None else None,
        loss=Ratio(row["loss"]),
        reorder=Ratio(row["reorder"]),
        corrupt=Ratio(row["corrupt"]),
        duplicate=Ratio(row["duplicate"]),
        seed=row["seed"],
        loss_model=_loss_model(row["loss_model"]),
    )


def put(router: Host, ports: Ports, profile: Profile) -> None:
    """A fresh qdisc per direction, read back. Raises LabFault when the router does not hold what it was given."""
    for direction, found in profile.plans.items():
        for command in found.commands(_port(ports, direction), "add") if found else ():
            router.run(command, root=True)
    problems = differences(router, ports, profile)
    if problems:
        raise LabFault(f"the router does not hold {profile.name}: {'; '.join(problems)}")


def differences(router: Host, ports: Ports, profile: Profile) -> list[str]:
    """The differences between the kernel's qdiscs and the profile, in words; empty when they agree."""
    problems = []
    for direction, found in profile.plans.items():
        said = router.run(["tc", "-j", "qdisc", "show", "dev", _port(ports, direction)], root=True).text
        try:
            qdiscs = json.loads(said or "[]")
        except ValueError:
            raise LabFault(f"the router's tc answered with something else than JSON: {said[:120]!r}") from None
        problems += [f"{direction}: {problem}" for problem in compare(found, qdiscs)]
    return problems


def _port(ports: Ports, direction: str) -> str:
    """`up` leaves the router towards the server."""
    return ports.server if direction == "up" else ports.client
