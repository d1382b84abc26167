"""Runs on a host: waits until servers there answer. Standard library only. Exit 0 when all do, 1 with a line each that does not.

usage: ready_script.py SECONDS CHECK...
  listen,ADDRESS,PORT        the kernel has a listening socket there (for a server that a probe's connection would disturb)
  udp,ADDRESS,PORT           the kernel has a datagram socket there
  banner,ADDRESS,PORT,TEXT   a connection is greeted with TEXT
  http,ADDRESS,PORT,PATH     GET PATH is answered 2xx
  answer,ADDRESS,PORT,PATH   GET PATH is answered with a status below 500
  put,ADDRESS,PORT,PATH      PUT of one byte is answered 2xx
"""

from __future__ import annotations

import socket
import sys
import time

_STATES = {"tcp": "0A", "udp": "07"}
"""The state of a socket that takes whatever comes, as the kernel's table has it."""
_PAUSE_S = 0.005


def answers(kind: str, address: str, port: int, text: str, timeout_s: float = 1.0) -> bool:
    if kind in ("listen", "udp"):
        return listening(port, "udp" if kind == "udp" else "tcp")
    with socket.create_connection((address, port), timeout=timeout_s) as connection:
        if kind == "banner":
            return connection.recv(256).startswith(text.encode())
        body = b"x" if kind == "put" else b""
        head = [
            f"{'PUT' if body else 'GET'} {text} HTTP/1.1",
            f"Host: {address}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        good = b"1234" if kind == "answer" else b"2"
        said = connection.recv(256)
        return said.startswith(b"HTTP/1.") and said[9:10] != b"" and said[9:10] in good


def listening(port: int, protocol: str = "tcp") -> bool:
    for table in (f"/proc/self/net/{protocol}", f"/proc/self/net/{protocol}6"):
        try:
            with open(table) as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
                rows = [line.split() for line in file]
        except OSError:
            continue
        if any(row[1].endswith(f":{port:04X}") and row[3] == _STATES[protocol] for row in rows[1:]):
            return True
    return False


def unanswered(seconds: float, checks: list[str]) -> list[str]:
    """The checks that still fail after `seconds`; empty as soon as none does."""
    waiting = checks
    deadline = time.monotonic() + seconds
    while waiting:
        check = waiting[0]
        kind, address, port, text = [*check.split(",", 3), ""][:4]
        try:
            ready = answers(kind, address, int(port), text)
        except OSError:
            ready = False
        if ready:
            waiting = waiting[1:]
        elif time.monotonic() > deadline:
            break
        else:
            time.sleep(_PAUSE_S)
    return waiting


if __name__ == "__main__":
    failing = unanswered(float(sys.argv[1]), sys.argv[2:])
    print(*failing, sep="\n", end="\n" if failing else "")
    sys.exit(1 if failing else 0)
