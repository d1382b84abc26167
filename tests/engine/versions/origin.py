"""An HTTP server whose files change: HTTP/1.1 in plain text, HTTP/2 over TLS, GET with ranges and PUT.

Its validators come from the open file, as nginx has them: ETag from time and size, Last-Modified in seconds. `Manners` are
differences that real servers show.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

_PIECE = 1 << 16
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_PATIENCE_S = 30.0
Fields = list[tuple[str, str]]


@dataclass(frozen=True)
class Manners:
    """`validators`: strong, weak, date, none. `if_range`: honoured, ignored, dates (as aiohttp: an ETag in it is ignored).

    `length`: the answer has one. `rest_as_all`: a Range is answered by a 200 that has only the rest.
    """

    validators: str = "strong"
    if_range: str = "honoured"
    ranges: bool = True
    length: bool = True
    rest_as_all: bool = False


HONEST = Manners()


@dataclass(frozen=True)
class _Answer:
    """Bytes of the open file from `begin`, `count` of them."""

    status: int
    fields: Fields
    file: int = -1
    begin: int = 0
    count: int = 0

    def body(self) -> Iterator[bytes]:
        """Raises ConnectionAbortedError where the file has become shorter."""
        at, end = self.begin, self.begin + self.count
        while at < end:
            data = os.pread(self.file, min(_PIECE, end - at), at)
            if not data:
                raise ConnectionAbortedError
            at += len(data)
            yield data

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)


@dataclass
class Origin:
    """`served` has the files, `stored` gets what arrives complete."""

    served: Path
    stored: Path
    manners: Manners = HONEST
    plain_port: int = 0
    tls_port: int = 0
    uploads: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, asked: dict[str, str]) -> _Answer:
        try:
            file = os.open(self.served / path.lstrip("/"), os.O_RDONLY)
        except OSError:
            return _Answer(404, [("content-length", "0")])
        facts = os.fstat(file)
        manners, size = self.manners, facts.st_size
        etag, modified = f'"{facts.st_mtime_ns:x}-{size:x}"', formatdate(int(facts.st_mtime), usegmt=True)
        fields = [("date", formatdate(usegmt=True))]
        if manners.validators in ("strong", "weak"):
            fields.append(("etag", etag if manners.validators == "strong" else f"W/{etag}"))
        if manners.validators != "none":
            fields.append(("last-modified", modified))
        found = _RANGE.fullmatch(asked.get("range", "")) if manners.ranges else None
        if found is None or not self._goes_on(asked.get("if-range"), etag, modified):
            length = [("content-length", str(size))] if manners.length else []
            return _Answer(200, fields + length, file, 0, size)
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
        if first >= size:
            os.close(file)
            return _Answer(416, [*fields, ("content-range", f"bytes */{size}"), ("content-length", "0")])
        count = last - first + 1
        if manners.rest_as_all and first > 0:
            return _Answer(200, [*fields, ("content-length", str(count))], file, first, count)
        fields += [("content-range", f"bytes {first}-{last}/{size}"), ("content-length", str(count))]
        return _Answer(206, fields, file, first, count)

    def _goes_on(self, if_range: str | None, etag: str, modified: str) -> bool:
        """True where If-Range permits the range."""
        known = {"strong": (etag, modified), "weak": (modified,), "date": (modified,), "none": ()}[self.manners.validators]
        if if_range is None or self.manners.if_range == "ignored":
            return True
        if self.manners.if_range == "dates" and '"' in if_range:
            return True
        return if_range in known

    def store(self, path: str, data: bytes) -> None:
        with self._lock:
            self.uploads += 1
            aside = self.stored.parent / f"upload-{self.uploads}"
        aside.write_bytes(data)
        aside.replace(self.stored / path.lstrip("/"))


@contextlib.contextmanager
def serving(origin: Origin, certificate: Path) -> Iterator[Origin]:
    """`certificate` is a PEM file with key and certificate. Every connection has a thread."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])

    def talk(sock: socket.socket, secure: bool) -> None:
        with contextlib.suppress(OSError, ValueError, h2.exceptions.ProtocolError), sock:
            sock.settimeout(_PATIENCE_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                with context.wrap_socket(sock, server_side=True) as wrapped:
                    _Http2(origin, wrapped).talk()
            else:
                _Http1(origin, sock).talk()

    def accept(listener: socket.socket, secure: bool) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(sock, secure), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as plain, socket.create_server(("127.0.0.1", 0)) as tls:
        origin.plain_port, origin.tls_port = plain.getsockname()[1], tls.getsockname()[1]
        for listener, secure in ((plain, False), (tls, True)):
            threading.Thread(target=accept, args=(listener, secure), daemon=True).start()
        try:
            yield origin
        finally:
            for listener in (plain, tls):
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)


class _Http1:
    """One request after the other."""

    def __init__(self, origin: Origin, sock: socket.socket) -> None:
        self._origin, self._sock, self._rest = origin, sock, b""

    def talk(self) -> None:
        while (head := self._until(b"\r\n\r\n")) is not None:
            line, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = line.split(" ")
            asked = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
            if method == "PUT":
                self._origin.store(path, self._take(int(asked["content-length"])))
                self._sock.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
                continue
            answer = self._origin.answer(path, asked)
            try:
                self._send(answer)
            finally:
                answer.close()

    def _send(self, answer: _Answer) -> None:
        chunked = not any(name == "content-length" for name, _ in answer.fields)
        fields = [*answer.fields, *([("transfer-encoding", "chunked")] if chunked else [])]
        lines = [f"HTTP/1.1 {answer.status} Said", *(f"{name}: {value}" for name, value in fields)]
        self._sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for data in answer.body():
            self._sock.sendall(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if chunked:
            self._sock.sendall(b"0\r\n\r\n")

    def _more(self) -> None:
        data = self._sock.recv(_PIECE)
        if not data:
            raise ConnectionAbortedError
        self._rest += data

    def _until(self, end: bytes) -> bytes | None:
        while end not in self._rest:
            try:
                self._more()
            except ConnectionAbortedError:
                return None
        found, _, self._rest = self._rest.partition(end)
        return found

    def _take(self, count: int) -> bytes:
        pieces, left = [self._rest[:count]], count - len(self._rest)
        self._rest = self._rest[count:]
        while left > 0:
            data = self._sock.recv(min(left, 1 << 20))
            if not data:
                raise ConnectionAbortedError
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces)


@dataclass
class _Stream:
    path: str
    answer: _Answer | None = None
    body: Iterator[bytes] = field(default_factory=lambda: iter(()))
    waiting: bytes = b""
    received: list[bytes] = field(default_factory=list)


class _Http2:
    """Requests side by side; their answers take turns."""

    def __init__(self, origin: Origin, sock: ssl.SSLSocket) -> None:
        self._origin, self._sock = origin, sock
        self._state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        self._streams: dict[int, _Stream] = {}

    def talk(self) -> None:
        self._state.initiate_connection()
        # A complete upload fits into one window.
        self._state.increment_flow_control_window(1 << 28)
        self._sock.sendall(self._state.data_to_send())
        try:
            while data := self._sock.recv(_PIECE):
                for event in self._state.receive_data(data):
                    self._on(event)
                while self._turn():
                    self._sock.sendall(self._state.data_to_send())
                self._sock.sendall(self._state.data_to_send())
        finally:
            for stream in self._streams.values():
                if stream.answer is not None:
                    stream.answer.close()

    def _on(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            asked = {str(name): str(value) for name, value in event.headers}
            stream = self._streams[event.stream_id] = _Stream(asked[":path"])
            if asked[":method"] == "PUT":
                self._state.increment_flow_control_window(1 << 28, event.stream_id)
            else:
                stream.answer = self._origin.answer(stream.path, asked)
                stream.body = stream.answer.body()
                self._state.send_headers(event.stream_id, [(":status", str(stream.answer.status)), *stream.answer.fields])
        elif isinstance(event, h2.events.DataReceived):
            self._streams[event.stream_id].received.append(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            stream = self._streams[event.stream_id]
            if stream.answer is None:
                self._origin.store(stream.path, b"".join(stream.received))
                self._state.send_headers(event.stream_id, [(":status", "201")], end_stream=True)
                del self._streams[event.stream_id]
        elif isinstance(event, h2.events.StreamReset):
            gone = self._streams.pop(event.stream_id, None)
            if gone is not None and gone.answer is not None:
                gone.answer.close()

    def _turn(self) -> bool:
        """Sends a frame of every answer that may have one. Returns whether any was sent."""
        moved = False
        for number, stream in list(self._streams.items()):
            room = min(self._state.local_flow_control_window(number), self._state.max_outbound_frame_size)
            if stream.answer is None:
                continue
            try:
                stream.waiting = stream.waiting or next(stream.body, b"")
            except ConnectionAbortedError:
                self._state.reset_stream(number, h2.errors.ErrorCodes.INTERNAL_ERROR)
                self._end(number, stream)
                continue
            if not stream.waiting:
                self._state.end_stream(number)
                self._end(number, stream)
                moved = True
            elif room > 0:
                self._state.send_data(number, stream.waiting[:room])
                stream.waiting = stream.waiting[room:]
                moved = True
        return moved

    def _end(self, number: int, stream: _Stream) -> None:
        if stream.answer is not None:
            stream.answer.close()
        del self._streams[number]
