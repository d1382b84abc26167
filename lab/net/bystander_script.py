"""Runs on the client's host: a bystander who sends a small datagram at regular times and notes when its echo comes back.

usage: bystander_script.py ADDRESS PORT INTERVAL_NS SIZE

SIZE is that of the IP packet in bytes. Prints `ready` after the first datagram. On SIGTERM it waits for what is still on its
way, at most two seconds, and prints a record per datagram (`RECORD`: when it was sent, ns of CLOCK_MONOTONIC, and its round trip
in ns, 0 if it was lost). Standard library only.
"""

from __future__ import annotations

import select
import signal
import socket
import struct
import sys
import time

RECORD = "<QQ"
_RECORD = struct.Struct(RECORD)
_NUMBER = struct.Struct("!Q")
_HEADERS_BYTES = 28  # IPv4 and UDP, RFC 791 and 768
_PATIENCE_NS = 2_000_000_000

ending = False


def end(_number: int, _frame: object) -> None:
    global ending  # noqa: PLW0603 - a signal handler has no other way
    ending = True


def main(address: str, port: str, interval: str, size: str) -> None:
    signal.signal(signal.SIGTERM, end)
    between, filling = int(interval), b"\0" * (int(size) - _HEADERS_BYTES - _NUMBER.size)
    sent: list[int] = []
    took: dict[int, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.connect((address, int(port)))
        base = due = time.monotonic_ns()
        until = 0
        while not until or (len(took) < len(sent) and time.monotonic_ns() < until):
            now = time.monotonic_ns()
            if ending and not until:
                until = now + _PATIENCE_NS
                continue
            if not until and now >= due:
                own.send(_NUMBER.pack(len(sent)) + filling)
                sent.append(now)
                due = base + len(sent) * between
                if len(sent) == 1:
                    print("ready", flush=True)
            wait_ns = (until or due) - time.monotonic_ns()
            if select.select([own], [], [], max(0, wait_ns) / 1e9)[0]:
                number = _NUMBER.unpack_from(own.recv(2048))[0]
                took[number] = time.monotonic_ns() - sent[number]
    sys.stdout.buffer.write(b"".join(_RECORD.pack(at, took.get(number, 0)) for number, at in enumerate(sent)))


if __name__ == "__main__":
    main(*sys.argv[1:5])
