"""Counts what a shaped link does to packets: numbered datagrams from one end, every frame noted at the other."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.host import Host, Network
from lab.hosts.scripts import script_command
from lab.link.counting import Arrival, Counted
from lab.model.errors import LabFault
from lab.model.link import DirectionName
from lab.net.count_receiver_script import RECORD

_SENDER = Path(__file__).with_name("count_sender_script.py")
_RECEIVER = Path(__file__).with_name("count_receiver_script.py")
_PORT = 4711
_RECORD = struct.Struct(RECORD)
# The receiver's Python is up by then, and later nothing is on its way.
_START_S, _PATIENCE_S = 1.0, 120.0


@dataclass(frozen=True)
class Flow:
    """Datagrams of one size, `interval_ns` apart (0: at once), from `after_s` on; `ecn`: ECT(0) of RFC 3168."""

    count: int
    interval_ns: int = 0
    after_s: float = 0.0
    ecn: bool = False


def count(network: Network, way: DirectionName, flows: Sequence[Flow], *, size: int = 500, drain_s: float = 2.0) -> list[Counted]:
    """Send the flows, all of them over the same link, and say what came of each. `size` is that of the IP packets, bytes.

    Corrupted frames belong to the first flow. Raises LabFault where the receiver missed frames.
    """
    sender, receiver = (network.client, network.server) if way == "up" else (network.server, network.client)
    words = script_command(receiver, _RECEIVER, receiver.tap_port, f"{_PORT}", f"{size}", f"{len(flows)}")
    catching = receiver.start(words, root=True)
    try:
        network.clock.sleep(_START_S)
        _send(network, sender, receiver, flows, size)
        network.clock.sleep(drain_s)
    finally:
        done = catching.stop(grace_s=_PATIENCE_S)
    missed, _, records = done.stdout.removeprefix(b"ready\n").partition(b"\n")
    if not missed.isdigit() or int(missed):
        raise LabFault(f"the counting of packets missed {missed.decode(errors='replace') or done.error_text}")
    found: list[list[Arrival]] = [[] for _ in flows]
    for number, sent_ns, got_ns, _, flow, ecn, intact in _RECORD.iter_unpack(records):
        found[flow if flow < len(flows) else 0].append(Arrival(number, sent_ns, got_ns, ecn, bool(intact)))
    return [Counted(flow.count, tuple(arrivals)) for flow, arrivals in zip(flows, found, strict=True)]


def _send(network: Network, sender: Host, receiver: Host, flows: Sequence[Flow], size: int) -> None:
    """Until all of them are sent."""
    started, passed = [], 0.0
    for index, flow in sorted(enumerate(flows), key=lambda each: each[1].after_s):
        network.clock.sleep(flow.after_s - passed)
        passed = flow.after_s
        what = (f"{flow.count}", f"{flow.interval_ns}", f"{size}", "2" if flow.ecn else "0")
        words = (receiver.address, f"{_PORT + index}", *what)
        started.append(sender.start(script_command(sender, _SENDER, *words)))
    longest_s = max(flow.after_s + flow.count * flow.interval_ns / 1e9 for flow in flows)
    for process in started:
        done = process.wait(longest_s + _PATIENCE_S)
        if done.returncode or done.timed_out:
            raise LabFault(f"packets could not be sent: {done.error_text}")
