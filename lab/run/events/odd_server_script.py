"""Runs on the server's host: an HTTP/1.1 server that fails or lies as a plan says. Standard library only.

usage: odd_server_script.py FOLDER PORT FILES UPLOADS

GET /files/NAME is a file of FILES, PUT /upload/NAME stores one in UPLOADS. FOLDER/plan.json has the fault of one sample and its
numbers; FOLDER/log gets a line of JSON for each request and one for the fault. Every answer ends its connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_ALWAYS = "Connection: close\r\nAccept-Ranges: bytes\r\n"
_IDENTITY = 'ETag: "one"\r\nLast-Modified: Sun, 01 Jan 2023 00:00:00 GMT\r\n'
_REASONS = {200: "OK", 201: "Created", 204: "No Content", 206: "Partial Content", 500: "Internal Server Error"}
_REASONS |= {404: "Not Found", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}
_PATIENCE_S = 60.0


class Faulty:
    """The fault of the present sample, and how often it has struck."""

    def __init__(self, folder: str, files: str, uploads: str) -> None:
        self.folder, self.files, self.uploads = folder, files, uploads
        self.told: dict[str, Any] = {"sample": -1, "fault": "none"}
        self.struck = 0
        self.lock = threading.Lock()

    def current(self) -> dict[str, Any]:
        with self.lock:
            with contextlib.suppress(OSError), open(f"{self.folder}/plan.json") as file:  # noqa: PTH123
                told = json.load(file)
                if told["sample"] != self.told["sample"]:
                    self.told, self.struck = told, 0
            return self.told

    def strikes(self, times: int) -> bool:
        """Count a strike of the fault; false if it has already struck `times` times."""
        with self.lock:
            if self.struck >= times:
                return False
            self.struck += 1
        self.note("fault", number=self.struck)
        return True

    def note(self, what: str, **more: object) -> None:
        line = json.dumps({"t_ns": time.monotonic_ns(), "what": what, **more})
        with open(f"{self.folder}/log", "a") as file:  # noqa: PTH123
            file.write(line + "\n")


class Request(threading.Thread):
    def __init__(self, faulty: Faulty, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self.faulty, self.connection = faulty, connection
        self.rest = b""
        self.abrupt = False

    def run(self) -> None:
        with self.connection, contextlib.suppress(OSError, ValueError):
            self.connection.settimeout(_PATIENCE_S)
            self.serve()
            self.connection.shutdown(socket.SHUT_WR)
            if self.abrupt:
                time.sleep(0.2)  # for the answer to arrive before the reset that unread bytes make of a close
                return
            # Unread bytes would turn the end of the answer into a reset.
            self.connection.settimeout(2.0)
            while self.connection.recv(65536):
                pass

    def serve(self) -> None:
        while b"\r\n\r\n" not in self.rest:
            data = self.connection.recv(65536)
            if not data:
                raise ValueError("no request")
            self.rest += data
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        told, name = self.faulty.current(), os.path.basename(path)  # noqa: PTH119
        if path == "/ready":
            self.answer(204)
            return
        self.faulty.note("request", method=method, range=fields.get("range", ""))
        if method == "PUT":
            self.put(told, name, fields)
        else:
            self.get(told, f"{self.faulty.files}/{name}", fields.get("range", ""), head_only=method == "HEAD")

    def answer(self, status: int, more: str = "", body: bytes = b"", length: int | None = None) -> None:
        size = len(body) if length is None else length
        announced = "" if size < 0 else f"Content-Length: {size}\r\n"
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\n{_ALWAYS}{announced}{more}\r\n"
        self.connection.sendall(head.encode() + body)

    def failed(self, told: dict[str, Any]) -> bool:
        """Answer with the HTTP error of an error fault that is still due; true if that was the answer."""
        if told["fault"] not in ("http-error", "error-cut") or not self.faulty.strikes(told["times"]):
            return False
        again = f"Retry-After: {told['retry_after_s']}\r\n" if told["retry_after_s"] else ""
        text = b"The server is busy.\n" * 50
        self.answer(told["status"], again, text[: told["at"] % 999] if told["fault"] == "error-cut" else text, len(text))
        return True

    def get(self, told: dict[str, Any], path: str, asked: str, *, head_only: bool) -> None:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                content = file.read()
        except OSError:
            self.answer(404)
            return
        size, at, fault = len(content), told.get("at", 0), told["fault"]
        if head_only:
            self.answer(200, _IDENTITY, length=size)
        elif self.failed(told):
            return
        elif fault == "length-long" and not asked:
            self.faulty.strikes(9999)
            self.answer(200, _IDENTITY, content, size + told["extra"])
        elif fault == "length-short" and not asked:
            self.faulty.strikes(9999)
            self.answer(200, _IDENTITY, content, at)
        elif fault == "chunked-cut" and not asked and self.faulty.strikes(1):
            pieces = (content[start : min(start + 8192, at)] for start in range(0, at, 8192))
            self.answer(200, _IDENTITY + "Transfer-Encoding: chunked\r\n", b"".join(map(chunk, pieces)), -1)
        elif fault in ("wrong-range", "ignored-range") and not asked and self.faulty.strikes(1):
            self.answer(200, _IDENTITY, content[:at], size)
        elif asked and fault != "ignored-range":
            self.part(told, content, asked)
        else:
            self.answer(200, _IDENTITY, content)

    def part(self, told: dict[str, Any], content: bytes, asked: str) -> None:
        size = len(content)
        words = asked.removeprefix("bytes=").split("-")
        start = int(words[0] or 0)
        end = min(int(words[1]) + 1, size) if words[1] else size
        more = _IDENTITY
        if told["fault"] == "wrong-range":
            self.faulty.note("lie", asked=start)
            start = max(0, min(start + told["shift"], size - 1))
        if not (told["fault"] == "wrong-range" and told["unnamed"]):
            more += f"Content-Range: bytes {start}-{end - 1}/{size}\r\n"
        self.answer(206, more, content[start:end])

    def put(self, told: dict[str, Any], name: str, fields: dict[str, str]) -> None:
        if fields.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.body(fields)
        if told["fault"] == "early-success" and self.faulty.strikes(1):
            kept = b""
            while len(kept) < told["at"]:
                kept += next(body, b"") or b"\0" * told["at"]
            self.store(name, kept[: told["at"]])
            self.abrupt = told["abrupt"]
            self.answer(201)
            return
        content = b"".join(body)
        if not self.failed(told):
            self.store(name, content)
            self.answer(201)

    def store(self, name: str, content: bytes) -> None:
        part = f"{self.faulty.folder}/part"
        with open(part, "wb") as file:  # noqa: PTH123
            file.write(content)
        os.replace(part, f"{self.faulty.uploads}/{name}")  # noqa: PTH105

    def body(self, fields: dict[str, str]) -> Iterator[bytes]:
        if "chunked" in fields.get("transfer-encoding", "").lower():
            while size := int(self.line().split(b";")[0], 16):
                yield from self.exactly(size)
                self.line()
            self.line()
            return
        yield from self.exactly(int(fields.get("content-length", "0")))

    def line(self) -> bytes:
        while b"\r\n" not in self.rest:
            self.more()
        found, self.rest = self.rest.split(b"\r\n", 1)
        return found

    def exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self.rest:
                self.more()
            piece, self.rest = self.rest[:size], self.rest[size:]
            size -= len(piece)
            yield piece

    def more(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise ValueError("cut off")
        self.rest += data


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def main(folder: str, port: str, files: str, uploads: str) -> int:
    faulty = Faulty(folder, files, uploads)
    listener = socket.create_server(("0.0.0.0", int(port)), backlog=128)  # noqa: S104 - the lab's own network namespace
    while True:
        connection, _ = listener.accept()
        Request(faulty, connection).start()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
