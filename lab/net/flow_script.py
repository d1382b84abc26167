"""Runs on both hosts: a flow that competes for the link. Standard library only.

usage: flow_script.py serve PORT
       flow_script.py bulk ADDRESS PORT DIRECTION CONTROL
       flow_script.py cbr ADDRESS PORT DIRECTION BYTE_S
       flow_script.py web ADDRESS PORT SEED

DIRECTION is up (to the server) or down. CONTROL is the sender's TCP congestion control. `web` fetches pages, one after the other:
three objects of 2 to 60 kB, each on a connection of its own, then a pause of 0.2 to 1.8 s. Each prints `ready`; on SIGTERM a JSON
document with what it received, bytes by tenths of a second of CLOCK_MONOTONIC, and for `web` [begin in ns, seconds] of each page.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

SLOT_NS = 100_000_000
_DATAGRAM = 1200
_PIECE = b"\0" * 65536
_OBJECTS = 3

received: Counter[int] = Counter()
pages: list[tuple[int, float]] = []


class Ended(Exception):
    """Ends the script once the lab has its data."""


def end(_number: int, _frame: object) -> None:
    raise Ended


def note(count: int) -> None:
    received[time.monotonic_ns() // SLOT_NS * SLOT_NS] += count


def send(to: socket.socket, count: int, control: str) -> None:
    """`count` bytes, 0 for as long as they are taken."""
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    left = count
    while left or not count:
        piece = _PIECE[: min(left, len(_PIECE))] if count else _PIECE
        to.sendall(piece)
        left -= len(piece) if count else 0


def take(source: socket.socket) -> int:
    total = 0
    while data := source.recv(1 << 18):
        note(len(data))
        total += len(data)
    return total


def cbr(own: socket.socket, to: tuple[str, int], byte_s: int) -> None:
    base, number = time.monotonic_ns(), 0
    while True:
        own.sendto(_PIECE[:_DATAGRAM], to)
        number += 1
        if (left := base + number * _DATAGRAM * 10**9 // byte_s - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


def answer(connection: socket.socket) -> None:
    """A request is one line: `get BYTES CONTROL`, or `put`."""
    with connection, connection.makefile("rb", buffering=0) as lines:
        try:
            words = lines.readline().decode().split()
            if words[:1] == ["put"]:
                take(connection)
            elif words:
                send(connection, int(words[1]), words[2])
        except OSError:
            return


def hear(port: int) -> None:
    """Datagrams: `cbr BYTE_S` asks for as many back, others are content."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("", port))
        while True:
            data, address = own.recvfrom(2048)
            if not data.startswith(b"cbr "):
                note(len(data))
                continue
            threading.Thread(target=cbr, args=(own, address, int(data.split()[1])), daemon=True).start()


def serve(port: int) -> None:
    threading.Thread(target=hear, args=(port,), daemon=True).start()
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def bulk(address: str, port: str, direction: str, control: str) -> None:
    with socket.create_connection((address, int(port))) as own:
        print("ready", flush=True)
        if direction == "up":
            own.sendall(b"put\n")
            send(own, 0, control)
        else:
            own.sendall(f"get 0 {control}\n".encode())
            take(own)


def constant(address: str, port: str, direction: str, byte_s: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        place = (address, int(port))
        print("ready", flush=True)
        if direction == "up":
            cbr(own, place, int(byte_s))
        own.sendto(f"cbr {byte_s}".encode(), place)
        while True:
            note(len(own.recv(2048)))


def web(address: str, port: str, seed: str) -> None:
    chance = random.Random(int(seed))  # noqa: S311 - a seed's own numbers are the point
    print("ready", flush=True)
    while True:
        begin = time.monotonic_ns()
        for _ in range(_OBJECTS):
            with socket.create_connection((address, int(port))) as own:
                own.sendall(f"get {chance.randint(2_000, 60_000)} cubic\n".encode())
                take(own)
        pages.append((begin, (time.monotonic_ns() - begin) / 1e9))
        time.sleep(chance.uniform(0.2, 1.8))


def main(role: str, *words: str) -> None:
    signal.signal(signal.SIGTERM, end)
    try:
        if role == "serve":
            serve(int(words[0]))
        else:
            roles: dict[str, Callable[..., None]] = {"bulk": bulk, "cbr": constant, "web": web}
            roles[role](*words)
    except Ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(json.dumps({"received": sorted(received.items()), "pages": pages}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
