"""Runs on a host: keeps a link full with full-sized datagrams, or takes them in, until it is ended. Standard library only.

usage: flood_script.py ADDRESS BIT_S MTU | flood_script.py

Sends every millisecond what BIT_S asks for by then, in packets of MTU bytes, Ethernet headers included. Without arguments it
holds the port to which that goes and reads nothing. Without a socket there the kernel would answer, and load the
other direction.
"""

from __future__ import annotations

import signal
import socket
import sys
import time

_IP_UDP_BYTES, _ETHERNET_BYTES = 28, 14
_PORT = 9
_EVERY_S = 0.001


def flood(address: str, bit_s: int, mtu: int) -> None:
    frame_ns = (mtu + _ETHERNET_BYTES) * 8e9 / bit_s
    payload = bytes(mtu - _IP_UDP_BYTES)
    base, sent = time.monotonic_ns(), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while True:
            now = time.monotonic_ns() - base
            while sent * frame_ns <= now:
                sender.sendto(payload, (address, _PORT))
                sent += 1
            time.sleep(_EVERY_S)


def take() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        receiver.bind(("", _PORT))
        signal.pause()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        take()
