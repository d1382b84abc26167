"""A server to repeat these reports without the lab: `python3 server.py`, then use http://127.0.0.1:8080/.

PUT takes any body. GET /SIZE sends that number of bytes with a Content-Length, GET /chunked/SIZE the same in chunks.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECE = bytes(16384)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, len(PIECE)))):
            left -= len(piece)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        chunked, left = self.path.startswith("/chunked/"), int(self.path.rpartition("/")[2])
        self.send_response(200)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(left))
        self.end_headers()
        while left:
            piece = PIECE[:left]
            left -= len(piece)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
