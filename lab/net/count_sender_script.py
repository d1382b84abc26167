"""Runs on the sending host: sends numbered datagrams of one size. Standard library only.

usage: count_sender_script.py ADDRESS PORT COUNT INTERVAL_NS SIZE TOS

SIZE is that of the IP packet in bytes, at least 64. A datagram is due INTERVAL_NS after the one before it, 0: at once. It holds
its number, the time of its sending (CLOCK_REALTIME, ns), their CRC and a filling.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
import zlib

_HEAD = struct.Struct("!QQI")
_HEADERS_BYTES = 28  # IPv4 and UDP, RFC 791 and 768


def main(arguments: list[str]) -> None:
    address, port, count, interval, size, tos = arguments
    target, between = (address, int(port)), int(interval)
    filling = bytes(range(256)) * 6
    filling = filling[: int(size) - _HEADERS_BYTES - _HEAD.size]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(tos))
        base = time.monotonic_ns()
        for number in range(int(count)):
            if between and (left := base + number * between - time.monotonic_ns()) > 0:
                time.sleep(left / 1e9)
            head = struct.pack("!QQ", number, time.time_ns())
            sender.sendto(head + struct.pack("!I", zlib.crc32(head)) + filling, target)


if __name__ == "__main__":
    main(sys.argv[1:])
