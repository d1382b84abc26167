"""A team's upload service, `service.py PORT ROOT`: downloads, PUT, forms and tus 1.0. Complete uploads are in ROOT/upload."""

import sys
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from shutil import copyfileobj

ROOT = Path(sys.argv[2])
PARTS = (ROOT / f"part-{number}" for number in count())
UPLOADS: dict[str, tuple[Path, int, str]] = {}
"""Uploads by tus, by their paths: the file so far, the length that it will have, and its name."""


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, size: int = 0, **headers: object) -> None:
        self.send_response(status)
        length = {} if status == 204 else {"Content-Length": size}
        for name, value in {"Tus-Resumable": "1.0.0", **length, **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def receive(self, part: Path) -> None:
        """Append the request's body as it comes: a tus client goes on behind what came before a connection broke."""
        left = int(self.headers["Content-Length"])
        with part.open("ab") as file:
            while piece := self.rfile.read1(min(left, 65536)):
                left -= file.write(piece)
        if left:
            raise ConnectionResetError(f"{left} bytes did not come")

    def do_GET(self) -> None:
        file = ROOT / "files" / Path(self.path).name
        if self.path == "/ready" or not file.is_file():
            self.answer(200 if self.path == "/ready" else 404)
        else:
            self.answer(200, file.stat().st_size)
            with file.open("rb") as content:
                copyfileobj(content, self.wfile)

    def do_PUT(self) -> None:
        part = next(PARTS)
        self.receive(part)
        if self.command == "POST":
            # A form of one field: a boundary, headers, an empty line, the content, and the boundary again.
            boundary, rest = part.read_bytes().split(b"\r\n", 1)
            part.write_bytes(rest.split(b"\r\n\r\n", 1)[1].rsplit(b"\r\n" + boundary, 1)[0])
        part.replace(ROOT / "upload" / Path(self.path).name)
        self.answer(201)

    def do_POST(self) -> None:
        if self.path.startswith("/form/"):
            return self.do_PUT()
        part, told = next(PARTS), dict(each.split() for each in self.headers["Upload-Metadata"].split(","))
        part.touch()
        UPLOADS[f"/tus/{part.name}"] = part, int(self.headers["Upload-Length"]), b64decode(told["filename"]).decode()
        return self.answer(201, Location=f"/tus/{part.name}")

    def do_HEAD(self) -> None:
        part, length, _ = UPLOADS[self.path]
        self.answer(200, Upload_Offset=part.stat().st_size, Upload_Length=length, Cache_Control="no-store")

    def do_PATCH(self) -> None:
        part, length, name = UPLOADS[self.path]
        if part.stat().st_size != int(self.headers["Upload-Offset"]):
            self.close_connection = True
            return self.answer(409)
        self.receive(part)
        offset = part.stat().st_size
        if offset == length:
            part.replace(ROOT / "upload" / Path(name).name)
        return self.answer(204, Upload_Offset=offset)


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(sys.argv[1])), Service).serve_forever()
