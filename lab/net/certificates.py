"""Certificates of links in virtual time: taken once per kernel, link and plan, and cached by a digest of all their inputs.

In virtual time a calibration is exact and repeatable. It runs in a separate machine, so that a cell gives the same result
with and without a cached certificate.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from lab.assets import kernel
from lab.assets.tools import host_program
from lab.hosts.host import Network
from lab.hosts.virtual.machine import derived_seed
from lab.link.layers import link_plan
from lab.link.schedule import slowest_goodput_bit_s
from lab.link.theory import payload_per_segment
from lab.model import files
from lab.model.cell import Cell
from lab.model.errors import RoughwaterError
from lab.model.link import Link, carrier
from lab.model.paths import cache_dir
from lab.model.results import Calibration, Certificate, PathCertificate
from lab.model.topology import Topology
from lab.model.trace import Trace
from lab.net.calibrate import Tolerance, calibrate, wait_for_silence
from lab.net.delivered import certify_trace
from lab.net.guard import assert_no_bypass
from lab.net.path import certify_path, shape_nodes
from lab.net.pins import pin
from lab.net.shape import Shaped, shape
from lab.servers.iperf3 import launch as launch_iperf3
from lab.servers.process import wait_ready

# Raise when what is measured, or how, changes in a way that the link and the kernel do not show.
_EDITION = 2
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()

Kept = TypeVar("Kept", Calibration, PathCertificate)
Open = Callable[[int], Network]
"""A network in virtual time from its seed."""


def certificate_key(topology: Topology, tolerance: Tolerance, charge: tuple[int, int]) -> str:
    """SHA-256 of all that the calibration of a link follows from, 64 hexadecimal digits."""
    link = topology.link
    planned = [link_plan(link.direction(way), link.rtt, supports_seed=True) for way in ("up", "down")]
    facts = {
        "edition": _EDITION,
        "kernel": kernel.facts().sha256,
        "charge": charge,
        "link": link.model_dump(mode="json"),
        "plan": [repr(each) for each in planned],
        "congestion_control": topology.congestion_control,
        "tolerance": [tolerance.goodput, tolerance.rtt_ms],
        **({"same_host": True} if topology.same_host else {}),
        **({"trace": trace.model_dump(mode="json")} if (trace := _trace_of(topology)) else {}),
        "programs": {name: files.digest(Path(host_program(name))) for name in ("iperf3", "tc", "ping")},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def certified(topology: Topology, tolerance: Tolerance, charge: tuple[int, int], opened: Open) -> Calibration:
    """The calibration of that link, from the cache or taken now. Raises LabFault where it cannot be taken."""
    key = certificate_key(topology, tolerance, charge)
    return _once(key, f"{key}.json", Calibration, lambda: take(topology, tolerance, opened, key))


def _once(key: str, file: str, kind: type[Kept], taken: Callable[[], Kept]) -> Kept:
    """The certificate under that name in the cache, or else a new one, which is kept there. One thread takes it."""
    path = cache_dir() / "certificates" / file
    with _locks_lock:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        if found := _kept(path, kind):
            return found
        made = taken()
        _keep(path, made)
        return made


@contextlib.contextmanager
def _alone(topology: Topology, opened: Open, *purpose: str) -> Iterator[Network]:
    """A network of its own with that link and iperf3's server; its seed follows from the purpose."""
    network = opened(derived_seed(0, *purpose))
    try:
        pin(network, topology.congestion_control, topology.link.mtu)
        assert_no_bypass(network)
        wait_ready([launch_iperf3(network.server)])
        shape(network, topology.link)
        yield network
    finally:
        network.close()


def take(topology: Topology, tolerance: Tolerance, opened: Open, key: str) -> Calibration:
    """Calibrate the link in a machine of its own, whose seed is the certificate's."""
    with _alone(topology, opened, "certificate", key) as network:
        found = calibrate(network, topology.link, topology.congestion_control, tolerance=tolerance)
        return _with_trace(network, topology, found) if found.ok and _trace_of(topology) else found


def _trace_of(topology: Topology) -> Trace | None:
    schedule = topology.schedule
    return schedule.trace if schedule and isinstance(schedule.trace, Trace) else None


def _with_trace(network: Network, topology: Topology, found: Calibration) -> Calibration:
    # The calibration leaves frames of other sizes behind, of which an opening lets one too many through.
    wait_for_silence(network, topology.link)
    delivery = certify_trace(network, topology)
    sides = {"up": delivery.up, "down": delivery.down}
    problems = [f"{way}: {problem}" for way, side in sides.items() for problem in side.problems]
    return found.model_copy(update={"trace": delivery, "problems": problems, "ok": not problems})


def _kept(path: Path, kind: type[Kept]) -> Kept | None:
    try:
        return kind.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        return None


def _keep(path: Path, taken: Calibration | PathCertificate) -> None:
    """Write the calibration atomically. If the cache cannot be written, the next session calibrates again."""
    with contextlib.suppress(OSError, RoughwaterError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as part:
            part.write_text(taken.model_dump_json(indent=1))


def certified_path(
    topology: Topology, links: Mapping[str, Calibration], tolerance: Tolerance, charge: tuple[int, int], opened: Open
) -> PathCertificate:
    """The proof of a path whose links have these calibrations, from the cache or taken now. Raises LabFault."""
    key = _path_key(topology, tolerance, charge)

    def taken() -> PathCertificate:
        with _alone(topology, opened, "path", key) as network:
            shape_nodes(network, topology)
            return certify_path(network, topology, links, tolerance=tolerance)

    return _once(key, f"path-{key}.json", PathCertificate, taken)


def _path_key(topology: Topology, tolerance: Tolerance, charge: tuple[int, int]) -> str:
    """The keys of its links in their order, and its nodes."""
    alone = [topology.link, *(node.link for node in topology.wiring.nodes if node.link)]
    keys = [certificate_key(only(topology, link), tolerance, charge) for link in alone]
    nodes = [each if isinstance(each, str) else each.model_dump_json() for each in topology.path]
    return hashlib.sha256(json.dumps([_EDITION, *keys, *nodes]).encode()).hexdigest()


def only(topology: Topology, link: Link) -> Topology:
    """A network of that link alone, as it is certified."""
    return Topology(name=topology.name, description="-", link=link, congestion_control=topology.congestion_control)


def too_slow(cell: Cell, calibration: Calibration, path: PathCertificate | None = None) -> str:
    """The reason why the link, or the rest of the path, is too slow to judge the cell's limit; empty if they are not."""
    needed = cell.needed_byte_s
    if needed is None:
        return ""
    way = carrier(cell.transfer.direction)
    looks = [calibration, *([path.combined] if path else [])]
    carried_bit_s = min((look.down if way == "down" else look.up).goodput_bit_s for look in looks)
    if schedule := cell.topology.schedule:
        carried_bit_s = min(carried_bit_s, slowest_goodput_bit_s(cell.topology.link, schedule, way))
    if cell.topology.ip != 4:  # the certificate is of IPv4
        mtu = cell.topology.link.mtu
        carried_bit_s *= payload_per_segment(mtu, ipv6=True) / payload_per_segment(mtu)
    if carried_bit_s >= needed * 8:
        return ""
    limit_bit_s = (cell.transfer.limit_byte_s or 0) * 8
    worst = " at its worst" if schedule else ""
    return (
        f"the link carries {carried_bit_s / 1e6:.2f} Mbit/s{worst}, too little to judge a limit of {limit_bit_s / 1e6:.2f} Mbit/s"
    )


def lab_problems(cell: Cell, certificate: Certificate) -> list[str]:
    """The reasons why the lab was not what it claims; empty when it was."""
    problems = [f"before: {problem}" for problem in certificate.before[-1].problems]
    problems += certificate.path.problems if certificate.path else []
    if certificate.after:
        problems += [f"after: {problem}" for problem in certificate.after[-1].problems]
    if slow := too_slow(cell, certificate.before[-1], certificate.path):
        problems.append(slow)
    return problems


def begin_certificate(
    cell: Cell, shaped: Shaped, before: list[Calibration], tolerance: Tolerance, path: PathCertificate | None = None
) -> Certificate:
    """The certificate before the samples; the calibrations after them are still missing."""
    return Certificate(
        link=cell.topology.link,
        congestion_control=cell.topology.congestion_control,
        goodput_tolerance=tolerance.goodput,
        rtt_tolerance_ms=tolerance.rtt_ms,
        path=path,
        before=before,
        after=[],
        qdisc_commands=list(shaped.commands),
        qdisc_readback={},
    )
