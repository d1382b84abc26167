"""Runs on a client host: the host's only resolver and a small web server. Standard library only.

usage: lookups_script.py HTTP_PORT FOLDER

On port 53 of every address, UDP and TCP, it answers each query at once with "no such name" and prints a line `query NAME TYPE`.
A host without a nameserver in resolv.conf asks 127.0.0.1; a nameserver at another loopback address reaches this script as well.
GET on 127.0.0.1:HTTP_PORT serves the files below FOLDER, and 204 for /ready. It exits with 0 on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

_TYPES = {1: "A", 28: "AAAA", 5: "CNAME", 12: "PTR", 33: "SRV", 64: "SVCB", 65: "HTTPS"}
_HEADER = 12
_LONGEST_NAME = 255
"""With the length of each label and the root's (RFC 1035, 2.3.4)."""


def question(message: bytes) -> tuple[str, str, int]:
    """Name, type and end of a query's first question (RFC 1035, 4.1). Raises ValueError for anything else."""
    if len(message) < _HEADER or message[4:6] == b"\0\0":
        raise ValueError("no question")
    labels, at = [], _HEADER
    while at < len(message) and message[at]:
        length = message[at]
        # A query has nothing to point back to.
        if length > 63 or at + 1 + length > len(message):
            raise ValueError("a name that cannot be")
        labels.append(message[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += 1 + length
    if at + 5 > len(message) or at + 1 > _HEADER + _LONGEST_NAME:
        raise ValueError("cut off")
    (number,) = struct.unpack_from("!H", message, at + 1)
    return ".".join(labels) or ".", _TYPES.get(number, str(number)), at + 5


def refusal(message: bytes, end: int) -> bytes:
    """NXDOMAIN to the first question, recursion available; nothing else is in it."""
    return message[:2] + b"\x81\x83" + struct.pack("!4H", 1, 0, 0, 0) + message[_HEADER:end]


def note(message: bytes) -> bytes:
    """Print the query; returns the answer, empty for anything but a query."""
    try:
        name, kind, end = question(message)
    except ValueError:
        os.write(1, b"query ? ?\n")
        return b""
    os.write(1, f"query {''.join(name.split())} {kind}\n".encode())
    return refusal(message, end)


def serve_udp(sink: socket.socket) -> None:
    while True:
        message, sender = sink.recvfrom(4096)
        if answer := note(message):
            sink.sendto(answer, sender)


def serve_tcp(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(2.0)
            try:
                message = connection.recv(4096)[2:]
                answer = note(message)
                connection.sendall(struct.pack("!H", len(answer)) + answer)
            except OSError:
                continue


class Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/ready":
            self.send_response(204)
            self.end_headers()
            return
        super().do_GET()

    def address_string(self) -> str:
        """Never a look-up: it would be counted."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Without HTTPServer's own, which looks up the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])


def stop(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def main(port: str, folder: str) -> int:
    signal.signal(signal.SIGTERM, stop)
    os.chdir(folder)
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("0.0.0.0", 53))  # noqa: S104 - the lab's own network namespace
    listener = socket.create_server(("0.0.0.0", 53))  # noqa: S104
    threading.Thread(target=serve_udp, args=(sink,), daemon=True).start()
    threading.Thread(target=serve_tcp, args=(listener,), daemon=True).start()
    Server(("127.0.0.1", int(port)), Files).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
