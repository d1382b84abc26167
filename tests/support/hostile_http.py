"""A scripted HTTP server on the loopback, plain or over TLS, in HTTP/1.1 or HTTP/2: each connection runs the test's own function.

Frames and header blocks are written by hand, because a library would refuse to send what these tests are about.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.servers.certificates import make_certificates
from tests.support.waiting import until

PATIENCE_S = 30.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def head(status: str = "200 OK", length: int | None = None, *fields: str) -> bytes:
    """The head of an HTTP/1.1 answer."""
    lines = [f"HTTP/1.1 {status}", *fields]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(*fields: tuple[str, str]) -> bytes:
    """Literal fields without indexing and without Huffman's code (RFC 7541, section 6.2.2)."""

    def text(value: str) -> bytes:
        data = value.encode("latin-1")
        assert len(data) < 127
        return bytes([len(data)]) + data

    return b"".join(b"\0" + text(name) + text(value) for name, value in fields)


@dataclass
class Talk:
    """One connection."""

    sock: socket.socket
    number: int
    _rest: bytes = b""

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.sock.sendall(piece)

    def hold_together(self) -> None:
        """Nothing leaves until the connection is closed, or a packet is full: what is sent arrives at once."""
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)

    def let_go(self) -> None:
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def _more(self) -> None:
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._rest += data

    def take(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._more()
        data, self._rest = self._rest[:count], self._rest[count:]
        return data

    def request(self) -> str:
        """The head of an HTTP/1.1 request."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(b"\r\n\r\n")
        return found.decode("latin-1")

    def hello(self) -> None:
        """Both sides' settings."""
        assert self.take(len(PREFACE)) == PREFACE
        self.send(frame(SETTINGS))

    def frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Kind, flags, stream, payload; SETTINGS and PING are answered by the caller if at all."""
        while True:
            header = self.take(9)
            length = int.from_bytes(header[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", header[3:])
            yield kind, flags, stream, self.take(length)

    def asked(self) -> int:
        """The stream of the next request over HTTP/2."""
        return next(stream for kind, _, stream, _ in self.frames() if kind == HEADERS)


@dataclass
class HostileServer:
    port: int
    cacert: Path | None
    connections: list[Talk] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def url(self, path: str = "/file") -> str:
        return f"{'https' if self.cacert else 'http'}://127.0.0.1:{self.port}{path}"

    def trust(self) -> list[str]:
        return ["--cacert", str(self.cacert)] if self.cacert else []


Script = Callable[[Talk, HostileServer], None]


@contextlib.contextmanager
def serve(script: Script, *, tls: bool = False, alpn: str = "http/1.1") -> Iterator[HostileServer]:
    """When the script returns, the connection says goodbye and is closed."""
    with tempfile.TemporaryDirectory(prefix="roughwater-hostile-") as made:
        folder = Path(made)
        context, cacert = None, None
        if tls:
            certificates = make_certificates(["127.0.0.1"])
            (folder / "server.pem").write_bytes(certificates.server_key_pem + certificates.server_pem)
            cacert = folder / "ca.pem"
            cacert.write_bytes(certificates.ca_pem)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(folder / "server.pem")
            context.set_alpn_protocols([alpn])

        def talk(sock: socket.socket) -> None:
            wrapped = context.wrap_socket(sock, server_side=True) if context else sock
            made = Talk(wrapped, len(server.connections))
            server.connections.append(made)
            try:
                script(made, server)
                if isinstance(wrapped, ssl.SSLSocket):
                    # close_notify, without waiting for the client's.
                    wrapped.settimeout(0.0)
                    with contextlib.suppress(OSError):
                        wrapped.unwrap()
                _drain(wrapped)
            finally:
                wrapped.close()

        with serve_sockets(talk) as sockets:
            server = HostileServer(sockets.port, cacert)
            yield server


@dataclass
class SocketServer:
    port: int
    errors: list[BaseException] = field(default_factory=list)


@contextlib.contextmanager
def serve_sockets(script: Callable[[socket.socket], None]) -> Iterator[SocketServer]:
    """Each connection runs the script in a thread, and is closed after it. A failed assertion of a script fails the test."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = SocketServer(int(listener.getsockname()[1]))

        def talk(sock: socket.socket) -> None:
            with contextlib.suppress(OSError), sock:
                sock.settimeout(PATIENCE_S)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    script(sock)
                    _drain(sock)
                except AssertionError as error:
                    server.errors.append(error)

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        if server.errors:
            raise server.errors[0]


def _drain(sock: socket.socket) -> None:
    """Ends our side and waits for the client: closing with bytes unread is a reset, which takes what the client has not read."""
    sock.settimeout(PATIENCE_S)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(1 << 16):
        pass


def everything_is_read(sock: socket.socket) -> None:
    """Waits until nothing is left in this connection's queues, ours and the client's."""
    ports = {sock.getsockname()[1], sock.getpeername()[1]}
    until(lambda: _queued(ports) == 0, "the client reads", PATIENCE_S)


def _queued(ports: set[int]) -> int:
    """Bytes in both ends' queues, as the kernel lists them (man 5 proc_pid_net)."""
    found = 0
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if {int(end.rpartition(":")[2], 16) for end in (local, remote)} == ports:
            found += sum(int(queue, 16) for queue in queues.split(":"))
    return found
