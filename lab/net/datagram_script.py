"""Runs on the receiving host: prints every datagram to or from one UDP port that passed the host's own.

usage: datagram_script.py INTERFACE PORT

Standard library only. The kernel notes when a datagram came; this looks every 10 ms, because in virtual time system calls take
time.

First line: `roughwater-datagrams 1 INTERFACE`. Then one line per event, times in ns of CLOCK_MONOTONIC:
  d WAY T BYTES FIRST   a datagram with BYTES of content whose first byte is FIRST. WAY is `>` to the port, `<` from it
  t T                   every datagram before T - SETTLED_NS has been printed
Ends with exit 0 on SIGTERM.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import struct
import sys
import time

_ATTACH_FILTER, _RCVBUFFORCE, _TIMESTAMPNS = 26, 33, 35
_ETH_P_ALL = 3
_OUTGOING = 4
_BUFFER_BYTES = 64 << 20
_SNAP_BYTES = 96
_TICK_NS = 10_000_000
_UDP = 17
# Classic BPF over the IP header: UDP of IPv4, and all of IPv6: (code, constant), and of a jump how far if true and if false.
_FILTER = (
    (0x30, 0),
    (0x54, 0xF0),
    (0x15, 0x60, 2, 0),
    (0x30, 9),
    (0x15, _UDP, 0, 1),
    (0x06, _SNAP_BYTES),
    (0x06, 0),
)


def stop(_number: int, _frame: object) -> None:
    sys.exit(0)


def line(t_ns: int, header: bytes, port: int) -> bytes:
    """The line for an IP packet; empty for a packet that is neither to nor from the port."""
    if header[0] >> 4 == 4:
        at = (header[0] & 15) * 4
    elif header[6] == _UDP:
        at = 40
    else:
        return b""
    if len(header) < at + 9:
        return b""
    source, target, size = struct.unpack_from("!HHH", header, at)
    if port not in (source, target):
        return b""
    return b"d %b %d %d %d\n" % (b">" if target == port else b"<", t_ns, size - 8, header[at + 8])


def attach(tap: socket.socket) -> None:
    """Let only what may be UDP into the socket, and no more than its headers."""
    code = array.array("B", b"".join(struct.pack("=HBBI", code, *(jumps or (0, 0)), k) for code, k, *jumps in _FILTER))
    tap.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(_FILTER), code.buffer_info()[0]))


def listen(interface: str) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    attach(tap)
    try:
        tap.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        # Only the machine's root may exceed net.core.rmem_max, not that of a user namespace.
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    tap.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
    tap.setblocking(False)
    tap.bind((interface, _ETH_P_ALL))
    return tap


def drain(tap: socket.socket, port: int, offset_ns: int, *, loopback: bool) -> list[bytes]:
    """The lines of everything that has come since the last look."""
    found: list[bytes] = []
    while True:
        try:
            header, told, _, address = tap.recvmsg(_SNAP_BYTES, 64)
        except BlockingIOError:
            return found
        if loopback and address[2] == _OUTGOING:
            continue  # the same packet comes in as well
        seconds, nanoseconds = struct.unpack("=qq", told[0][2])
        found.append(line(seconds * 1_000_000_000 + nanoseconds - offset_ns, header, port))


def main(interface: str, port: int) -> int:
    signal.signal(signal.SIGTERM, stop)
    tap = listen(interface)
    os.write(1, b"roughwater-datagrams 1 %b\n" % interface.encode())
    tick = -(-time.monotonic_ns() // _TICK_NS) * _TICK_NS + _TICK_NS  # a full one, as of `sampler`
    while True:
        time.sleep(max(0, tick - time.monotonic_ns()) / 1e9)
        now = time.monotonic_ns()
        lines = drain(tap, port, time.time_ns() - now, loopback=interface == "lo")
        os.write(1, b"".join((*lines, b"t %d\n" % now)))
        tick += _TICK_NS * max(1, -(-(now + 1 - tick) // _TICK_NS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
