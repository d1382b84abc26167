"""Runs on the lab's server host, by the environment's own Python (it needs h2): a server that does one thing wrong at a time.

usage: faulty_server.py FOLDER PORT=KIND[+ALPN][@BYTES]...
  KIND    `plain`, or the name of FOLDER/KIND.pem for TLS; ALPN is the one protocol it knows, by default h2 and http/1.1
  BYTES   the receive buffer: with a small one, what the server has not read has not arrived

A request's path says how it is answered: /FAULT/SIZE?run=WORD&times=N&then=FAULT...
  FAULT   a name of `FAULTS` (faults.py)
  SIZE    bytes of the complete body, which is `content(SIZE, version)`
  run     a test's own word, to find its requests in the log
  times   number of requests for this URL that meet the fault (default: all); later ones meet `then` (default: honest)

FOLDER/log has a line of JSON for every connection, every request as soon as its head is there, and every upload at its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded
from hyperframe.frame import GoAwayFrame

# It runs isolated (-I), and then the checkout is not on the path.
sys.path.append(str(Path(__file__).parents[2]))

from tests.support.faults import Answer, Ask, Reading, answer_to

# A client that never closes must not keep a thread for ever.
PATIENCE_S = 20.0
# Some round trips of the lab's link.
_ARRIVED_S = 0.05
# Nothing is taken from the socket for so long.
_DEAF_S = 8.0
_FRAME_BYTES = 16_384
_NO_LINGER = struct.pack("ii", 1, 0)


class Log:
    """A log of JSON lines that threads can share, and the number of requests for each URL."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._turns: Counter[str] = Counter()

    def write(self, **line: object) -> None:
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def ask(self, port: int, protocol: str, method: str, target: str, headers: dict[str, str]) -> Ask:
        with self._lock:
            self._turns[target] += 1
            turn = self._turns[target]
        ask = Ask(port, protocol, method, target, headers, turn)
        more = {"protocol": protocol, "method": method, "target": target, "headers": headers}
        self.write(what="request", run=ask.options.get("run"), at_s=time.monotonic(), port=port, **more)
        return ask

    def upload(self, ask: Ask, body: bytes) -> None:
        self.write(what="upload", run=ask.options.get("run"), bytes=len(body), sha256=hashlib.sha256(body).hexdigest())


class ClosedError(Exception):
    """The client has gone."""


class Http1:
    """One connection, one request after the other."""

    def __init__(self, sock: socket.socket, port: int, log: Log) -> None:
        self._sock, self._port, self._log = sock, port, log
        self._rest = b""

    def serve(self) -> None:
        while True:
            head = self._until(b"\r\n\r\n").decode("latin-1")
            line, *fields = head.split("\r\n")
            method, target, _ = line.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in fields if text)}
            ask = self._log.ask(self._port, "http/1.1", method, target, headers)
            answer = answer_to(ask)
            if method in ("PUT", "POST"):
                self._upload(ask, answer.reading)
            if not self._deliver(answer):
                return

    def _upload(self, ask: Ask, reading: Reading) -> None:
        if reading == "some":
            self._rest = self._rest or self._receive()
        if reading == "all":
            length = ask.headers.get("content-length")
            self._log.upload(ask, b"".join(self._chunks()) if length is None else self._exactly(int(length)))

    def _deliver(self, answer: Answer) -> bool:
        """Whether another request may follow."""
        if answer.raw is not None:
            self._sock.sendall(answer.raw)
        else:
            self._sock.sendall(_head(answer))
            body = answer.body if answer.sent is None else answer.body[: answer.sent]
            if answer.framing == "chunks":
                # The last chunk of a body that is cut is larger than what comes of it.
                more = 1000 if answer.end == "close" else 0
                body = b"%x\r\n%b" % (len(body) + more, body) + (b"" if more else b"\r\n0\r\n\r\n")
            self._sock.sendall(body)
        if answer.end == "reset":
            _reset(self._sock)
        if answer.end == "deaf":
            time.sleep(_DEAF_S)
        if answer.end == "goodbye" and isinstance(self._sock, ssl.SSLSocket):
            self._sock.unwrap()
            raise ClosedError
        if answer.end == "close" and answer.reading == "all":
            _finish(self._sock)
        if answer.end == "stall" or (answer.reading == "none" and answer.end == "done"):
            # Read and discard the rest of an upload, like nginx.
            while self._receive():
                pass
        return answer.end == "done" and answer.raw is None

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._rest += self._receive()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._rest += self._receive()
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size)
            self._until(b"\r\n")
        self._until(b"\r\n")

    def _receive(self) -> bytes:
        data = self._sock.recv(65_536)
        if not data:
            raise ClosedError
        return data


def _head(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    if answer.framing == "chunks":
        headers["Transfer-Encoding"] = "chunked"
    elif answer.framing == "length":
        headers["Content-Length"] = str(len(answer.body) if answer.announced is None else answer.announced)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} Said\r\n{lines}\r\n".encode("latin-1")


def _finish(sock: socket.socket) -> None:
    """Send FIN without TLS's close_notify, then read the client's data, because unread data would turn the FIN into an RST."""
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65_536):
        pass
    raise ClosedError


def _reset(sock: socket.socket) -> None:
    """RST instead of FIN, when what was sent before has arrived."""
    time.sleep(_ARRIVED_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    sock.close()
    raise ClosedError


class Http2:
    """One connection. It sends one answer at a time; requests that arrive meanwhile wait."""

    def __init__(self, sock: socket.socket, port: int, log: Log) -> None:
        self._sock, self._port, self._log = sock, port, log
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8", validate_outbound_headers=False))
        self._events: deque[Event] = deque()
        self._asks: dict[int, tuple[Ask, Answer]] = {}
        self._bodies: dict[int, bytes] = {}
        self._going_away = False

    def serve(self) -> None:
        self._h2.initiate_connection()
        self._flush()
        while True:
            while not self._events:
                self._receive()
            self._on(self._events.popleft())
            self._flush()

    def _on(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and not self._going_away:
            fields = {str(name): str(value) for name, value in event.headers or []}
            target, method = fields[":path"], fields[":method"]
            ask = self._log.ask(self._port, "h2", method, target, fields)
            self._asks[event.stream_id] = ask, answer_to(ask)
            self._bodies[event.stream_id] = b""
            self._deliver_when("none", event.stream_id)
        if isinstance(event, DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self._bodies:
                self._bodies[event.stream_id] += event.data
                self._deliver_when("some", event.stream_id)
        if isinstance(event, StreamEnded) and event.stream_id in self._asks:
            ask, _ = self._asks[event.stream_id]
            if ask.method in ("PUT", "POST"):
                self._log.upload(ask, self._bodies[event.stream_id])
            self._deliver_when("all", event.stream_id)

    def _deliver_when(self, reading: Reading, stream: int) -> None:
        if stream in self._asks and self._asks[stream][1].reading == reading:
            self._deliver(stream, self._asks.pop(stream)[1])

    def _deliver(self, stream: int, answer: Answer) -> None:
        if answer.raw is not None:
            self._sock.sendall(answer.raw)
        else:
            self._send(stream, answer)
        if answer.end == "close":
            self._flush()
            _finish(self._sock)
        if answer.end == "reset":
            self._flush()
            _reset(self._sock)
        if answer.end == "deaf":
            self._flush()
            time.sleep(_DEAF_S)
        if answer.end == "reset-stream":
            self._h2.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
        if answer.end == "refuse-stream":
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
        if answer.end == "go-away-at-once":
            self._go_away(0)
            raise ClosedError

    def _send(self, stream: int, answer: Answer) -> None:
        length = len(answer.body) if answer.announced is None else answer.announced
        headers = [(":status", str(answer.status)), *((name.lower(), value) for name, value in answer.headers.items())]
        headers = [(name, value) for name, value in headers if name != "connection"]
        self._h2.send_headers(stream, [*headers, ("content-length", str(length))])
        cut = len(answer.body) if answer.sent is None else answer.sent
        self._data(stream, answer.body[:cut])
        if answer.end == "go-away":
            self._flush()
            self._go_away(stream)
            self._data(stream, answer.body[cut:])
        if answer.end in ("done", "deaf", "go-away"):
            self._h2.end_stream(stream)

    def _data(self, stream: int, body: bytes) -> None:
        while body:
            room = min(self._h2.local_flow_control_window(stream), _FRAME_BYTES)
            if room <= 0:
                self._receive()
                continue
            self._h2.send_data(stream, body[:room])
            body = body[room:]
            self._flush()

    def _go_away(self, last: int) -> None:
        """By hand: h2 would hold the connection for closed, and not finish what it has promised."""
        self._going_away = True
        frame = GoAwayFrame(0, last_stream_id=last, error_code=int(ErrorCodes.NO_ERROR))
        self._sock.sendall(frame.serialize())

    def _receive(self) -> None:
        data = self._sock.recv(65_536)
        if not data:
            raise ClosedError
        self._events.extend(self._h2.receive_data(data))
        self._flush()

    def _flush(self) -> None:
        self._sock.sendall(self._h2.data_to_send())


def handle(accepted: socket.socket, port: int, context: ssl.SSLContext | None, log: Log) -> None:
    sock = accepted
    try:
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=True)
        protocol = sock.selected_alpn_protocol() if isinstance(sock, ssl.SSLSocket) else None
        (Http2 if protocol == "h2" else Http1)(sock, port, log).serve()
    except (ClosedError, OSError) as error:
        log.write(what="closed", port=port, why=repr(error))
    except Exception as error:
        # Whatever it is, the tests must get to see it.
        log.write(what="fault of the server itself", port=port, why=repr(error))
    finally:
        with contextlib.suppress(OSError):
            sock.close()


def tls_context(pem: Path, alpn: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.set_alpn_protocols([alpn] if alpn else ["h2", "http/1.1"])
    return context


def listen(port: int, context: ssl.SSLContext | None, log: Log, buffer: int | None) -> None:
    with socket.create_server(("0.0.0.0", port), backlog=64) as server:
        if buffer is not None:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        while True:
            accepted, _ = server.accept()
            log.write(what="connection", port=port)
            threading.Thread(target=handle, args=(accepted, port, context, log), daemon=True).start()


def main(folder: Path, places: list[str]) -> None:
    with (folder / "log").open("a") as file:
        log = Log(file)
        threads = []
        for place in places:
            port, _, kind = place.partition("=")
            kind, _, buffer = kind.partition("@")
            name, _, alpn = kind.partition("+")
            context = None if kind == "plain" else tls_context(folder / f"{name}.pem", alpn)
            threads.append(
                threading.Thread(target=listen, args=(int(port), context, log, int(buffer) if buffer else None), daemon=True)
            )
            threads[-1].start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
