"""Runs on a host: what its own operating system makes of a connection or a name. Standard library only.

usage: connect_script.py connect HOST PORT TIMEOUT_S   prints `OUTCOME SECONDS`: open, timeout, or the error's name (ECONNREFUSED)
       connect_script.py lookup NAME                   asks the resolver; prints the addresses, or the error
"""

from __future__ import annotations

import errno
import socket
import sys
import time


def connect(host: str, port: int, timeout_s: float) -> str:
    started = time.monotonic()
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            outcome = "open"
    except TimeoutError:
        outcome = "timeout"
    except OSError as error:
        outcome = errno.errorcode.get(error.errno or 0, "error")
    return f"{outcome} {time.monotonic() - started:.6f}"


def lookup(name: str) -> str:
    try:
        return " ".join(sorted({str(found[4][0]) for found in socket.getaddrinfo(name, 80)}))
    except OSError as error:
        return f"error: {error}"


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    print(connect(rest[0], int(rest[1]), float(rest[2])) if what == "connect" else lookup(rest[0]))
