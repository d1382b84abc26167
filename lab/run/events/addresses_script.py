"""Runs on a host: addresses of one port that answer, or that take a connection request and never answer it. Stdlib only.

usage: addresses_script.py PORT FOLDER ADDRESS=serves|silent...

An address that `serves` has a small web server with the files of FOLDER, and 204 for /ready. A silent one listens with a full
queue, and Linux drops the SYN of every further connection then (tcp_conn_request). Prints `silent ADDRESS` when its queue is
full. An address that is not named refuses. Exits with 0 on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Never


class Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/ready":
            self.send_response(204)
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    def __init__(self, address: str, port: int) -> None:
        self.address_family = family(address)
        super().__init__((address, port), Files)

    def server_bind(self) -> None:
        """Without HTTPServer's own, which looks up the host's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def fall_silent(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A listener whose queue has room for one connection, and that connection, which is never accepted."""
    listener = socket.socket(family(address))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(0)
    waiting = socket.create_connection((address, port), timeout=5.0)
    os.write(1, f"silent {address}\n".encode())
    return listener, waiting


def main(port: str, folder: str, *places: str) -> Never:
    # In all threads. An early signal waits until it is asked for.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.chdir(folder)
    kept = []
    for place in places:
        address, _, what = place.rpartition("=")
        if what == "silent":
            kept.append(fall_silent(address, int(port)))
        else:
            threading.Thread(target=Server(address, int(port)).serve_forever, daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
