"""Runs on client and server: does a word of the server still arrive, after a silence of so long? Standard library only.

usage: nat_script.py server|client ADDRESS PORT UDP_NS UDP_NS TCP_NS TCP_NS

The client opens two UDP ports and two TCP connections, and is silent after a word. The server answers each after its time. A word
of UDP is said several times at once, because a link may lose it.
The client prints a line for each: its number, and the address by which the server knows it, or `-` if no word arrived in time.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time

_WORD_BYTES = 64
_TIMES = 4
# Several round trips, and what TCP needs to send a word again.
_PATIENCE_S = 8.0


def waits_of(words: list[str]) -> list[tuple[int, int]]:
    """The kind of each socket, and its silence in ns."""
    kinds = (socket.SOCK_DGRAM, socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_STREAM)
    return list(zip(kinds, map(int, words), strict=True))


def serve(address: str, port: int, waits: list[tuple[int, int]]) -> None:
    """Answer on ports from `port` on, each with the address of who asked, after its silence."""
    chosen = selectors.DefaultSelector()
    due: list[tuple[int, socket.socket, tuple[str, int] | None, bytes]] = []
    for index, (kind, wait_ns) in enumerate(waits):
        sock = socket.socket(socket.AF_INET, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port + index))
        if kind == socket.SOCK_STREAM:
            sock.listen(1)
        chosen.register(sock, selectors.EVENT_READ, (sock, kind, wait_ns))
    while True:
        left = min((each[0] for each in due), default=None)
        timeout = None if left is None else max(0, left - time.monotonic_ns()) / 1e9
        for key, _ in chosen.select(timeout):
            asked, kind, wait_ns = key.data
            if kind == socket.SOCK_DGRAM:
                _, peer = asked.recvfrom(_WORD_BYTES)
                due = [entry for entry in due if entry[1] is not asked]
                due.append((time.monotonic_ns() + wait_ns, asked, peer, peer[0].encode()))
            else:
                accepted, peer = asked.accept()
                due.append((time.monotonic_ns() + wait_ns, accepted, None, peer[0].encode()))
        now = time.monotonic_ns()
        for entry in [each for each in due if each[0] <= now]:
            due.remove(entry)
            _, sock, target, text = entry
            if target is None:
                sock.send(text)
                continue
            for _ in range(_TIMES):
                sock.sendto(text, target)


def ask(address: str, port: int, waits: list[tuple[int, int]]) -> None:
    """Say a word on each port, and print what came back in time."""
    socks = []
    for index, (kind, _) in enumerate(waits):
        sock = socket.socket(socket.AF_INET, kind)
        sock.connect((address, port + index))
        for _ in range(_TIMES if kind == socket.SOCK_DGRAM else 0):
            sock.send(b"here")
        socks.append(sock)
    begun = time.monotonic()
    for wait_ns, number, sock in sorted((wait_ns, number, socks[number]) for number, (_, wait_ns) in enumerate(waits)):
        sock.settimeout(max(0.001, begun + wait_ns / 1e9 + _PATIENCE_S - time.monotonic()))
        try:
            text = sock.recv(_WORD_BYTES).decode()
        except TimeoutError:
            text = ""
        print(number, text or "-", flush=True)


def main(role: str, address: str, port: str, *words: str) -> int:
    waits = waits_of(list(words))
    if role == "server":
        serve(address, int(port), waits)
    else:
        ask(address, int(port), waits)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
