"""A link that follows a trace -> tc commands, and when its gates open. Pure: nothing is run here.

A rate becomes openings of a gate, one per millisecond at most, each for full-sized frames. A stall needs no special case: nothing
opens. A packet that comes after an opening waits for the next, as in mahimahi. ADR 0030 has the measurements.

    root 1: prio          its second band is for the frames that wake it
      10: netem           loss and delay; its rate of 100 Gbit/s only keeps the order
        20: netem         the queue; `slot` keeps it shut, and changing it lets some bytes through (lab/net/trace_script.py)
      30: blackhole       a change does not make the kernel look at the queue: a frame of priority 15 does, and ends here
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lab.link.layers import layered
from lab.link.plan import QdiscPlan
from lab.link.theory import frame_bytes, payload_per_segment
from lab.model.link import DirectionName, Link
from lab.model.topology import LinkState
from lab.model.trace import Trace

MS_NS = 1_000_000
GATE = 0x20
"""The gate's handle."""
_SHUT = ("slot", "3600s", "3600s", "bytes", "1")
_PRIORITIES = ("0",) * 15 + ("1",)
_SEEDS = 2**32


def opening_bytes(trace: Trace, link: Link, way: DirectionName) -> list[tuple[int, int]]:
    """The openings of the gate: the time in nanoseconds from the trace's beginning, and the number of bytes."""
    frame = frame_bytes(link.direction(way).mtu)
    return [(at * MS_NS, count * frame) for at, count in enumerate(trace.direction(way).counts) if count]


def period_ns(trace: Trace, way: DirectionName) -> int:
    """The time after which that direction begins again."""
    return len(trace.direction(way).counts) * MS_NS


def gate_packets(trace: Trace, link: Link, way: DirectionName) -> int:
    """The queue in packets: as asked, but at least two of the largest openings, which otherwise could not be used."""
    asked = layered(link.direction(way), link.rtt, supports_seed=True).queue.most_packets
    return max(asked, 2 * max(trace.direction(way).counts))


def delay_line(trace: Trace, state: LinkState, way: DirectionName, index: int = 0) -> QdiscPlan:
    """The netem of loss and delay in that state; `index` of the state decides the seed, as in a schedule."""
    found = layered(state.link.direction(way), state.link.rtt, supports_seed=True).netem
    # Its limit counts what is below it.
    limit = found.limit_packets + gate_packets(trace, state.link, way)
    return replace(found, limit_packets=limit, seed=None if found.seed is None else (found.seed + 2 * index) % _SEEDS)


def setup(trace: Trace, state: LinkState, way: DirectionName, device: str) -> list[tuple[str, ...]]:
    """tc argument lists that make one direction from nothing, its gate shut."""
    add = ("tc", "qdisc", "add", "dev", device)
    packets = str(gate_packets(trace, state.link, way))
    return [
        (*add, "root", "handle", "1:", "prio", "bands", "2", "priomap", *_PRIORITIES),
        _delay(delay_line(trace, state, way), device, "add"),
        (*add, "parent", "10:1", "handle", f"{GATE:x}:", "netem", "limit", packets, *_SHUT),
        (*add, "parent", "1:2", "handle", "30:", "blackhole"),
    ]


def delay_change(trace: Trace, state: LinkState, way: DirectionName, index: int, device: str) -> tuple[str, ...]:
    """The tc arguments that bring the round trip of that state about."""
    return _delay(delay_line(trace, state, way, index), device, "change")


def _delay(found: QdiscPlan, device: str, verb: str) -> tuple[str, ...]:
    (words,) = found.commands(device, "add" if verb == "add" else "change")
    at = words.index("root")
    return (*words[:at], "parent", "1:1", "handle", "10:", *words[at + 1 :])


def planned_bytes(trace: Trace, link: Link, way: DirectionName, slots: int, slot_ms: int) -> list[int]:
    """Frames' bytes that pass in each slot from the beginning on, the trace over and over."""
    counts, frame = trace.direction(way).counts, frame_bytes(link.direction(way).mtu)
    total = _sums(counts)
    upto = [divmod(slot * slot_ms, len(counts)) for slot in range(slots + 1)]
    passed = [rounds * total[-1] + total[rest] for rounds, rest in upto]
    return [(later - earlier) * frame for earlier, later in pairwise(passed)]


def peak_bit_s(trace: Trace, link: Link, way: DirectionName, span_ms: int) -> float:
    """The most that passes in any span of that length, as a rate."""
    return _extreme(trace, way, span_ms, most=True) * frame_bytes(link.direction(way).mtu) * 8e3 / span_ms


def slowest_bit_s(trace: Trace, link: Link, way: DirectionName, span_ms: int) -> float:
    """TCP payload per second in the worst span of that length."""
    return _extreme(trace, way, span_ms, most=False) * payload_per_segment(link.direction(way).mtu) * 8e3 / span_ms


def _extreme(trace: Trace, way: DirectionName, span_ms: int, *, most: bool) -> int:
    """The most or the fewest frames within a span; a trace that is shorter is repeated."""
    counts = trace.direction(way).counts
    around = [*counts, *(counts * (span_ms // len(counts) + 1))[:span_ms]]
    total = _sums(around)
    found = [total[at + span_ms] - total[at] for at in range(len(counts))]
    return max(found) if most else min(found)


def _sums(counts: Sequence[int]) -> list[int]:
    found = [0]
    for count in counts:
        found.append(found[-1] + count)
    return found
