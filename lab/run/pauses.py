"""A sender's pauses, and the cause that ended each: its own program, a message of its peer, or room in its send buffer.

The sender's port sees every byte and every acknowledgement, so the bytes on the way are known at each instant. A buffer that held
a program back was full when the pause began, and the pause ends with the acknowledgement that brings the buffer down to two
thirds: only there the kernel wakes a program that waits for room (sk_stream_write_space, net/core/stream.c). A look alone cannot
tell such a program from another that has just filled its buffer and does not want to write. And a buffer whose size the kernel
chooses grows as soon as an acknowledgement finds a program that waits (tcp_new_space, net/ipv4/tcp_input.c): if the buffer did
not grow, no program waited.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.judge.diagnosis import Answer
from lab.net.sockets import Look
from lab.net.tap import Content

_OPENING_BYTES = 16 << 10
"""An upper bound for the exchange of TLS or SSH before content; measured: less than 8 KiB for each."""
_AT_ONCE_NS = 500_000
"""A program's turn in virtual time: some fifty system calls of up to 10 us."""
_TRIPS = 2.5
_PAUSE_NS = 50_000_000
_RTT_SHARE, _RTT_NS = 0.05, 1_000_000
_FULL, _ROOM_ABOVE, _ROOM_BELOW = 0.85, 0.6, 0.72
"""Shares of the send buffer: when it counts as full, and between which of them the kernel's two thirds are crossed."""
_ROOM_NS = 100_000
"""From the acknowledgement to what the woken program writes: a few system calls."""
_HEADERS, _DESCRIPTOR = 524, 256
"""Bytes of memory of a segment besides its content (its headers and struct skb_shared_info; struct sk_buff) in the kernel of
virtual time: it begins with 46080 bytes, ten segments twice. Others have room for longer headers, and begin with 87040."""
_RATIO = 1.1
"""Memory of a segment to its content, where no look shows it."""


@dataclass(frozen=True)
class Connection:
    """One connection as its sender saw it; `out` and `back` are content that left and that came, `acks` times and positions."""

    start_ns: int
    end_ns: int
    looks: Sequence[Look]
    out: Sequence[Content]
    back: Sequence[Content]
    acks: Sequence[tuple[int, int]] = field(default=())

    @property
    def content(self) -> int:
        return self.out[-1].position


class Part(NamedTuple):
    """Some time of a sender. `idle`: its program did not write, whatever TCP did meanwhile with what it had written before."""

    start_ns: int
    end_ns: int
    answer: Answer
    idle: bool

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def middle_ns(self) -> int:
        return (self.start_ns + self.end_ns) // 2


class Pauses:
    """Every pause of one sender."""

    def __init__(self, each: Connection, idle_us: int) -> None:
        self._each = each
        self._ends = [event.t_ns for event in each.out]
        self._came = [event.t_ns for event in each.back]
        self._acked = [t_ns for t_ns, _ in each.acks]
        self._looked = [look.t_ns for look in each.looks]
        self._written = self._all_written()
        rtts = [look.rtt_us for look in each.looks if look.rtt_us] or [idle_us]
        self._least_ns = round(idle_us * 1e3 * (1 - _RTT_SHARE))
        self._most_ns = round(max(rtts) * 1e3 * (1 + _RTT_SHARE)) + _RTT_NS
        self._answers = [self._ended_by(place) for place in range(len(each.out))]
        self._idle = list(self._idles())
        self._idle_ends = [end_ns for _, end_ns in self._idle]

    def cut(self, start_ns: int, end_ns: int, *, waits_for_network: bool) -> list[Part]:
        """Cut a time into parts, each with the cause of its wait. While TCP waits for the network, only idle times differ."""
        found: list[Part] = []
        at = start_ns
        while at < end_ns:
            place = bisect_right(self._idle_ends, at)
            idle_ns, until_ns = self._idle[place] if place < len(self._idle) else (end_ns, end_ns)
            if idle_ns <= at:
                found.append(Part(at, min(end_ns, until_ns), "none", idle=True))
            elif waits_for_network:
                found.append(Part(at, min(end_ns, idle_ns), "none", idle=False))
            else:
                place = bisect_right(self._ends, at)
                to_ns = min(end_ns, idle_ns, self._ends[place] if place < len(self._ends) else end_ns)
                found.append(Part(at, to_ns, self._answers[place] if place < len(self._ends) else "none", idle=False))
            at = found[-1].end_ns
        return found

    def _idles(self) -> Iterator[tuple[int, int]]:
        """From where the program had written all that was sent before, to where it wrote again by itself.

        A queue that runs empty is not what its writer waits for. So the time in which TCP sends what it has is the program's.
        """
        for place, answer in enumerate(self._answers):
            if answer != "none" or not place or not self._emptied(place):
                continue
            before, following = self._each.out[place - 1], self._each.out[place]
            written = bisect_left(self._written, before.position)
            from_ns = min(before.t_ns, self._looked[written]) if written < len(self._looked) else before.t_ns
            yield from_ns, following.t0_ns

    def _all_written(self) -> list[int]:
        """The number of bytes that the program had written at each look: the sent and the unsent ones."""
        found, most = [], 0
        for look in self._each.looks:
            place = bisect_right(self._ends, look.t_ns) - 1
            most = max(most, (self._each.out[place].position if place >= 0 else 0) + look.unsent)
            found.append(most)
        return found

    def _emptied(self, place: int) -> bool:
        """True if a look in the pause before this content saw that TCP had nothing to send, and the content was written later.

        Less than a segment may be held back (Nagle, RFC 896): its departure alone does not show that the program wrote.
        """
        following = self._each.out[place]
        first, last = bisect_left(self._looked, self._each.out[place - 1].t_ns), bisect_left(self._looked, following.t0_ns)
        if first == last or following.position <= self._written[last - 1]:
            return False
        return any(not look.waits_for_network for look in self._each.looks[first:last])

    def _ended_by(self, place: int) -> Answer:
        """The cause that ended the pause before this content."""
        following = self._each.out[place]
        before = self._each.out[place - 1] if place else None
        came = bisect_left(self._came, following.t0_ns + 1) - 1
        answers = came >= 0 and following.t0_ns - self._came[came] <= _AT_ONCE_NS
        position = before.position if before else 0
        if position < _OPENING_BYTES:
            pause_ns = following.t0_ns - max(before.t_ns if before else 0, self._came[came] if came >= 0 else 0)
            if answers or pause_ns <= _TRIPS * self._least_ns + _PAUSE_NS:
                return "opening"
        if before is not None and self._room(before, following.t0_ns):
            return "room"
        if not answers:
            return "none"
        return "at once" if self._sent_between(self._came[came] - self._most_ns, self._came[came] - self._least_ns) else "late"

    def _room(self, before: Content, t0_ns: int) -> bool:
        """True if a full send buffer came down to two thirds just before `t0_ns`."""
        acked = bisect_right(self._acked, t0_ns) - 1
        if acked < 0 or t0_ns - self._acked[acked] > _ROOM_NS or not self._each.looks:
            return False
        looked = min(bisect_left(self._looked, t0_ns), len(self._looked) - 1)
        near = self._each.looks[max(0, looked - 1) : looked + 1]
        size = max(look.send_buffer for look in near)
        if chosen(size, near[-1].mss):
            return near[0].send_buffer < size
        ratios = [ratio for look in near if (ratio := self._ratio(look))]
        ratio = math.fsum(ratios) / len(ratios) if ratios else _RATIO
        full, above, below = (ratio * (before.position - self._acked_at(t_ns)) for t_ns in (before.t_ns, t0_ns - _ROOM_NS, t0_ns))
        return full >= _FULL * size and above >= _ROOM_ABOVE * size and below <= _ROOM_BELOW * size

    def _ratio(self, look: Look) -> float:
        """The send buffer's memory to the content in it."""
        place = bisect_right(self._ends, look.t_ns) - 1
        content = (self._each.out[place].position if place >= 0 else 0) - self._acked_at(look.t_ns) + look.unsent
        return look.buffered / content if content > look.mss else 0.0

    def _acked_at(self, t_ns: int) -> int:
        place = bisect_right(self._acked, t_ns) - 1
        return self._each.acks[place][1] if place >= 0 else 0

    def _sent_between(self, start_ns: int, end_ns: int) -> bool:
        place = bisect_left(self._ends, start_ns)
        return place < len(self._each.out) and self._each.out[place].t0_ns <= end_ns


def chosen(size: int, mss: int) -> bool:
    """True if the kernel chose the size of a send buffer, and did not reach the most that it may choose (tcp_wmem).

    The kernel chooses memory for twice some segments (tcp_sndbuf_expand, net/ipv4/tcp_input.c); SO_SNDBUF sets any size.
    """
    each = (1 << (mss + _HEADERS - 1).bit_length()) + _DESCRIPTOR
    return size % (2 * each) == 0
