"""A filter of packets (classic BPF) as the kernel runs it: on the bytes of a datagram between two sockets of this process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def filtered(attach: Callable[[socket.socket], None]) -> Iterator[Callable[[bytes], int]]:
    """How much of a packet passes the filter that `attach` puts on a socket; 0: none."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    attach(far)

    def passes(packet: bytes) -> int:
        near.send(packet)
        try:
            return len(far.recv(4096, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return 0

    with near, far:
        yield passes
