"""What a transfer of a known rate leaves at its receiver's port: packets, the receive queue, the router's counters.

The bytes are those that the kernel gives the lab's own scripts: blocks of a packet ring (TPACKET_V3), /proc/net/tcp and
/proc/net/dev. Only the router, the client and the kernels between them are left out. The flights and sizes around the content are
ferry's, as the tap of a machine in virtual time saw them; `tests/torment/compare.py` holds the two to each other.
"""

from __future__ import annotations

import mmap
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.net import tap_script
from lab.net.series import HEADER_BYTES

Numbers = NDArray[np.int64]
_Steps = tuple[list[int], list[int]]
"""Instants in order, and what had been reached by each."""

MSS = 1448
RTT_NS, LINK_BYTE_S = 8_000_000, 50e6 / 8
"""Of `tests.support.liars.NEAR`."""
WALL_CLOCK_NS = 1_767_225_600 * 10**9
"""What the wall clock is ahead of the monotonic one."""
PORTS = {"http1": 80, "h2": 443, "sftp": 22}
_FIN, _SYN, _ACK = 1, 2, 16
_HOST, _OUTGOING = 0, 4
_FRAME_NS = round((MSS + HEADER_BYTES) / LINK_BYTE_S * 1e9)
_START_NS, _THINK_NS, _EXIT_NS = 200_000, 10_000, 20_000
# ferry wakes up every 3 ms for what its limit lets through meanwhile, and keeps the last bytes for the end.
_TURN_NS, _LAST_BYTES = 3_000_000, 750
_FIRST_WINDOW = 10
# Segments are lost and copied only between these: the first ones say when the body begins, and its last byte comes when the
# client's limit says.
_CERTAIN, _SPOILT = 10, 0.8

# TPACKET_V3's header, the address behind it, and the packet (include/uapi/linux/if_packet.h): 128 bytes of it are kept.
_PACKET = np.dtype([
    ("next", "<u4"), ("sec", "<u4"), ("nsec", "<u4"), ("snap", "<u4"), ("len", "<u4"), ("status", "<u4"),
    ("mac", "<u2"), ("net", "<u2"), ("hash", "V20"),
    ("family", "<u2"), ("ethertype", ">u2"), ("index", "<i4"), ("hardware", "<u2"), ("kind", "u1"), ("rest", "V21"),
    ("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"),
    ("ip_sum", ">u2"), ("source", "V4"), ("target", "V4"),
    ("port", ">u2"), ("peer_port", ">u2"), ("sequence", ">u4"), ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"),
    ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2"), ("options", "V12"), ("content", "V76"),
])  # fmt: skip
_NET, _SNAPPED = 80, 128
_BLOCK_HEADER = 48
_ENDS = {True: np.void(bytes((10, 77, 1, 2))), False: np.void(bytes((10, 77, 2, 2)))}

Flight = tuple[bool, int]
"""From the client or not, and how many bytes."""


@dataclass(frozen=True)
class Shape:
    """What surrounds the content of a protocol, one way. `head` precedes it in its stream, `frame` each `record` bytes of it."""

    opening: Sequence[Flight]
    head: int
    closing: Sequence[Flight] = ()
    record: int = 0
    frame: int = 0
    answers: int = 0
    """What the receiver says for each turn of the sender's."""


_C, _S = True, False
_KEYS = ((_C, 792), (_S, 1088), (_C, 48), (_S, 532), (_C, 68), (_S, 52), (_C, 148), (_S, 100), (_C, 228), (_S, 36), (_C, 52))
SHAPES = {
    ("http1", "get"): Shape(((_C, 83),), head=258),
    ("http1", "put"): Shape((), head=110, closing=((_S, 168),)),
    ("h2", "get"): Shape(
        ((_C, 1472), (_S, 812), (_C, 211), (_S, 604), (_C, 31)), head=162, closing=((_C, 63),), record=8192, frame=31
    ),
    ("h2", "put"): Shape(
        ((_C, 1472), (_S, 813), (_C, 64), (_S, 604)), head=100, closing=((_S, 99),), record=8192, frame=31
    ),
    ("sftp", "get"): Shape(
        ((_C, 21), (_S, 41), *_KEYS, (_S, 412), (_S, 52), (_C, 52), (_S, 72), (_C, 216), (_S, 468), (_C, 164)),
        head=0, closing=((_S, 84), (_C, 904)), record=32768, frame=74,
    ),
    ("sftp", "put"): Shape(
        ((_C, 21), (_S, 41), *_KEYS, (_S, 412), (_S, 52), (_C, 52), (_S, 72), (_C, 104), (_S, 420)),
        head=0, closing=((_C, 84), (_S, 68), (_C, 196), (_S, 100)), record=6000, frame=52, answers=68,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Wire:
    """One transfer at its receiver's port. Instants are the monotonic clock's; the counters are of the router's two ports."""

    packets: NDArray[np.void]
    times: list[int]
    ended_ns: int
    body_s: float
    _content: _Steps
    """How long the stream towards the receiver was, in order."""
    _taken: _Steps
    """How much of that its program had taken."""
    _frames: tuple[_Steps, _Steps]
    """Bytes of frames towards the receiver, and from it."""

    def unread(self, now: int) -> int:
        """Bytes in the receiver's queue."""
        if now >= self._taken[0][-1]:
            return 0
        return max(0, _at(self._content, now)[0] - _at(self._taken, now)[0])

    def counters(self, now: int) -> tuple[int, int, int, int]:
        """Bytes and packets towards the receiver, bytes and packets from it."""
        return *_at(self._frames[0], now), *_at(self._frames[1], now)


def _at(steps: _Steps, now: int) -> tuple[int, int]:
    """What had been reached, and by how many steps."""
    place = bisect_right(steps[0], now)
    return steps[1][place - 1] if place else 0, place


def _steps(times: Numbers, reached: Numbers) -> _Steps:
    return times.tolist(), reached.tolist()


class _Way:
    """One way of the connection: its segments in the order of their sequence numbers."""

    def __init__(self) -> None:
        self.times: list[Numbers] = []
        self.sizes: list[Numbers] = []

    def add(self, t_ns: Numbers, sizes: Numbers) -> None:
        self.times.append(t_ns)
        self.sizes.append(sizes)

    def flight(self, t_ns: int, size: int, *, sent: bool) -> int:
        """Its segments, spaced as the link spaces what has come over it; when the last one passes."""
        sizes = _segments(size)
        times = t_ns + (np.cumsum(sizes + HEADER_BYTES) * 1_000_000_000 // round(LINK_BYTE_S) if not sent else sizes * 0)
        self.add(times, sizes)
        return int(times[-1])

    @property
    def all(self) -> tuple[Numbers, Numbers]:
        return np.concatenate(self.times), np.concatenate(self.sizes)


def _segments(size: int) -> Numbers:
    full, rest = divmod(size, MSS)
    return np.array([MSS] * full + [rest] * (rest > 0), dtype=np.int64)


def make(begin_ns: int, protocol: str, way: str, size: int, byte_s: float, chance: random.Random, *, spoil: float = 0.0) -> Wire:
    """A transfer that begins at `begin_ns` and keeps `byte_s` from its first byte of content to the last one.

    `spoil` is the share of segments that are lost on the way and sent again, and the same share is copied.
    """
    shape, get = SHAPES[protocol, way], way == "get"
    toward, back = _Way(), _Way()
    opened_ns = begin_ns + _START_NS + (0 if get else RTT_NS // 2)
    now = opened_ns + RTT_NS
    before = get
    for from_client, count in shape.opening:
        # A peer's answer comes a round trip after what the receiver said; what the receiver says follows at once.
        now += _THINK_NS if from_client in (get, before) else RTT_NS
        before = from_client
        now = (back if from_client == get else toward).flight(now, count, sent=from_client == get)
    first_ns = now + (RTT_NS if before == get else _THINK_NS)
    body_ns = round(size / byte_s * 1e9)
    records = -(-size // shape.record) if shape.record else 0
    stream = shape.head + size + records * shape.frame
    arrived, sizes, taken = (_taken_by_client if get else _sent_by_client)(first_ns, body_ns, stream, chance)
    prefix, before_content = (sum(int(each) for each in toward.all[1]), len(toward.all[1])) if toward.sizes else (0, 0)
    content = before_content + _CERTAIN, before_content + round(_SPOILT * len(sizes))
    toward.add(arrived, sizes)
    if shape.answers:
        turns = arrived[np.append(np.flatnonzero(np.diff(arrived) > _TURN_NS // 2), -1)] + _THINK_NS
        back.add(turns, np.full(len(turns), shape.answers, dtype=np.int64))
    end_ns = first_ns + body_ns if get else int(arrived[-1])
    now = end_ns
    for from_client, count in shape.closing:
        if from_client == get:
            now = back.flight(now + _THINK_NS, count, sent=True)
        else:
            # The server's last words follow the content at once.
            now = toward.flight(int(arrived[-1]) + _FRAME_NS if get else now + RTT_NS, count, sent=False)
            now = max(now, end_ns)
    ended_ns = now + _EXIT_NS + (0 if get else RTT_NS // 2)
    return _wire(
        (toward, back), (opened_ns, ended_ns), PORTS[protocol], chance, get=get, spoil=spoil, body_s=body_ns / 1e9,
        taken=(taken[0], taken[1] + prefix), content=content,
    )  # fmt: skip


def _taken_by_client(
    first_ns: int, body_ns: int, stream: int, chance: random.Random
) -> tuple[Numbers, Numbers, tuple[Numbers, Numbers]]:
    """A download: the server fills the client's window, the client takes from it what its limit allows."""
    sizes = _segments(stream)
    ends = np.cumsum(sizes)
    turns = np.append(np.arange(0, body_ns, _TURN_NS, dtype=np.int64), body_ns)
    taken = turns * (stream - _LAST_BYTES) // body_ns
    taken[-1] = stream
    window = chance.randrange(48 << 10, 128 << 10)
    free = np.searchsorted(taken, ends - window)
    rounds = np.floor(np.log2(np.arange(len(sizes)) / _FIRST_WINDOW + 1)).astype(np.int64)
    wanted = np.maximum(rounds * RTT_NS, np.where(ends > window, turns[free] + RTT_NS, 0))
    spaced = np.arange(len(sizes), dtype=np.int64) * _FRAME_NS
    return first_ns + np.maximum.accumulate(wanted - spaced) + spaced, sizes, (first_ns + turns, taken)


def _sent_by_client(
    first_ns: int, body_ns: int, stream: int, _: random.Random
) -> tuple[Numbers, Numbers, tuple[Numbers, Numbers]]:
    """An upload: what the limit allows for each turn at its beginning, the last bytes at the end. The server reads at once."""
    turns = np.arange(0, body_ns, _TURN_NS, dtype=np.int64)
    ends = np.minimum((turns + _TURN_NS) * stream // body_ns, stream - _LAST_BYTES)
    parts = [_segments(int(part)) for part in np.diff(ends, prepend=0)]
    sizes = np.concatenate([*parts, np.array([_LAST_BYTES], dtype=np.int64)])
    wanted = np.append(np.repeat(turns, [len(part) for part in parts]), body_ns)
    times = (sizes + HEADER_BYTES) * 1_000_000_000 // round(LINK_BYTE_S)
    spaced = np.cumsum(times) - times
    return first_ns + np.maximum.accumulate(wanted - spaced) + spaced, sizes, (np.array([first_ns]), np.array([stream]))


def _wire(
    ways: tuple[_Way, _Way], ends: tuple[int, int], port: int, chance: random.Random, *, get: bool, spoil: float,
    body_s: float, taken: tuple[Numbers, Numbers], content: tuple[int, int],
) -> Wire:  # fmt: skip
    (toward_at, toward), (back_at, back) = ways[0].all, ways[1].all
    opened_ns, ended_ns = ends
    starts = [chance.randrange(1 << 32), chance.randrange(1 << 32)]
    rows = []
    for kind, at, sizes, start in ((_HOST, toward_at, toward, starts[0]), (_OUTGOING, back_at, back, starts[1])):
        sequence = start + 1 + np.cumsum(sizes) - sizes
        opens = opened_ns + (0 if (kind == _OUTGOING) == get else RTT_NS if get else _THINK_NS)
        closes = ended_ns + (-_EXIT_NS if (kind == _OUTGOING) == get else RTT_NS)
        rows.append(
            (
                np.concatenate([[opens], at, [closes]]),
                np.concatenate([[0], sizes, [0]]),
                np.concatenate([[start], sequence, [start + 1 + int(sizes.sum())]]),
                np.concatenate([[_SYN | (_ACK if (kind == _HOST) == get else 0)], np.full(len(at), _ACK), [_FIN | _ACK]]),
                np.full(len(at) + 2, kind),
            )
        )
    in_order = np.maximum.accumulate(toward_at), np.cumsum(toward)
    if spoil:
        rows[0], in_order = _spoilt(rows[0], round(spoil * len(toward)) or 1, chance, content, in_order)
    columns = [np.concatenate(pair) for pair in zip(*rows, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    times, sizes, sequence, flags, kinds = (column[order] for column in columns)
    # The receiver acknowledges every second segment.
    sent_at = np.sort(np.concatenate([back_at, toward_at[1::2] + _THINK_NS]))
    sent = np.arange(1, len(sent_at) + 1) * HEADER_BYTES + int(back.sum())
    return Wire(
        packets=_packets(times, sizes, sequence, flags, kinds, port, chance.randrange(32768, 60999), get=get),
        times=times.tolist(),
        ended_ns=ended_ns,
        body_s=body_s,
        _content=_steps(*in_order),
        _taken=_steps(*taken),
        _frames=(_steps(np.sort(toward_at), np.cumsum(toward + HEADER_BYTES)), _steps(sent_at, sent)),
    )


def _spoilt(
    columns: tuple[Numbers, ...], count: int, chance: random.Random, content: tuple[int, int], in_order: tuple[Numbers, Numbers]
) -> tuple[tuple[Numbers, ...], tuple[Numbers, Numbers]]:
    """Some segments come a round trip late, some twice."""
    # The first row is the SYN's.
    late, twice = (np.array([chance.randrange(*content) + 1 for _ in range(count)]) for _ in range(2))
    times = columns[0].copy()
    times[late] += RTT_NS + _FRAME_NS
    again = [np.concatenate([column, column[twice]]) for column in (times, *columns[1:])]
    again[0][-count:] += _FRAME_NS // 2
    return tuple(again), (np.maximum.accumulate(times[1:-1]), in_order[1])


def _packets(
    times: Numbers, sizes: Numbers, sequence: Numbers, flags: Numbers, kinds: Numbers, port: int, own: int, *, get: bool
) -> NDArray[np.void]:  # fmt: skip
    found = np.zeros(len(times), _PACKET)
    wall = times + WALL_CLOCK_NS
    from_client = (kinds == _OUTGOING) == get
    found["next"], found["sec"], found["nsec"] = _PACKET.itemsize, wall // 10**9, wall % 10**9
    found["len"] = found["total"] = sizes + 52
    found["snap"] = np.minimum(sizes + 52, _SNAPPED)
    found["mac"] = found["net"] = _NET
    found["kind"], found["version"], found["ttl"], found["protocol"] = kinds, 0x45, 63, 6
    found["source"] = np.where(from_client, _ENDS[True], _ENDS[False])
    found["target"] = np.where(from_client, _ENDS[False], _ENDS[True])
    found["port"], found["peer_port"] = np.where(from_client, own, port), np.where(from_client, port, own)
    found["sequence"], found["offset"], found["flags"] = sequence & 0xFFFFFFFF, 0x80, flags
    return found


class Ring:
    """The ring between a kernel and the lab's tap. `pass_on` closes a block with what has passed."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, tap_script._BLOCK_BYTES * tap_script._BLOCKS)
        self._block = 0

    def pass_on(self, packets: NDArray[np.void]) -> None:
        most = (tap_script._BLOCK_BYTES - _BLOCK_HEADER) // _PACKET.itemsize
        for first in range(0, len(packets), most):
            text = packets[first : first + most].tobytes()
            base = self._block * tap_script._BLOCK_BYTES
            self.memory[base + _BLOCK_HEADER : base + _BLOCK_HEADER + len(text)] = text
            header = np.array([tap_script._TO_USER, len(text) // _PACKET.itemsize, _BLOCK_HEADER], "<u4")
            self.memory[base + 8 : base + 20] = header.tobytes()
            self._block = (self._block + 1) % tap_script._BLOCKS
