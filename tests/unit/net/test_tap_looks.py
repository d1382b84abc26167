"""When the tap looks, what it finds in the kernel's ring and in the receive queues, and what it prints then."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.net import tap_script
from lab.net.tap import Content, Mark, Unread, parse_line
from lab.net.tap_script import Looks, Tap, read_ring, read_table, unread
from tests.support.packets import ACK, CLIENT, FIN, SERVER, SYN, segment

IN, OUT = 0, 4
MS = 1_000_000
BLOCK_BYTES, BLOCKS = 1 << 18, 64
OFFSET_NS = 1_700_000_000 * 10**9
"""The wall clock of the packets, less the monotonic one."""
HEADS = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"


class Ring:
    """The memory that the kernel fills (packet(7), TPACKET_V3): blocks of packets, in turn."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, BLOCK_BYTES * BLOCKS)
        self.next = 0

    def fill(self, packets: Sequence[tuple[int, int, bytes]]) -> None:
        """The next block: for each packet its time (CLOCK_MONOTONIC), its kind, and its bytes."""
        base = self.next * BLOCK_BYTES
        self.next = (self.next + 1) % BLOCKS
        at = 48
        # struct tpacket_block_desc: version, private offset, then status, packets, offset of the first.
        struct.pack_into("=IIIII", self.memory, base, 1, 0, 1, len(packets), at)
        for t_ns, kind, content in packets:
            seconds, ns = divmod(t_ns + OFFSET_NS, 10**9)
            size = 68 + 16 + len(content)
            # struct tpacket3_hdr with the offset of the IP header, then struct sockaddr_ll with the packet's type.
            struct.pack_into("=IIIIIIHH", self.memory, base + at, size, seconds, ns, len(content), len(content), 0, 82, 82)
            struct.pack_into("=HHIHBB", self.memory, base + at + 48, 17, 0, 1, 1, kind, 6)
            self.memory[base + at + 82 : base + at + 82 + len(content)] = content
            at += size

    def taken(self, block: int) -> bool:
        """Whether the block was given back to the kernel."""
        status: int = struct.unpack_from("=I", self.memory, block * BLOCK_BYTES + 8)[0]
        return status == 0


@pytest.fixture(name="ring")
def empty_ring() -> Iterator[Ring]:
    made = Ring()
    yield made
    made.memory.close()


class Table:
    """What /proc/net/tcp says: states and bytes that wait to be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set()
        self.number = os.open(path, os.O_RDONLY)

    def set(self, *rows: tuple[str, int]) -> None:
        lines = [HEADS]
        for index, (state, waiting) in enumerate(rows):
            lines.append(f"{index:4}: 0100007F:9C40 0200007F:0050 {state} 00000007:{waiting:08X} 00:00000000 00000000     0")
        self.path.write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(name="table")
def empty_table(tmp_path: Path) -> Iterator[Table]:
    made = Table(tmp_path / "tcp")
    yield made
    os.close(made.number)


def handshake(t_ns: int = MS) -> list[tuple[int, int, bytes]]:
    return [
        (t_ns, OUT, segment(CLIENT, SERVER, SYN, 100)),
        (t_ns + 5, IN, segment(SERVER, CLIENT, SYN | ACK, 500)),
    ]


def content(t_ns: int, sequence: int, size: int = 1000) -> tuple[int, int, bytes]:
    return t_ns, IN, segment(SERVER, CLIENT, ACK, sequence, size)


def printed(text: bytes) -> list[object]:
    return [parse_line(line) for line in text.splitlines()]


def test_every_packet_of_every_finished_block_is_read_once(ring: Ring) -> None:
    tap = Tap(loopback=False)
    assert read_ring(ring.memory, 0, tap, OFFSET_NS) == 0, "nothing is finished"
    ring.fill([*handshake(), content(2 * MS, 501)])
    ring.fill([content(3 * MS, 1501)])
    assert read_ring(ring.memory, 0, tap, OFFSET_NS) == 2
    assert ring.taken(0)
    assert ring.taken(1)
    tap.flush()
    assert printed(b"".join(tap.lines)) == [
        Mark(0, MS, opened=True, port=40_000, peer_port=80),
        Content(0, from_opener=False, t0_ns=2 * MS, t_ns=2 * MS, position=1000),
        Content(0, from_opener=False, t0_ns=3 * MS, t_ns=3 * MS, position=2000),
    ]
    assert read_ring(ring.memory, 2, tap, OFFSET_NS) == 2, "nothing is new"


def test_the_ring_begins_again_after_its_last_block(ring: Ring) -> None:
    tap = Tap(loopback=False)
    ring.next = BLOCKS - 1
    ring.fill(handshake())
    ring.fill([content(2 * MS, 501)])
    assert read_ring(ring.memory, BLOCKS - 1, tap, OFFSET_NS) == 1
    tap.flush()
    assert len(tap.lines) == 2


def test_bytes_that_wait_are_those_of_connected_sockets(table: Table) -> None:
    text = bytearray(1 << 20)
    assert unread([table.number], text) == 0
    # 0A: a listening socket, whose queue is of connections.
    table.set(("01", 0x1F), ("0A", 128), ("08", 0x1000), ("01", 0))
    assert unread([table.number], text) == 0x1F + 0x1000
    assert unread([table.number, table.number], text) == 2 * (0x1F + 0x1000), "a table for each family"


def test_a_table_of_several_pages_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel fills up to a page with complete lines, and goes on from there at the next read."""
    pages = [b"a" * 4096, b"b" * 3900, b"c" * 100, b"never read"]
    asked: list[int] = []

    def preadv(_: int, into: list[memoryview], at: int) -> int:
        page = pages[len(asked)]
        asked.append(at)
        into[0][: len(page)] = page
        return len(page)

    monkeypatch.setattr(os, "preadv", preadv)
    text = bytearray(1 << 14)
    assert read_table(0, text) == 8096
    assert asked == [0, 4096, 7996]
    assert bytes(text[:8096]) == b"".join(pages[:3])


@pytest.mark.parametrize(("sizes", "read"), [([3839, 9], 3839), ([3840, 9], 3849), ([0, 9], 0), ([3840, 0, 9], 3840)])
def test_a_page_with_room_for_a_line_is_the_last(monkeypatch: pytest.MonkeyPatch, sizes: list[int], read: int) -> None:
    left = list(sizes)
    monkeypatch.setattr(os, "preadv", lambda *_: left.pop(0))
    assert read_table(0, bytearray(1 << 14)) == read


def look(looks: Looks, now: int) -> list[object]:
    return printed(looks.at(now, OFFSET_NS))


def test_without_a_connection_the_tap_says_only_what_time_it_is(ring: Ring, table: Table) -> None:
    table.set(("01", 500))
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    assert looks.due == 10 * MS
    assert look(looks, 5 * MS) == []
    assert look(looks, 10 * MS) == [10 * MS]
    assert looks.due == 20 * MS
    assert looks.queued == 0, "whose bytes they are is not asked"


def test_a_queue_is_printed_as_long_as_a_connection_is_open(ring: Ring, table: Table) -> None:
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    ring.fill([*handshake(), content(2 * MS, 501)])
    table.set(("01", 1000))
    opened, arrived, queue, time = look(looks, 10 * MS)
    assert isinstance(opened, Mark)
    assert isinstance(arrived, Content)
    assert (queue, time) == (Unread(10 * MS, 1000), 10 * MS)
    ring.fill([(12 * MS, IN, segment(SERVER, CLIENT, FIN | ACK, 1501))])
    assert look(looks, 20 * MS) == [Mark(0, 12 * MS, opened=False), 20 * MS]


def test_it_looks_sooner_as_a_queue_runs_dry(ring: Ring, table: Table) -> None:
    """Every half millisecond while the queue changes and nothing arrives, then twice as long each time up to 10 ms."""
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    ring.fill([*handshake(), content(2 * MS, 501)])
    table.set(("01", 1000))
    look(looks, 10 * MS)
    assert looks.due == 20 * MS, "content arrived: it does not run dry"
    table.set(("01", 900))
    look(looks, 20 * MS)
    dues = []
    for _ in range(6):
        dues.append(looks.due)
        look(looks, looks.due)
    half = MS // 2
    assert dues == [20 * MS + each * half for each in (1, 3, 7, 15, 20, 40)], "1, 2, 4 and 8 more, and always at a full 10 ms"
    table.set(("01", 800))
    look(looks, looks.due)
    begun = looks.look - half
    assert looks.wait == half
    table.set(("01", 0))
    look(looks, looks.due)
    assert looks.look == begun + half + 10 * MS, "it is empty"
    assert looks.wait == 10 * MS


def test_content_that_arrives_makes_it_look_as_usual_again(ring: Ring, table: Table) -> None:
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    ring.fill(handshake())
    table.set(("01", 1000))
    look(looks, 10 * MS)
    assert looks.due == 10 * MS + MS // 2
    ring.fill([content(10 * MS + 1, 501)])
    table.set(("01", 2000))
    look(looks, 10 * MS + MS // 2)
    assert looks.due == 20 * MS
    look(looks, 20 * MS)
    assert looks.wait == 10 * MS, "nothing has changed: longer than before, at most 10 ms"


def test_a_late_look_does_not_move_those_that_follow(ring: Ring, table: Table) -> None:
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 3)
    for now, tick in ((10 * MS + 2, 10 * MS + 3), (10 * MS + 3, 20 * MS + 3), (20 * MS + 4, 30 * MS + 3), (59 * MS, 60 * MS + 3)):
        look(looks, now)
        assert looks.tick == tick
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    look(looks, 30 * MS)
    assert looks.tick == 40 * MS, "a multiple of 10 ms is over"


def test_lines_are_printed_once(ring: Ring, table: Table) -> None:
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    ring.fill([*handshake(), content(2 * MS, 501)])
    assert len(look(looks, 3 * MS)) == 3
    assert look(looks, 4 * MS) == [Unread(4 * MS, 0)]


def test_content_is_printed_when_it_is_said_to_be_settled(ring: Ring, table: Table) -> None:
    looks = Looks(Tap(loopback=False), ring.memory, [table.number], 0)
    ring.fill(handshake())
    look(looks, 3 * MS)
    looks.tap.content(0, b">", 4 * MS, 10)
    looks.tap.open.clear()
    assert look(looks, 5 * MS) == []
    assert look(looks, 10 * MS) == [Content(0, from_opener=True, t0_ns=4 * MS, t_ns=4 * MS, position=10), 10 * MS]


def test_sigterm_ends_it_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        tap_script.stop(15, None)
    assert ended.value.code == 0
