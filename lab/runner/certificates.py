"""Certificates of links in virtual time: taken once per kernel, link and plan, and kept by the digest of all they depend on.

A link's calibration there is exact, and the same whenever it is taken. It is taken in a machine of its own, so that a cell goes
the same way whether its certificate was there before or not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from lab.assets import kernel, store
from lab.assets.tools import host_program
from lab.backend.host import Network
from lab.backend.virtual.machine import derived_seed
from lab.errors import ThroughlineError
from lab.link.plan import plan
from lab.network.calibrate import Tolerance, calibrate
from lab.network.guard import assert_no_bypass
from lab.network.pins import pin
from lab.network.shape import shape
from lab.paths import cache_dir
from lab.result.models import Calibration
from lab.server.iperf3 import launch as launch_iperf3
from lab.server.process import wait_ready
from lab.spec.models import Topology

# Raise when what is measured, or how, changes in a way that the link and the kernel do not show.
_EDITION = 2
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()

Open = Callable[[int], Network]
"""A network in virtual time from its seed."""


def certificate_key(topology: Topology, tolerance: Tolerance, charge: tuple[int, int]) -> str:
    """SHA-256 of all that the calibration of a link follows from, 64 hexadecimal digits."""
    link = topology.link
    planned = [plan(link.direction(way), link.rtt, supports_seed=True) for way in ("up", "down")]
    facts = {
        "edition": _EDITION,
        "kernel": kernel.facts().sha256,
        "charge": charge,
        "link": link.model_dump(mode="json"),
        "plan": [repr(each) for each in planned],
        "congestion_control": topology.congestion_control,
        "tolerance": [tolerance.goodput, tolerance.rtt_ms],
        "programs": {name: store.digest(Path(host_program(name))) for name in ("iperf3", "tc", "ping")},
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def certified(topology: Topology, tolerance: Tolerance, charge: tuple[int, int], opened: Open) -> Calibration:
    """The calibration of that link, from the cache or taken now. Raises LabFault where it cannot be taken."""
    key = certificate_key(topology, tolerance, charge)
    path = cache_dir() / "certificates" / f"{key}.json"
    with _locks_lock:
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        if found := _kept(path):
            return found
        taken = take(topology, tolerance, opened, key)
        _keep(path, taken)
        return taken


def take(topology: Topology, tolerance: Tolerance, opened: Open, key: str) -> Calibration:
    """Calibrate the link in a machine of its own, whose seed is the certificate's."""
    network = opened(derived_seed(0, "certificate", key))
    try:
        pin(network, topology.congestion_control, topology.link.mtu)
        assert_no_bypass(network)
        wait_ready([launch_iperf3(network.server)])
        shape(network, topology.link)
        return calibrate(network, topology.link, topology.congestion_control, tolerance=tolerance)
    finally:
        network.close()


def _kept(path: Path) -> Calibration | None:
    try:
        return Calibration.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        return None


def _keep(path: Path, taken: Calibration) -> None:
    """Whole or not at all; where the cache cannot be written it is taken again next time."""
    with contextlib.suppress(OSError, ThroughlineError), store.whole_file(path) as part:
        part.write_text(taken.model_dump_json(indent=1))
