"""The delivery of a full link that changes: both directions are kept full, and the router's output is counted per slot.

A link that follows a trace has its certificate from this: the series as delivered against the trace.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lab.hosts.host import Network, Process
from lab.hosts.scripts import script_command
from lab.link.schedule import fastest_bit_s
from lab.link.theory import frame_bytes
from lab.link.trace import planned_bytes
from lab.model.errors import LabFault
from lab.model.link import DirectionName
from lab.model.results import TraceDelivery, TraceDirectionDelivery
from lab.model.topology import Topology
from lab.model.trace import Trace
from lab.net.ports import PortReading, PortSampler
from lab.net.scheduled import scheduled
from lab.net.shape import DIRECTIONS, router_port

_FLOOD = Path(__file__).with_name("flood_script.py")
SLOT_MS = 100
_SLOT_NS = SLOT_MS * 10**6
# Two readings per opening of a trace, so that one lies between any two.
_INTERVAL_MS = 0.5
# More than the link carries and loses, so that packets always wait for it.
_OVER = 1.2
# The senders have started, and what they sent has come through the delay.
_FILL_S = 0.3
# The errors allowed of a trace: in the mean, and in a slot, where a frame is allowed too.
MEAN_ERROR, SLOT_ERROR = 0.001, 0.01
MOST_SLOTS = 300
"""Half a minute: a longer trace is certified by its beginning."""


@dataclass(frozen=True)
class Delivered:
    """Frames' bytes per slot of 100 ms from the schedule's beginning on, by direction."""

    slots: Mapping[DirectionName, tuple[int, ...]]


def deliver(network: Network, topology: Topology, slots: int) -> Delivered:
    """Fill both directions during the first `slots` of 100 ms of the topology's schedule. Raises LabFault as `scheduled`."""
    link, schedule = topology.link, topology.schedule
    assert schedule is not None, "a link that stays as it is has a calibration"
    with ExitStack() as stack:
        running = stack.enter_context(scheduled(network, topology))
        assert running is not None
        ports = stack.enter_context(PortSampler(network, interval_ms=_INTERVAL_MS))
        floods: list[Process] = [host.start(script_command(host, _FLOOD), root=True) for host in (network.client, network.server)]
        for way in DIRECTIONS:
            sender, receiver = (network.client, network.server) if way == "up" else (network.server, network.client)
            bit_s = round(_OVER * fastest_bit_s(link, schedule, way) / (1 - link.direction(way).loss.value))
            words = (receiver.address, f"{bit_s}", f"{link.direction(way).mtu}")
            floods.append(sender.start(script_command(sender, _FLOOD, *words)))
        network.clock.sleep(_FILL_S + link.rtt.s)
        running.start()
        # In pieces: a machine that computes for long without answering is ended.
        end_ns = running.base_ns + slots * _SLOT_NS
        while (left_s := (end_ns - network.clock.monotonic_ns()) / 1e9) > 0:
            network.clock.sleep(min(1.0, left_s))
        rows = ports.between(running.base_ns, network.clock.monotonic_ns())
        for flood in floods:
            if not flood.running():
                raise LabFault(f"the link was not kept full: {flood.stop().error_text}")
            flood.stop(0.0)
    times = [row.t_ns for row in rows]
    found: dict[DirectionName, tuple[int, ...]] = {}
    for way in DIRECTIONS:
        port = router_port(network, way)
        sent = [_sent_by(rows, times, port, running.base_ns + slot * _SLOT_NS) for slot in range(slots + 1)]
        found[way] = tuple(later - earlier for earlier, later in pairwise(sent))
    return Delivered(found)


def certify_trace(network: Network, topology: Topology, *, most_slots: int = MOST_SLOTS) -> TraceDelivery:
    """The link's delivery of its trace, both ways at once, at its first round-trip time. Raises LabFault as `deliver`."""
    schedule = topology.schedule
    assert schedule is not None
    assert isinstance(schedule.trace, Trace)
    trace = schedule.trace.model_copy(update={"rtts": ()})
    still = topology.model_copy(update={"schedule": schedule.model_copy(update={"trace": trace})})
    longest_ms = max(len(trace.direction(way).counts) for way in DIRECTIONS)
    slots = min(most_slots, -(-longest_ms // SLOT_MS))
    found = deliver(network, still, slots)
    up, down = (
        compare(
            found.slots[way],
            planned_bytes(trace, topology.link, way, slots, SLOT_MS),
            frame_bytes(topology.link.direction(way).mtu),
        )
        for way in ("up", "down")
    )
    return TraceDelivery(slot_ms=SLOT_MS, up=up, down=down)


def compare(delivered: Sequence[int], planned: Sequence[int], frame: int) -> TraceDirectionDelivery:
    """Both series, how far they are apart, and whether that is allowed."""
    errors = [got - wanted for got, wanted in zip(delivered, planned, strict=True)]
    worst = max(range(len(errors)), key=lambda slot: abs(errors[slot]))
    total = math.fsum(planned)
    mean_error = math.fsum(errors) / total if total else 0.0
    problems = []
    # A frame may be on either side of the end.
    if abs(math.fsum(errors)) > max(MEAN_ERROR * total, frame):
        problems.append(f"the mean is {mean_error:+.3%} from the trace (allowed {MEAN_ERROR:.1%})")
    late = [slot for slot, error in enumerate(errors) if abs(error) > max(SLOT_ERROR * planned[slot], frame)]
    if late:
        first = late[0]
        problems.append(
            f"{len(late)} slots of {SLOT_MS} ms differ from the trace by more than {SLOT_ERROR:.0%} and a frame, the first after "
            f"{first * SLOT_MS / 1000:g} s by {errors[first] / frame:+.1f} frames"
        )
    return TraceDirectionDelivery(
        delivered_bytes=list(delivered),
        planned_bytes=list(planned),
        worst_slot_frames=errors[worst] / frame,
        mean_error=mean_error,
        problems=problems,
    )


def _sent_by(rows: Sequence[PortReading], times: Sequence[int], port: str, at_ns: int) -> int:
    """Bytes sent before that instant, by the last reading before it: one at that instant may be before or after an opening."""
    return rows[max(0, bisect_left(times, at_ns) - 1)][port].tx_bytes
