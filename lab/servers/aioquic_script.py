"""Runs on the server's host, with a userland's Python and aioquic: files over HTTP/3, down and up.

usage: aioquic_script.py ADDRESS PORT FOLDER CERTIFICATE KEY

It serves what nginx serves: /files/ (also in ranges, `bytes=FIRST-`), /chunked/ (the same without a length), /upload/ and
/sink/. An upload has its name once it is complete. Windows are as large as nginx's buffer for an upload, the rest is aioquic's.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent, StreamReset

_WINDOW_BYTES = 16 << 20
_IDLE_S = 75.0
_RANGE = re.compile(rb"bytes=(\d+)-(\d*)")
folder = ""


class Upload:
    """A PUT under way."""

    def __init__(self, path: str, length: int | None) -> None:
        self.path, self.length, self.received = path, length, 0
        self.part = f"{path}.part"
        self.file = open(os.devnull if not path else self.part, "wb")  # noqa: PTH123, SIM115 - closed when its stream ends

    def add(self, data: bytes) -> None:
        self.received += len(data)
        self.file.write(data)

    def finish(self) -> bool:
        """Close the file, and give it its name if the body is complete; False if it is not."""
        self.file.close()
        if self.length not in (None, self.received):
            return False
        if self.path:
            os.replace(self.part, self.path)  # noqa: PTH105 - pathlib costs 10 ms of start-up
        return True


class Files(QuicConnectionProtocol):  # type: ignore[misc] # the library is not here, but in the userland
    """A connection."""

    def __init__(self, *words: object, **named: object) -> None:
        super().__init__(*words, **named)
        self.http: H3Connection | None = None
        self.uploads: dict[int, Upload] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if isinstance(event, StreamReset):
            self.uploads.pop(event.stream_id, None)
        if self.http is not None:
            for each in self.http.handle_event(event):
                self.took(each)

    def took(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            self.asked(event.stream_id, dict(event.headers))
        upload = self.uploads.get(event.stream_id)
        if upload is None:
            return
        if isinstance(event, DataReceived):
            upload.add(event.data)
        if event.stream_ended:
            del self.uploads[event.stream_id]
            self.answer(event.stream_id, 201 if upload.finish() else 400)

    def asked(self, stream: int, headers: dict[bytes, bytes]) -> None:
        method, path = headers[b":method"], headers[b":path"].decode()
        top, _, name = path[1:].partition("/")
        if ".." in name or not name:
            self.answer(stream, 404)
        elif method == b"PUT" and top in ("upload", "sink"):
            length = headers.get(b"content-length")
            self.uploads[stream] = Upload(
                f"{folder}/upload/{name}" if top == "upload" else "", None if length is None else int(length)
            )
        elif method in (b"GET", b"HEAD") and top in ("files", "chunked"):
            self.send(stream, f"{folder}/files/{name}", headers, announced=top == "files")
        else:
            self.answer(stream, 405)

    def send(self, stream: int, path: str, headers: dict[bytes, bytes], *, announced: bool) -> None:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                data = file.read()
        except OSError:
            self.answer(stream, 404)
            return
        status, more, size = 200, [(b"accept-ranges", b"bytes")], len(data)
        if announced and (asked := _RANGE.fullmatch(headers.get(b"range", b""))):
            first, last = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
            if first > last:
                self.answer(stream, 416, [(b"content-range", b"bytes */%d" % size)])
                return
            status, data = 206, data[first : last + 1]
            more.append((b"content-range", b"bytes %d-%d/%d" % (first, last, size)))
        if announced:
            more.append((b"content-length", b"%d" % len(data)))
        self.answer(stream, status, more, b"" if headers[b":method"] == b"HEAD" else data)

    def answer(self, stream: int, status: int, headers: list[tuple[bytes, bytes]] | None = None, body: bytes = b"") -> None:
        assert self.http is not None
        self.http.send_headers(stream, [(b":status", b"%d" % status), *(headers or [])], end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()


async def main(address: str, port: str, certificate: str, key: str) -> None:
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=H3_ALPN, idle_timeout=_IDLE_S, max_data=_WINDOW_BYTES, max_stream_data=_WINDOW_BYTES
    )
    configuration.load_cert_chain(certificate, key)
    await serve(address, int(port), configuration=configuration, create_protocol=Files)
    await asyncio.Event().wait()


if __name__ == "__main__":
    folder = sys.argv[3]
    asyncio.run(main(sys.argv[1], sys.argv[2], *sys.argv[4:6]))
