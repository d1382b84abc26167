"""Runs on a client or a server: prints what its kernel counts for each TCP connection, every 10 ms. Standard library only.

usage: sockets_script.py

First line: `roughwater-sockets 1`. Then one line per connection and look, times in ns of CLOCK_MONOTONIC:
  k T PORT PEER_PORT NUMBERS   the numbers are those of `_FIELDS` and `_MEMORY`, in that order, after the unread and unsent bytes
  t T                          every connection before T has been printed
A look is one dump of inet_diag (sock_diag(7)): TCP_INFO with the kernel's own accounting of why a sender waits (tcp_chrono, Linux
4.10), and the socket's memory. More than eight connections are looked at less often. Ends with exit 0 on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time

_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP, _ERROR, _DONE = 4, 20, 0x301, 2, 3
_INFO, _SKMEMINFO = 2, 7
_TICK_NS = 10_000_000
_FEW = 8
# States with content on the way: ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING (include/net/tcp_states.h).
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
# Offset and form of each number in struct tcp_info (include/uapi/linux/tcp.h). Times are in microseconds.
_FIELDS = (
    (16, "I"),  # tcpi_snd_mss
    (24, "I"),  # tcpi_unacked, packets
    (68, "I"),  # tcpi_rtt
    (76, "I"),  # tcpi_snd_ssthresh, packets
    (80, "I"),  # tcpi_snd_cwnd, packets
    (100, "I"),  # tcpi_total_retrans
    (120, "Q"),  # tcpi_bytes_acked
    (128, "Q"),  # tcpi_bytes_received
    (144, "I"),  # tcpi_notsent_bytes
    (148, "I"),  # tcpi_min_rtt
    (168, "Q"),  # tcpi_busy_time
    (176, "Q"),  # tcpi_rwnd_limited
    (184, "Q"),  # tcpi_sndbuf_limited
    (228, "I"),  # tcpi_snd_wnd, Linux 5.4
)
_MEMORY = (3, 5)  # SK_MEMINFO_SNDBUF, SK_MEMINFO_WMEM_QUEUED (include/uapi/linux/sock_diag.h)


def stop(_number: int, _frame: object) -> None:
    sys.exit(0)


def families() -> list[int]:
    """The families that this host has an address of, besides its loopback's."""
    try:
        with open("/proc/self/net/if_inet6", encoding="ascii") as addresses:  # noqa: PTH123
            has_ipv6 = any(not line.endswith(" lo\n") for line in addresses)
    except OSError:
        has_ipv6 = False
    return [socket.AF_INET, *([socket.AF_INET6] if has_ipv6 else [])]


def request(family: int) -> bytes:
    """A dump of every TCP socket of that family in those states."""
    asked = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1) | 1 << (_SKMEMINFO - 1), 0, _STATES)
    return struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + asked


def numbers(message: bytes) -> list[int]:
    """PORT PEER_PORT NUMBERS of one `struct inet_diag_msg` and its attributes."""
    port, peer = struct.unpack_from("!HH", message, 4)
    unread, unsent = struct.unpack_from("=II", message, 56)
    found = [port, peer, unread, unsent]
    info, memory = b"", b""
    at = 72
    while at + 4 <= len(message):
        size, kind = struct.unpack_from("=HH", message, at)
        if size < 4:
            break
        if kind == _INFO:
            info = message[at + 4 : at + size]
        elif kind == _SKMEMINFO:
            memory = message[at + 4 : at + size]
        at += (size + 3) & ~3
    found += [struct.unpack_from("=" + form, info.ljust(240, b"\0"), offset)[0] for offset, form in _FIELDS]
    return found + [struct.unpack_from("=I", memory.ljust(36, b"\0"), 4 * place)[0] for place in _MEMORY]


def look(diag: socket.socket, asked: bytes) -> list[list[int]]:
    """Every connection of one family, as `numbers` has it."""
    diag.send(asked)
    found: list[list[int]] = []
    while True:
        text = diag.recv(1 << 18)
        at = 0
        while at + 16 <= len(text):
            size, kind = struct.unpack_from("=IH", text, at)
            if kind == _DONE:
                return found
            if kind == _ERROR or size < 16:
                print("the kernel has no inet_diag for TCP", file=sys.stderr)
                sys.exit(1)
            found.append(numbers(text[at + 16 : at + size]))
            at += (size + 3) & ~3


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    diag = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
    asked = [request(family) for family in families()]
    os.write(1, b"roughwater-sockets 1\n")
    due = -(-time.monotonic_ns() // _TICK_NS) * _TICK_NS  # a full tick, as of `sampler`
    time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
    while True:
        found = [row for each in asked for row in look(diag, each)]
        now = time.monotonic_ns()
        lines = [b"k %d %b\n" % (now, " ".join(map(str, row)).encode()) for row in found]
        os.write(1, b"".join(lines) + b"t %d\n" % now)
        due += _TICK_NS * max(1, -(-len(found) // _FEW), -(-(now + 1 - due) // _TICK_NS))
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)


if __name__ == "__main__":
    sys.exit(main())
