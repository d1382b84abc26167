"""Runs on the receiving host: prints when TCP content passed its port, and how much of it no program has taken yet.

usage: tap_script.py PORT [acks]

Standard library only. Kernel and program share a ring of packet headers (PACKET_RX_RING, TPACKET_V3: packet(7), the kernel's
Documentation/networking/packet_mmap.rst), so that a packet costs no system call: in virtual time system calls take time. A filter
lets only segments with content, SYN, FIN and RST through.

First line: `roughwater-tap 1 PORT`. Then one line per event, times in ns of CLOCK_MONOTONIC:
  s CONNECTION T PORT PEER FAMILY  a connection of IPv4 or IPv6 was opened from PORT to PEER; they are numbered from 0
  d CONNECTION WAY T0 T POS content from T0 to T; POS bytes in order since the connection was opened. WAY is `>` from the opener
  a CONNECTION WAY T POS    only with `acks`: the first POS bytes of WAY are acknowledged
  e CONNECTION WAY T        FIN or RST
  q T BYTES                 bytes that arrived and that no program has read yet, every 10 ms and more often as a queue runs dry
  w T LATE                  this program woke up at T, LATE ns after it was due; not printed for less than 0.05 ms
  t T                       every packet before T - SETTLED_NS has been printed
Ends with exit 0 on SIGTERM.
"""

from __future__ import annotations

import array
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

_SOL_PACKET, _RX_RING, _VERSION, _TPACKET_V3 = 263, 5, 10, 2
_ATTACH_FILTER = 26
_ETH_P_ALL = 3
_OUTGOING = 4
_BLOCK_BYTES, _BLOCKS, _FRAME_BYTES, _RETIRE_MS = 1 << 18, 64, 1 << 11, 5
_SNAP_BYTES = 128
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_TICK_NS = 10_000_000
_QUIET_NS = 3_000_000
_LEAST_WAIT_NS = 500_000
_LEAST_LATE_NS = 50_000
# Segments that follow each other within this are one line.
_JOINED_NS = 100_000
_TO_KERNEL, _TO_USER = 0, 1
_ADDRESS_6_BYTES = 16
_OTHER = {b">": b"<", b"<": b">"}
_BLOCK_HEAD = struct.Struct("=III")
_PACKET_HEAD = struct.Struct("=IIII10xH30xB")  # struct tpacket3_hdr and the type of the packet in the sockaddr_ll behind it
_TABLE_BYTES = 1 << 20
_LEAST_PAGE, _LONGEST_LINE = 1 << 12, 1 << 8
# Classic BPF over the IP header: (code, constant), and of a jump how far if true and if false.
_FILTER = (
    (0x30, 0),  # A = version and header length
    (0x54, 0xF0),
    (0x15, 0x60, 13, 0),  # IPv6: all of it
    (0x15, 0x40, 0, 13),
    (0x30, 9),  # A = protocol
    (0x15, 6, 0, 11),
    (0xB1, 0),  # X = length of the IP header
    (0x50, 13),  # A = flags
    (0x45, _FIN | _SYN | _RST, 7, 0),
    (0x50, 12),  # A = length of the TCP header
    (0x74, 2),
    (0x54, 0x3C),
    (0x0C, 0),  # A += X
    (0x07, 0),  # X = A
    (0x28, 2),  # A = total length
    (0x1D, 0, 1, 0),  # no content
    (0x06, _SNAP_BYTES),
    (0x06, 0),
)
_IF_EMPTY = 15
"""The line of the filter that drops segments without content."""


def stop(_number: int, _frame: object) -> None:
    sys.exit(0)


class Stream:
    """One way of a connection: how much of it has arrived in order."""

    def __init__(self, sequence: int) -> None:
        self.next = sequence
        self.position = 0
        self.ahead: dict[int, int] = {}

    def add(self, sequence: int, size: int) -> bool:
        """Take in a segment's content; true if the position moved."""
        behind = (self.next - sequence) & 0xFFFFFFFF
        if behind < 1 << 31:
            fresh = size - behind
            if fresh <= 0:
                return False
            self.take(fresh)
            while self.ahead:
                reached = next((start for start in self.ahead if (self.next - start) & 0xFFFFFFFF < 1 << 31), None)
                if reached is None:
                    break
                fresh = self.ahead.pop(reached) - ((self.next - reached) & 0xFFFFFFFF)
                if fresh > 0:
                    self.take(fresh)
            return True
        self.ahead[sequence] = max(size, self.ahead.get(sequence, 0))
        return False

    def take(self, size: int) -> None:
        self.next = (self.next + size) & 0xFFFFFFFF
        self.position += size


class Tap:
    """The connections seen, and the lines that are not printed yet."""

    def __init__(self, *, loopback: bool, acks: bool = False) -> None:
        self.loopback = loopback
        self.acknowledged: dict[tuple[int, bytes], int] | None = {} if acks else None
        self.connections: dict[bytes, tuple[int, bytes]] = {}
        self.streams: dict[tuple[int, bytes], Stream] = {}
        self.open: set[int] = set()
        self.count = 0
        self.joined: tuple[int, bytes, int, int, int] | None = None
        self.lines: list[bytes] = []
        self.arrived = False

    def packet(self, t_ns: int, kind: int, header: bytes) -> None:
        """One IP packet."""
        if self.loopback and kind == _OUTGOING:
            return  # the same packet comes in as well
        if header[0] >> 4 == 4:
            at = (header[0] & 15) * 4
            size = int.from_bytes(header[2:4], "big") - at
            key = header[12:20] + header[at : at + 4]
        else:
            if header[6] != 6:
                return
            at = 40
            size = int.from_bytes(header[4:6], "big")
            key = header[8:44]
        if len(header) < at + 14:
            return
        flags = header[at + 13]
        sequence = int.from_bytes(header[at + 4 : at + 8], "big")
        size -= (header[at + 12] >> 4) * 4
        if flags & _SYN:
            self.opened(t_ns, key, sequence, answer=bool(flags & _ACK))
            return
        found = self.connections.get(key)
        if found is None:
            return
        number, way = found
        if self.acknowledged is not None and flags & _ACK:
            self.acks(t_ns, (number, _OTHER[way]), int.from_bytes(header[at + 8 : at + 12], "big"), self.acknowledged)
        if size > 0:
            stream = self.streams.get(found)
            if stream is None:
                stream = self.streams[found] = Stream(sequence)
            if stream.add(sequence, size):
                self.content(number, way, t_ns, stream.position)
            self.arrived = self.arrived or kind != _OUTGOING
        if flags & (_FIN | _RST):
            self.flush()
            self.lines.append(b"e %d %b %d\n" % (number, way, t_ns))
            self.open.discard(number)

    def opened(self, t_ns: int, key: bytes, sequence: int, *, answer: bool) -> None:
        if answer:
            if key in self.connections:
                self.streams[self.connections[key]] = Stream((sequence + 1) & 0xFFFFFFFF)
            return
        known = self.connections.get(key)
        if known is not None and known[0] in self.open and known not in self.streams:
            return  # the SYN was sent again
        if known is not None and known[0] in self.open and self.streams[known].next == (sequence + 1) & 0xFFFFFFFF:
            return
        number = self.count
        self.count += 1
        self.open.add(number)
        # Two addresses, then two ports.
        middle = (len(key) - 4) // 2
        back = key[middle:-4] + key[:middle] + key[-2:] + key[-4:-2]
        self.connections[key], self.connections[back] = (number, b">"), (number, b"<")
        self.streams[number, b">"] = Stream((sequence + 1) & 0xFFFFFFFF)
        self.flush()
        port, peer_port = (int.from_bytes(part, "big") for part in (key[-4:-2], key[-2:]))
        self.lines.append(b"s %d %d %d %d %d\n" % (number, t_ns, port, peer_port, 6 if middle == _ADDRESS_6_BYTES else 4))

    def acks(self, t_ns: int, way: tuple[int, bytes], number: int, known: dict[tuple[int, bytes], int]) -> None:
        """`number` acknowledges content of `way`."""
        stream = self.streams.get(way)
        if stream is None:
            return
        position = stream.position - ((stream.next - number) & 0xFFFFFFFF)
        if position > known.get(way, 0):
            known[way] = position
            self.lines.append(b"a %d %b %d %d\n" % (*way, t_ns, position))

    def content(self, number: int, way: bytes, t_ns: int, position: int) -> None:
        joined = self.joined
        if joined is not None and joined[:2] == (number, way) and t_ns - joined[2] < _JOINED_NS:
            self.joined = (number, way, joined[2], t_ns, position)
            return
        self.flush()
        self.joined = (number, way, t_ns, t_ns, position)

    def flush(self) -> None:
        if self.joined is not None:
            self.lines.append(b"d %d %b %d %d %d\n" % self.joined)
            self.joined = None


def read_table(table: int, text: bytearray) -> int:
    """Read a table of /proc into `text`; its size. The kernel gives what fits into a page, and the rest on the next call."""
    size = 0
    while read := os.preadv(table, [memoryview(text)[size:]], size):
        size += read
        if read < _LEAST_PAGE - _LONGEST_LINE:
            break
    return size


def unread(tables: list[int], text: bytearray) -> int:
    """Bytes in the receive queues of connected sockets, by /proc/net/tcp and tcp6 (proc(5)), which are read into `text`."""
    total = 0
    for table in tables:
        size = read_table(table, text)
        for line in text[:size].splitlines()[1:]:
            words = line.split()
            if words[3] != b"0A":
                total += int(words[4].partition(b":")[2], 16)
    return total


def open_tables() -> list[int]:
    """The table of each family that this host has an address of, besides its loopback's IPv6."""
    names = ["tcp"]
    with suppress(OSError), open("/proc/self/net/if_inet6", encoding="ascii") as addresses:  # noqa: PTH123
        names += ["tcp6"] if any(not line.endswith(" lo\n") for line in addresses) else []
    return [os.open(f"/proc/self/net/{name}", os.O_RDONLY) for name in names]


def read_ring(ring: mmap.mmap, block: int, tap: Tap, offset_ns: int) -> int:
    """Read every block that the kernel has finished; the number of the next one."""
    while True:
        base = block * _BLOCK_BYTES
        status, packets, at = _BLOCK_HEAD.unpack_from(ring, base + 8)
        if not status & _TO_USER:
            return block
        at += base
        for _ in range(packets):
            following, seconds, nanoseconds, snapped, net, kind = _PACKET_HEAD.unpack_from(ring, at)
            net += at
            tap.packet(seconds * 1_000_000_000 + nanoseconds - offset_ns, kind, ring[net : net + snapped])
            at += following
        struct.pack_into("=I", ring, base + 8, _TO_KERNEL)
        block = (block + 1) % _BLOCKS


def attach(tap: socket.socket, *, acks: bool) -> None:
    """Let only what the tap is about into the socket, and no more than its headers."""
    lines = [(0x1D, 0) if acks and place == _IF_EMPTY else line for place, line in enumerate(_FILTER)]
    code = array.array("B", b"".join(struct.pack("=HBBI", code, *(jumps or (0, 0)), k) for code, k, *jumps in lines))
    tap.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_FILTER), code.buffer_info()[0]))


def wait_for_quiet() -> None:
    """Until 3 ms after a full tick, to the clock's step. The ring has a timer of the kernel's from then on, and in virtual time
    all timers should be where they are in every machine, however long that took to get here. At a tick other programs wake."""
    # A /proc that cannot be written to means real time, in which a tap needs no more than its own timer.
    with suppress(OSError), open("/proc/self/timerslack_ns", "w", encoding="ascii") as slack:  # noqa: PTH123
        slack.write("1")
    time.sleep((_QUIET_NS - time.monotonic_ns()) % _TICK_NS / 1e9)


def listen(port: str, *, acks: bool) -> tuple[socket.socket, mmap.mmap]:
    """A packet socket and its ring."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    attach(tap, acks=acks)
    tap.setsockopt(_SOL_PACKET, _VERSION, struct.pack("=i", _TPACKET_V3))
    frames = _BLOCK_BYTES // _FRAME_BYTES * _BLOCKS
    wait_for_quiet()
    tap.setsockopt(_SOL_PACKET, _RX_RING, struct.pack("=7I", _BLOCK_BYTES, _BLOCKS, _FRAME_BYTES, frames, _RETIRE_MS, 0, 0))
    ring = mmap.mmap(tap.fileno(), _BLOCK_BYTES * _BLOCKS)
    tap.bind((port, _ETH_P_ALL))
    return tap, ring


class Looks:
    """When the tap looks at its ring and the receive queues, and what it prints then. The next look is due at `due`."""

    def __init__(self, tap: Tap, ring: mmap.mmap, tables: list[int], now: int) -> None:
        self.tap, self.ring, self.tables = tap, ring, tables
        self.text = bytearray(_TABLE_BYTES)
        self.block = self.queued = 0
        self.tick = self.look = now + _TICK_NS
        self.wait = _TICK_NS

    @property
    def due(self) -> int:
        return min(self.tick, self.look)

    def at(self, now: int, offset_ns: int) -> bytes:
        """The lines of a look at `now`. `offset_ns`: the wall clock of the packets, less the monotonic one."""
        tap = self.tap
        self.block = read_ring(self.ring, self.block, tap, offset_ns)
        if tap.open:
            before, self.queued = self.queued, unread(self.tables, self.text)
            tap.flush()
            tap.lines.append(b"q %d %d\n" % (now, self.queued))
            # A client that reads what is left in its queue: the last byte it takes ends the transfer.
            sooner = _LEAST_WAIT_NS if before != self.queued else self.wait * 2
            self.wait = min(_TICK_NS, sooner) if self.queued and not tap.arrived else _TICK_NS
            tap.arrived = False
        else:
            self.wait = _TICK_NS
        self.look = now + self.wait
        if now >= self.tick:
            tap.flush()
            tap.lines.append(b"t %d\n" % now)
            self.tick += _TICK_NS * max(1, -(-(now + 1 - self.tick) // _TICK_NS))
        text = b"".join(tap.lines)
        tap.lines.clear()
        return text


def main(port: str, *options: str) -> int:
    signal.signal(signal.SIGTERM, stop)
    sock, ring = listen(port, acks="acks" in options)
    tap = Tap(loopback=port == "lo", acks="acks" in options)
    tables = open_tables()
    ready = select.poll()
    ready.register(sock, select.POLLIN)
    os.write(1, b"roughwater-tap 1 %b\n" % port.encode())
    now = time.monotonic_ns()
    # At full ticks, as `sampler` does.
    looks = Looks(tap, ring, tables, -(-now // _TICK_NS) * _TICK_NS)
    while True:
        due = looks.due
        asleep = time.monotonic_ns()
        wait_ms = max(0, -(-(due - asleep) // 1_000_000)) if due - now > 2_000_000 else 0
        woken = ready.poll(wait_ms)
        now = time.monotonic_ns()
        late = now - asleep - wait_ms * 1_000_000 if wait_ms and not woken else 0
        if now < due:
            time.sleep((due - now) / 1e9)
            now = time.monotonic_ns()
            late = max(late, now - due)
        if late >= _LEAST_LATE_NS and tap.open:
            tap.flush()
            tap.lines.append(b"w %d %d\n" % (now, late))
        if text := looks.at(now, time.time_ns() - time.monotonic_ns()):
            os.write(1, text)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
