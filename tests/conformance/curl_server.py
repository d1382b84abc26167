"""A server that answers as curl's test server does: a test file's replies, chosen by the number at the end of the path."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.conformance.curl_file import TestFile
from tests.support.hostile_http import SocketServer, serve_sockets

_SMALL = 4096
_PIECE = 20


@dataclass(frozen=True)
class Request:
    """What a client sent, once."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def field(self, name: str) -> str | None:
        """The values of a field, by its name in lower case."""
        found = [value for each, value in self.fields if each.lower() == name]
        return ", ".join(found) if found else None


def parse_request(head: str, body: bytes = b"") -> Request:
    first, *lines = head.replace("\r", "").split("\n")
    method, _, rest = first.partition(" ")
    fields = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line))
    return Request(method, rest.rpartition(" HTTP/")[0], fields, body)


@dataclass
class _Reader:
    sock: socket.socket
    kept: bytes = b""

    def more(self) -> None:
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self.kept += data

    def until(self, mark: bytes) -> bytes:
        while mark not in self.kept:
            self.more()
        found, _, self.kept = self.kept.partition(mark)
        return found

    def take(self, count: int) -> bytes:
        while len(self.kept) < count:
            self.more()
        found, self.kept = self.kept[:count], self.kept[count:]
        return found

    def chunks(self) -> bytes:
        body = b""
        while size := int(self.until(b"\r\n").split(b";")[0], 16):
            body += self.take(size)
            self.take(2)
        self.until(b"\r\n")
        return body


@dataclass
class CurlServer:
    """`test` is set once the ports are known, before the client begins."""

    tls: Path | None
    """Key and certificate of the server with TLS."""
    test: TestFile = field(default_factory=lambda: TestFile(0, {}))
    requests: list[Request] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    socks: list[str] = field(default_factory=list)
    bounced: int | None = None
    """The next part, where the one before said so."""

    @property
    def orders(self) -> dict[str, str]:
        pairs = (line.partition(":" if ":" in line else " ") for line in self.test.text("reply", "servercmd").splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}

    def talk(self, sock: socket.socket, *, tls: bool = False, socks: bool = False) -> None:
        if tls:
            assert self.tls
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls)
            sock = context.wrap_socket(sock, server_side=True)
        reader = _Reader(sock)
        if socks:
            self.socks.append(_socks5(reader))
        time.sleep(int(self.orders.get("delay", 0)) / 1000)
        with contextlib.suppress(ConnectionResetError):
            while self._answer(sock, reader):
                pass
        if isinstance(sock, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                sock.settimeout(0.0)
                sock.unwrap()

    def _answer(self, sock: socket.socket, reader: _Reader) -> bool:
        """Reads a request and answers it. False where the connection is to be closed."""
        request = self._request(reader)
        self.requests.append(request)
        if "idle" in self.orders:
            # Until the client has enough of it.
            reader.until(b"\0never\0")
        section, number = ("connect" if request.method == "CONNECT" else "data"), self._number(request)
        part = self.test.get("reply", f"{section}{number or ''}")
        # What a proxy of curl's tests answers, where the test leaves it open.
        otherwise = b"HTTP/1.1 200 OK\r\n\r\n" if section == "connect" else b""
        data = part.data if part else otherwise
        self.bounced = number + 1 if b"swsbounce" in data else None
        _send(sock, data, int(self.orders.get("writedelay", 0)) / 1000)
        for seconds in re.findall(r"^wait (\d+)", self.test.text("reply", "postcmd"), re.M):
            time.sleep(int(seconds))
        return bool(data) and b"swsclose" not in data and "swsclose" not in self.orders

    def _request(self, reader: _Reader) -> Request:
        head = parse_request(reader.until(b"\r\n\r\n").decode("latin-1"))
        length, body = int(head.field("content-length") or 0), b""
        if "auth_required" in self.orders and not head.field("authorization"):
            return head
        if head.field("transfer-encoding") == "chunked":
            body = reader.chunks()
        elif length:
            body = reader.take(length - int(self.orders.get("skip", 0)))
        return Request(head.method, head.target, head.fields, body)

    def _number(self, request: Request) -> int:
        if self.bounced is not None:
            return self.bounced
        found = re.match(r"\d+", request.target.rpartition("/")[2])
        number = int(found[0]) if found else 0
        return number % 10000 if number > 10000 else 0


def _socks5(reader: _Reader) -> str:
    """The proxy's part (RFC 1928), and where the client wants to go."""
    assert reader.take(1) == b"\5"
    methods = reader.take(reader.take(1)[0])
    if 0 not in methods:
        reader.sock.sendall(b"\5\2")
        assert reader.take(1) == b"\1"
        reader.take(reader.take(1)[0])
        reader.take(reader.take(1)[0])
        reader.sock.sendall(b"\1\0")
    else:
        reader.sock.sendall(b"\5\0")
    _, _, _, kind = reader.take(4)
    if kind == 3:
        place = reader.take(reader.take(1)[0]).decode("latin-1")
    else:
        raw = reader.take(4 if kind == 1 else 16)
        place = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, raw)
    (port,) = struct.unpack(">H", reader.take(2))
    reader.sock.sendall(b"\5\0\0\1\0\0\0\0\0\0")
    return f"{place}:{port}"


def _send(sock: socket.socket, data: bytes, pause_s: float) -> None:
    """In pieces as small as those of curl's server, where there are not too many of them."""
    size = _PIECE if len(data) <= _SMALL else _SMALL
    for at in range(0, len(data), size):
        sock.sendall(data[at : at + size])
        time.sleep(pause_s)


@contextlib.contextmanager
def serving(tls: Path) -> Iterator[CurlServer]:
    """Servers for HTTP, HTTPS and both kinds of proxies, each on a port of its own."""
    server = CurlServer(tls)
    kinds: dict[str, Callable[[socket.socket], None]] = {
        "HTTP": server.talk,
        "HTTPS": partial(server.talk, tls=True),
        "PROXY": server.talk,
        "SOCKS": partial(server.talk, socks=True),
    }
    with contextlib.ExitStack() as stack:
        for name, talk in kinds.items():
            made: SocketServer = stack.enter_context(serve_sockets(talk))
            server.ports[name] = made.port
        yield server
