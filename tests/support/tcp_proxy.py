"""A TCP proxy on the loopback whose link a test takes down, cuts or resets, at a byte it names."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.waiting import until

Way = Literal["up", "down"]

_NO_LINGER = struct.pack("ii", 1, 0)
_PIECE = 1 << 16
# The content of a slow link: less would be a window in which Linux sends nothing.
_NARROW = 4096
PATIENCE_S = 30.0


@dataclass
class _Pair:
    """A connection: the client's half and the server's."""

    client: socket.socket
    server: socket.socket
    # In the order in which clients have sent something: of connections made side by side any can come first. 0 before.
    number: int = 0
    # Bytes towards the client.
    down: int = 0

    def end(self, *, reset: bool) -> None:
        for sock in (self.client, self.server):
            with contextlib.suppress(OSError):
                if reset:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                    # Closing alone would wait for a thread that sits in recv or send.
                    sock.shutdown(socket.SHUT_RD)
                else:
                    sock.shutdown(socket.SHUT_RDWR)
            if reset:
                with contextlib.suppress(OSError):
                    sock.close()


@dataclass
class Proxy:
    """Forwards to `target`, with faults on request. `up` is towards the server."""

    target: int
    port: int = 0
    # For each direction: enough of a long fat link for an SSH client.
    delay_s: float = 0.0
    # Towards the server, with little room on the way; 0 is unlimited.
    up_byte_s: int = 0
    # Bytes forwarded, of all connections.
    moved: dict[Way, int] = field(default_factory=lambda: {"up": 0, "down": 0})
    connections: int = 0
    # Connections after the first that carries something wait for `let_further`, and only the first is held.
    holds_first_only: bool = False
    _held: bool = False
    _trip: tuple[Way, int] | None = None
    _pairs: list[_Pair] = field(default_factory=list)
    _further: bool = False
    _spoken: int = 0
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def hold_after(self, way: Way, count: int) -> None:
        """Take the link down in both directions after `count` more bytes in direction `way`."""
        with self._turn:
            self._trip = way, self.moved[way] + count

    def wait_held(self) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._held, PATIENCE_S), f"{self._trip} has not passed: {self.moved}"

    def hold(self) -> None:
        with self._turn:
            self._held = True
            self._turn.notify_all()

    def is_held(self) -> bool:
        with self._turn:
            return self._held

    def settle(self, way: Way) -> None:
        """Wait until the receivers of direction `way` have read what was forwarded."""
        with self._turn:
            socks = [pair.server if way == "up" else pair.client for pair in self._pairs]
        ends = set()
        for sock in socks:
            with contextlib.suppress(OSError):
                ends.add((int(sock.getpeername()[1]), int(sock.getsockname()[1])))
        until(lambda: _unread(ends) == 0, "what was forwarded is read", PATIENCE_S)

    def release(self, then: tuple[Way, int] | None = None) -> None:
        """Let go what was held back; with `then` until that number of further bytes has passed in a direction."""
        with self._turn:
            self._held = False
            self._trip = None if then is None else (then[0], self.moved[then[0]] + then[1])
            self._turn.notify_all()

    def let_further(self) -> None:
        """Let the connections after the first begin."""
        with self._turn:
            self._further = True
            self._turn.notify_all()

    def down_further(self) -> list[int]:
        """Bytes towards the client, of each connection after the first."""
        with self._turn:
            return [pair.down for pair in self._pairs if pair.number > 1]

    def outgoing(self) -> set[int]:
        """Our ports of the connections to the server."""
        found = set()
        with self._turn:
            for pair in self._pairs:
                with contextlib.suppress(OSError):
                    found.add(int(pair.server.getsockname()[1]))
        return found

    def reset(self) -> None:
        """RST to both sides of every connection; the next ones are forwarded."""
        self._end(reset=True)

    def cut(self) -> None:
        """FIN to both sides of every connection."""
        self._end(reset=False)

    def say_goodbye(self) -> None:
        """FIN to the client of every connection, and nothing is read any more, so that its window stays as full as it is."""
        with self._turn:
            for pair in self._pairs:
                pair.client.shutdown(socket.SHUT_WR)

    def _end(self, *, reset: bool) -> None:
        with self._turn:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.end(reset=reset)
        self.release()

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                client.close()
                continue
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            with self._turn:
                self._pairs.append(pair)
            for way in ("up", "down"):
                threading.Thread(target=self._forward, args=(pair, way), daemon=True).start()
            # A socket closes only when the last thread lets go of it, and this thread waits in accept.
            del pair, client, server

    def _forward(self, pair: _Pair, way: Way) -> None:
        source, sink = (pair.client, pair.server) if way == "up" else (pair.server, pair.client)
        if self.delay_s:
            self._forward_late(source, sink)
            return
        try:
            while data := source.recv(self._room(way)):
                if way == "up" and not pair.number:
                    self._number(pair)
                if not self._up(pair):
                    return
                if way == "up" and self.up_byte_s:
                    time.sleep(len(data) / self.up_byte_s)
                sink.sendall(data)
                with self._turn:
                    self.moved[way] += len(data)
                    pair.down += len(data) if way == "down" else 0
                    if self._trip is not None and self.moved[self._trip[0]] >= self._trip[1]:
                        self._held, self._trip = True, None
                        self._turn.notify_all()
            if self._up(pair):
                sink.shutdown(socket.SHUT_WR)
        except ConnectionResetError:
            pair.end(reset=True)
        except OSError:
            pair.end(reset=False)

    def _forward_late(self, source: socket.socket, sink: socket.socket) -> None:
        waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def deliver() -> None:
            with contextlib.suppress(OSError):
                while data := (due := waiting.get())[1]:
                    time.sleep(max(0.0, due[0] - time.monotonic()))
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)

        threading.Thread(target=deliver, daemon=True).start()
        data = b"begin"
        while data:
            try:
                data = source.recv(_PIECE)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self.delay_s, data))

    def _room(self, way: Way) -> int:
        """Not beyond the byte at which the link goes down."""
        with self._turn:
            if way == "up" and self.up_byte_s:
                return _NARROW
            if self._trip is not None and self._trip[0] == way:
                return max(1, min(_PIECE, self._trip[1] - self.moved[way]))
            return _PIECE

    def _number(self, pair: _Pair) -> None:
        with self._turn:
            self._spoken += 1
            pair.number = self._spoken

    def _up(self, pair: _Pair) -> bool:
        """Waits while the link is down; false when the connection was ended meanwhile."""
        with self._turn:
            self._turn.wait_for(lambda: self._flows(pair) or pair not in self._pairs)
            return pair in self._pairs

    def _flows(self, pair: _Pair) -> bool:
        if self.holds_first_only and pair.number > 1:
            return self._further
        return not self._held


def _unread(ends: set[tuple[int, int]]) -> int:
    """Bytes on their way to sockets with these local and remote ports, or in their queues (man 5 proc_pid_net)."""
    found = 0
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        here, there = (int(end.rpartition(":")[2], 16) for end in (local, remote))
        sent, received = (int(queue, 16) for queue in queues.split(":"))
        found += received if (here, there) in ends else sent if (there, here) in ends else 0
    return found


@contextlib.contextmanager
def proxy_to(port: int, *, delay_s: float = 0.0, up_byte_s: int = 0, holds_first_only: bool = False) -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if up_byte_s:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NARROW)
        proxy = Proxy(port, int(listener.getsockname()[1]), delay_s, up_byte_s, holds_first_only=holds_first_only)
        threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
        try:
            yield proxy
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            proxy.cut()
