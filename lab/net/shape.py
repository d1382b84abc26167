"""Puts a Link on a live network's router, reads it back, and changes it while traffic flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.hosts.host import Network
from lab.link.hops import HOPS, Hop, hops_of, removal
from lab.link.layers import LayeredPlan, link_plan
from lab.link.plan import QdiscPlan
from lab.link.readback import compare
from lab.model.errors import LabFault, NotSupported
from lab.model.link import DirectionName, Link
from lab.net.qdiscs import read_qdiscs

Qdiscs = Mapping[str, Sequence[Mapping[str, Any]]]

DIRECTIONS: tuple[DirectionName, ...] = ("up", "down")


@dataclass(frozen=True)
class Shaped:
    """A link as applied: the plan and the tc commands per direction ("up" leaves the router towards the server)."""

    link: Link
    plans: dict[str, QdiscPlan | LayeredPlan | None]
    commands: tuple[str, ...]
    hops: tuple[Hop, ...] = ()


def assert_shapable(network: Network) -> None:
    """Raises NotSupported where client and server are one host: a loopback has no link to shape or to interrupt."""
    if network.router_facts.kind == "none":
        raise NotSupported("client and server are one host: there is no link between them to shape or to interrupt")


def router_port(network: Network, direction: str) -> str:
    """The router's interface on whose egress `direction` is shaped."""
    return network.router_ports.server if direction == "up" else network.router_ports.client


def shape(network: Network, link: Link) -> Shaped:
    """A fresh qdisc per direction: counters at zero and a seed at its start. Drops what is in flight."""
    return _put(network, link, fresh=True)


def change(network: Network, link: Link) -> Shaped:
    """Change rate, delay and impairments in place: nothing queued is lost, the flow lives on."""
    return _put(network, link, fresh=False)


def _put(network: Network, link: Link, *, fresh: bool) -> Shaped:
    if link.shaped:
        assert_shapable(network)
    refuse_in_real_time(network, link)
    plans: dict[str, QdiscPlan | LayeredPlan | None] = {}
    commands: list[str] = []
    before, seeded = read_qdiscs(network), network.router_facts.supports_seed
    told = link if seeded or network.clock.kind == "real" else without_seed(link)
    for direction in DIRECTIONS:
        port = router_port(network, direction)
        found = link_plan(told.direction(direction), link.rtt, supports_seed=seeded, own_delay=network.own_delay)
        plans[direction] = found
        shaped_now = before[port] and before[port][0].get("kind") == "netem"
        # Layers cannot grow below a netem with packets in it, nor change their kinds.
        kept = shaped_now and not fresh and _below(found) == [str(qdisc.get("kind")) for qdisc in before[port][1:]]
        if shaped_now and not kept:
            network.router.run(["tc", "qdisc", "del", "dev", port, "root"], root=True)
        if found is None:
            continue
        if isinstance(found, LayeredPlan):
            todo = found.changes(port, None) if kept else found.setup(port)
        else:
            todo = found.commands(port, "change" if kept else "add")
        for command in todo:
            network.router.run(command, root=True)
            commands.append(" ".join(command))
    hops = _hops(network, link)
    commands += _put_hops(network, hops, before, fresh=fresh)
    shaped = Shaped(link, plans, tuple(commands), tuple(hops))
    problems = differences(network, shaped)
    if problems:
        raise LabFault(f"the router does not hold the link it was given: {'; '.join(problems)}", remedy="see `lab doctor`")
    return shaped


def lift_hops(network: Network) -> None:
    """Take away what the link does to UDP alone and to large packets: its line can then be measured by any traffic."""
    _put_hops(network, [], read_qdiscs(network), fresh=True)


def put_hops(network: Network, link: Link) -> None:
    """The opposite of `lift_hops`."""
    _put_hops(network, _hops(network, link), read_qdiscs(network), fresh=True)


def _hops(network: Network, link: Link) -> list[Hop]:
    enters = {"up": network.router_ports.client, "down": network.router_ports.server}
    return [hop for way in DIRECTIONS for hop in hops_of(link.direction(way), way, enters[way])]


def _put_hops(network: Network, hops: Sequence[Hop], before: Qdiscs, *, fresh: bool) -> list[str]:
    """Make the router's own wires those of the link; returns the commands. `fresh`: counters at zero and full buckets."""
    held = sorted(before.keys() & HOPS)
    if not fresh and held == sorted(hop.device for hop in hops) and not any(hop.problems(before[hop.device]) for hop in hops):
        return []
    commands = [command for device in held for command in removal(device)]
    for hop in hops:
        commands += hop.setup((network.server if hop.device.endswith("-up") else network.client).address)
    for command in commands:
        network.router.run(command, root=True)
    return [" ".join(command) for command in commands]


def _below(found: QdiscPlan | LayeredPlan | None) -> list[str] | None:
    """The kinds of qdiscs below the root; None where nothing is to be there."""
    if found is None:
        return None
    return list(found.below) if isinstance(found, LayeredPlan) else []


def refuse_in_real_time(network: Network, link: Link) -> None:
    """Raises NotSupported where the link needs virtual time: a router of real time has no kernel of the lab's choice."""
    if link.virtual_only and network.clock.kind == "real":
        raise NotSupported(f"{link.virtual_only} works in virtual time only", remedy="--clock virtual")


def without_seed(link: Link) -> Link:
    """For a machine in virtual time: the losses of its netem follow from the machine's own seed."""
    ways: dict[str, object] = {"seed": None}
    for name, way in (("up", link.up), ("down", link.down)):
        if way:
            ways[name] = way.model_copy(update={"seed": None})
    return link.model_copy(update=ways)


def differences(network: Network, shaped: Shaped) -> list[str]:
    """The differences between the kernel's qdiscs and the plan, in words; empty when they agree."""
    return read_back(network, shaped)[0]


def read_back(network: Network, shaped: Shaped) -> tuple[list[str], dict[str, list[dict[str, Any]]]]:
    """The `differences`, and the qdiscs of every port as the kernel holds them."""
    qdiscs = read_qdiscs(network)
    problems = []
    for direction in DIRECTIONS:
        port = router_port(network, direction)
        problems += [f"{direction}: {problem}" for problem in compare(shaped.plans[direction], qdiscs[port])]
    wires = qdiscs.keys() & HOPS
    for hop in shaped.hops:
        problems += hop.problems(qdiscs.get(hop.device, []))
    problems += [f"{device} is there, which was not asked" for device in sorted(wires - {hop.device for hop in shaped.hops})]
    return problems, qdiscs
