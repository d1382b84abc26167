"""Runs on the server host, as root: the upstream that throws uploads away. Standard library only.

usage: sink_script.py SOCKET COUNTS

nginx hands every PUT on as it arrives (`proxy_request_buffering off`); this reads it to the end, answers 200 with the number of
bytes, and appends `URI BYTES` to COUNTS: the server's own word on how much arrived. Stock nginx cannot do it alone: `return 204`
answers before the body has come (an h2 client then stops sending, and nginx closes an h1 connection after lingering_time), and
an upstream with buffering keeps the complete upload in a file first.
"""

from __future__ import annotations

import os
import socketserver
import sys

_BUFFER_BYTES = 1 << 20


class Sink(socketserver.StreamRequestHandler):
    rbufsize = 1 << 18

    def handle(self) -> None:
        uri = self.rfile.readline().split(b" ")[1].decode()
        length, chunked = self._headers()
        count = self._chunks() if chunked else self._discard(length)
        with open(counts, "a") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up; one short append is whole
            file.write(f"{uri} {count}\n")
        body = b"%d\n" % count
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))

    def _headers(self) -> tuple[int, bool]:
        length, chunked = 0, False
        while line := self.rfile.readline().strip().lower():
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
            if name == b"transfer-encoding":
                chunked = b"chunked" in value
        return length, chunked

    def _chunks(self) -> int:
        """An upload of unknown size: nginx forwards it in chunks."""
        count = 0
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            count += self._discard(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return count

    def _discard(self, length: int) -> int:
        buffer = memoryview(bytearray(min(_BUFFER_BYTES, length)))
        count = 0
        while count < length:
            got = self.rfile.readinto1(buffer[: length - count])
            if not got:
                break
            count += got
        return count


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    path, counts = sys.argv[1:3]
    if os.path.exists(path):  # noqa: PTH110 - an earlier server's in the same workdir
        os.unlink(path)  # noqa: PTH108
    with Server(path, Sink) as server:
        os.chmod(path, 0o666)  # noqa: PTH101, S103 - nginx's user connects to it
        server.serve_forever()
