"""What the lab and its agent at the far end of an ssh say to each other: frames on a byte stream. Standard library only."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

# To the agent: set it up; what time is it; run; a signal for a command. Back: an answer, a command's output, its end.
HELLO, CLOCK, RUN, SIGNAL, ANSWER, STDOUT, STDERR, END = range(8)
_HEAD = struct.Struct(">BII")


def pack(kind: int, number: int, data: bytes = b"") -> bytes:
    """`number` tells commands apart; `data` is below 4 GiB."""
    return _HEAD.pack(kind, number, len(data)) + data


def send(fd: int, kind: int, number: int, data: bytes = b"") -> None:
    rest = memoryview(pack(kind, number, data))
    while rest:
        rest = rest[os.write(fd, rest) :]


class Unpacker:
    """Bytes as they come, frames as soon as they are whole."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Each frame's kind, number and data."""
        self._bytes += data
        while len(self._bytes) >= _HEAD.size:
            kind, number, size = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + size
            if len(self._bytes) < end:
                return
            data = bytes(self._bytes[_HEAD.size : end])
            del self._bytes[:end]
            yield kind, number, data
