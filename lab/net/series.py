"""Counter readings -> goodput on the wire per exact slot, with the bursts and silences that a mean hides. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from lab.link.theory import MORE_IN_IPV6_BYTES, SEGMENT_OVERHEAD_BYTES
from lab.model.results import WireSeries

HEADER_BYTES = SEGMENT_OVERHEAD_BYTES
"""The bytes that every frame of an established connection carries besides payload."""
# Ethernet 14 + IPv4 20 + UDP 8; QUIC's own headers are encrypted, and count as payload.
_UDP_HEADER_BYTES = 42
SLOT_NS = 10_000_000
WINDOW_SLOTS = 10
# Bounds for SSH's bytes towards the receiver of the content before the first byte (key exchange, authentication, SFTP's INIT and
# STAT: 3 to 5 KB) and after the last one.
_BEFORE_BODY_BYTES = 8 << 10
_AFTER_BODY_BYTES = 1 << 10
_LEAST_BODY_BYTES = 64 << 10
# Both ends are known to half a reading interval: less than ten intervals are too few.
_LEAST_BODY_READINGS = 10
# Less than this per reading does not count as data: a SYN counts 8 (its longer header), an ACK with SACK blocks up to 28, an h2
# WINDOW_UPDATE in TLS 35; the smallest data packet worth the name is far above.
LEAST_DATA_BYTES = 64


class Reading(NamedTuple):
    """A port's transmit counters towards the receiver at one instant."""

    t_ns: int
    bytes: int
    packets: int


def header_bytes(protocol: str, *, ipv6: bool = False) -> int:
    """The bytes that every frame of that protocol carries besides payload."""
    return (_UDP_HEADER_BYTES if protocol == "h3" else HEADER_BYTES) + (MORE_IN_IPV6_BYTES if ipv6 else 0)


def payload_between(first: Reading, last: Reading, headers: int = HEADER_BYTES) -> int:
    """TCP or UDP payload, retransmissions included. ARP and SYN make it a few bytes wrong, never negative."""
    return max(0, last.bytes - first.bytes - headers * (last.packets - first.packets))


def late_slots(times_ns: Sequence[int], base_ns: int, interval_ns: int) -> int:
    """Readings more than half an interval after they were due, and those that never came."""
    late = sum((t_ns - base_ns) % interval_ns > interval_ns // 2 for t_ns in times_ns)
    ticks = [(t_ns - base_ns) // interval_ns for t_ns in times_ns]
    return late + sum(max(0, later - earlier - 1) for earlier, later in pairwise(ticks))


class BodySpan(NamedTuple):
    """First and last byte of the content, as far as a port can tell."""

    start_ns: int
    end_ns: int


def body_span(readings: Sequence[Reading], headers: int = HEADER_BYTES) -> BodySpan | None:
    """For an SSH client without a report. None where there was too little data.

    Each end is the middle of the two readings between which it happened.
    """
    if len(readings) < _LEAST_BODY_READINGS:
        return None
    sent = [payload_between(readings[0], each, headers) for each in readings]
    if sent[-1] < _LEAST_BODY_BYTES:
        return None
    first = next(index for index, payload in enumerate(sent) if payload > _BEFORE_BODY_BYTES)
    last = next(index for index, payload in enumerate(sent) if payload > sent[-1] - _AFTER_BODY_BYTES)
    if first == 0 or last - first < _LEAST_BODY_READINGS:
        return None
    start, end = ((readings[index - 1].t_ns + readings[index].t_ns) // 2 for index in (first, last))
    return BodySpan(start, end)


def build_series(
    readings: Sequence[Reading], *, late: int = 0, slot_ns: int = SLOT_NS, headers: int = HEADER_BYTES
) -> WireSeries | None:
    """From the reading before the first data to the one after the last; None when there was no data.

    Readings may be uneven: payload is spread evenly between two of them, so it is conserved, and slots are exact. The first and
    last slot hold a beginning and an end, so the slowest window leaves them out. The longest gap is counted in readings without
    data: it is at most two reading intervals shorter than the real silence.
    """
    steps = [(earlier, later, payload_between(earlier, later, headers)) for earlier, later in pairwise(readings)]
    with_data = [index for index, step in enumerate(steps) if step[2] >= LEAST_DATA_BYTES]
    if not with_data:
        return None
    steps = steps[with_data[0] : with_data[-1] + 1]
    slots = _resample(steps, slot_ns)
    window_s = WINDOW_SLOTS * slot_ns / 1e9
    fastest = [total / window_s for total in _windows(slots)]
    slowest = [total / window_s for total in _windows(slots[1:-1])]
    return WireSeries(
        slot_ms=slot_ns / 1e6,
        goodput_bit_s=[slot * 8e9 / slot_ns for slot in slots],
        worst_window_byte_s=max(fastest, default=None),
        slowest_window_byte_s=min(slowest, default=None),
        longest_gap_ms=_longest_gap_ns(steps) / 1e6,
        late_slots=late,
    )


def _resample(steps: Sequence[tuple[Reading, Reading, int]], slot_ns: int) -> list[float]:
    """Bytes per slot. The first slot begins with the first step; the total stays the same."""
    origin = steps[0][0].t_ns
    slots = [0.0] * -(-(steps[-1][1].t_ns - origin) // slot_ns)
    for earlier, later, payload in steps:
        start, end = earlier.t_ns - origin, later.t_ns - origin
        for index in range(start // slot_ns, -(-end // slot_ns)):
            overlap = min(end, (index + 1) * slot_ns) - max(start, index * slot_ns)
            slots[index] += payload * overlap / (end - start)
    return slots


def _windows(slots: Sequence[float]) -> list[float]:
    return [math.fsum(slots[start : start + WINDOW_SLOTS]) for start in range(len(slots) - WINDOW_SLOTS + 1)]


def _longest_gap_ns(steps: Sequence[tuple[Reading, Reading, int]]) -> int:
    longest, since = 0, steps[0][0].t_ns
    for earlier, later, payload in steps:
        if payload >= LEAST_DATA_BYTES:
            longest, since = max(longest, earlier.t_ns - since), later.t_ns
    return longest
