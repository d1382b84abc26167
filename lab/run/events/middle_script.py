"""Runs on the server's host: passes TCP connections on, and harms one of them as a plan says. Standard library only.

usage: middle_script.py FOLDER LISTEN:TARGET... [udp:LISTEN:TARGET]

UDP is passed on as it comes: each address of a client has a socket of its own towards the server, as behind a NAT.

FOLDER/plan.json has the harm of one sample: `fault` (fin, rst, corrupt, killed, or mark, which does nothing), the `direction` of
the content, and the byte `at` of it, from 1 on and over all connections, at which the harm is done, once. This program ends both
TCP connections, so a byte that it changes has a good checksum. FOLDER/log gets a line of JSON for each connection and for the
harm.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

_PIECE = 16384
# Small, so that what has passed here has nearly arrived; the links of the suite need no more.
_BUFFER = 65536
_LINGER_S = 60.0


class Plan:
    """The harm of one sample, and how far its content has come."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.moved = 0
        self.done = self.rebinds = False
        self.lock = threading.Lock()

    def crossing(self, size: int) -> int | None:
        """Count bytes of the content; the number of them up to the harm, if it is due among them."""
        with self.lock:
            before, self.moved = self.moved, self.moved + size
            if self.done or self.told["fault"] == "none" or self.moved < self.told["at"]:
                return None
            self.done = True
            return int(self.told["at"] - before)


class Middle:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.plan = Plan({"sample": -1, "fault": "none", "direction": "get", "at": 0})
        self.lock = threading.Lock()

    def current(self) -> Plan:
        with self.lock:
            try:
                with open(f"{self.folder}/plan.json") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
                    told = json.load(file)
            except OSError:
                return self.plan
            if told["sample"] != self.plan.told["sample"]:
                self.plan = Plan(told)
            return self.plan

    def note(self, what: str, **more: object) -> None:
        line = json.dumps({"t_ns": time.monotonic_ns(), "what": what, **more})
        with open(f"{self.folder}/log", "a") as file:  # noqa: PTH123
            file.write(line + "\n")


def processes_of(mark: str) -> list[int]:
    """Processes whose command line has `mark`, and all their descendants."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat") as file:  # noqa: PTH123
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{name}/cmdline", "rb") as file:  # noqa: PTH123
                if mark.encode() in file.read():
                    found.add(int(name))
    for _ in range(8):  # a server is not nested deeper
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sorted(found - {os.getpid()})


def kill_server(told: dict[str, Any]) -> None:
    """SIGKILL for the server and its children at once; it is started again after `again_s`."""
    for pid in processes_of(told["mark"]):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    def again() -> None:
        time.sleep(told["again_s"])
        null = subprocess.DEVNULL
        subprocess.Popen(told["argv"], stdin=null, stdout=null, stderr=null, start_new_session=True).wait()

    threading.Thread(target=again, daemon=True).start()


def flipped(data: bytes, first: int, told: dict[str, Any]) -> bytes:
    """`data` with one bit changed in each of `bytes` bytes, from index `first` on as far as there are."""
    changed = bytearray(data)
    for index in range(first, min(first + told["bytes"], len(changed))):
        changed[index] ^= 1 << told["bit"]
    return bytes(changed)


class Connection(threading.Thread):
    """One connection of a client and the one to the server that belongs to it."""

    def __init__(self, middle: Middle, client: socket.socket, target: int) -> None:
        super().__init__(daemon=True)
        self.middle, self.client, self.target = middle, client, target
        self.plan = middle.current()
        self.closing = self.reset = False

    def run(self) -> None:
        with self.client:
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=10)
            except OSError:
                self.abort(self.client)
                return
            with server:
                for each in (self.client, server):
                    each.setblocking(False)
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    self.pass_on(server)
                except OSError:
                    self.reset = True
                if self.reset:
                    self.abort(self.client)
                    self.abort(server)

    def pass_on(self, server: socket.socket) -> None:
        other = {self.client: server, server: self.client}
        waiting = {self.client: b"", server: b""}
        reading = {self.client, server}
        finished: set[socket.socket] = set()
        ends_at = None
        while not self.reset:
            if ends_at is None and self.closing:
                ends_at = time.monotonic() + _LINGER_S
            for each, text in waiting.items():
                over = other[each] not in reading or self.closing
                if over and not text and each not in finished:
                    finished.add(each)
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_WR)
            if not reading or (ends_at is not None and time.monotonic() > ends_at):
                return
            readers = [each for each in reading if len(waiting[other[each]]) < _PIECE]
            writers = [each for each, text in waiting.items() if text]
            readable, writable, _ = select.select(readers, writers, [], 1.0 if self.closing else None)
            for each in writable:
                waiting[each] = waiting[each][each.send(waiting[each]) :]
            for each in readable:
                data = each.recv(_PIECE)
                if not data:
                    reading.discard(each)
                elif not self.closing:
                    waiting[other[each]] += self.seen(data, each is self.client)

    def seen(self, data: bytes, upwards: bool) -> bytes:
        """The bytes to pass on for `data`, after the fault if it is due among them."""
        told = self.plan.told
        if upwards != (told["direction"] == "put"):
            return data
        cut = self.plan.crossing(len(data))
        if cut is None:
            return data
        self.middle.note("fault", at=told["at"])
        if told["fault"] == "fin":
            self.closing = True
            return data[:cut]
        if told["fault"] == "rst":
            self.reset = True
        elif told["fault"] == "killed":
            kill_server(told)
        elif told["fault"] == "corrupt":
            return flipped(data, cut - 1, told)
        return data

    @staticmethod
    def abort(one: socket.socket) -> None:
        """Close by RST, whatever is unsent."""
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()


def listen(middle: Middle, port: int, target: int) -> None:
    listener = socket.create_server(("0.0.0.0", port), backlog=128)  # noqa: S104 - the lab's own network namespace
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    while True:
        connection, _ = listener.accept()
        middle.note("connection", port=port)
        Connection(middle, connection, target).start()


def harmed(middle: Middle, plan: Plan, data: bytes, *, upwards: bool) -> bytes:
    """A datagram as it goes on. Its size counts as content."""
    told = plan.told
    cut = plan.crossing(len(data)) if upwards == (told["direction"] == "put") else None
    if cut is None:
        return data
    middle.note("fault", at=told["at"])
    plan.rebinds = told["fault"] == "rebind"
    return flipped(data, cut - 1, told) if told["fault"] == "corrupt" else data


def towards(target: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect(("127.0.0.1", target))
    return one


def pass_datagrams(middle: Middle, port: int, target: int) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(("0.0.0.0", port))  # noqa: S104 - the lab's own network namespace
    servers: dict[Any, socket.socket] = {}
    clients: dict[socket.socket, tuple[Any, Plan]] = {}
    while True:
        for each in select.select([listener, *clients], [], [])[0]:
            with contextlib.suppress(OSError):  # the server does not listen at the moment
                data, address = each.recvfrom(1 << 16)
                if each is not listener:
                    client, plan = clients[each]
                    listener.sendto(harmed(middle, plan, data, upwards=False), client)
                    continue
                if address not in servers:
                    middle.note("connection", port=port)
                    servers[address] = towards(target)
                    clients[servers[address]] = address, middle.current()
                plan = clients[servers[address]][1]
                data = harmed(middle, plan, data, upwards=True)
                if plan.rebinds:
                    # A NAT that has forgotten the old port loses what still comes to it.
                    plan.rebinds = False
                    del clients[servers[address]]
                    servers[address].close()
                    servers[address] = towards(target)
                    clients[servers[address]] = address, plan
                servers[address].send(data)


def main(folder: str, *routes: str) -> int:
    middle = Middle(folder)
    pairs = [route.split(":") for route in routes if not route.startswith("udp:")]
    for _, port, target in (route.split(":") for route in routes if route.startswith("udp:")):
        threading.Thread(target=pass_datagrams, args=(middle, int(port), int(target)), daemon=True).start()
    for port, target in pairs[1:]:
        threading.Thread(target=listen, args=(middle, int(port), int(target)), daemon=True).start()
    listen(middle, int(pairs[0][0]), int(pairs[0][1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
