"""Runs on the server's host: sends every datagram back to where it came from. Standard library only.

usage: echo_script.py PORT

Prints `ready`, and ends on SIGTERM.
"""

from __future__ import annotations

import socket
import sys


def main(port: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("", int(port)))
        print("ready", flush=True)
        while True:
            data, address = echo.recvfrom(2048)
            echo.sendto(data, address)


if __name__ == "__main__":
    main(sys.argv[1])
