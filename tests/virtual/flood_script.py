"""Sends full-sized datagrams to a host, 96 Mbit/s until it is ended. Standard library only."""

from __future__ import annotations

import socket
import sys
import time

_PAYLOAD = bytes(1472)
_BURST = 8
_PORT = 9  # discard


def main(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while True:
            for _ in range(_BURST):
                sender.sendto(_PAYLOAD, (address, _PORT))
            time.sleep(0.001)


if __name__ == "__main__":
    main(sys.argv[1])
