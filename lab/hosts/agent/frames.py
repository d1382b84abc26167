"""Frames on a byte stream: the length of a head (4 bytes, big endian), the head, and the blobs whose sizes it lists.

The caller chooses how a head becomes bytes. Standard library only, and little of it: the first process of a machine in virtual
time imports this.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Head = dict[str, Any]

_LENGTH_BYTES = 4


def encode(dumps: Callable[[Head], bytes], head: Head, blobs: Sequence[bytes]) -> list[bytes]:
    """The parts of a frame. Blobs may be most of the memory, so they are not copied."""
    data = dumps({**head, "blobs": [len(blob) for blob in blobs]})
    return [len(data).to_bytes(_LENGTH_BYTES, "big") + data, *blobs]


def write(fd: int, parts: Sequence[bytes]) -> None:
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]


def read(fd: int, loads: Callable[[bytes], Head]) -> tuple[Head, list[bytes]]:
    """The next frame, which is waited for; the head's `blobs` are still their sizes."""
    head = loads(_exactly(fd, int.from_bytes(_exactly(fd, _LENGTH_BYTES), "big")))
    return head, [_exactly(fd, size) for size in head.get("blobs", ())]


def _exactly(fd: int, size: int) -> bytes:
    parts = []
    while size:
        parts.append(os.read(fd, min(size, 1 << 18)))
        size -= len(parts[-1])
    return b"".join(parts)


class Decoder:
    """Frames from bytes that come in pieces of any size."""

    def __init__(self, loads: Callable[[bytes], Head]) -> None:
        self._loads = loads
        self._bytes = bytearray()
        self._wanted = 0

    def feed(self, data: bytes) -> Iterator[tuple[Head, list[bytes]]]:
        """Every frame that is complete now."""
        self._bytes += data
        while len(self._bytes) >= max(self._wanted, _LENGTH_BYTES):
            at = _LENGTH_BYTES + int.from_bytes(self._bytes[:_LENGTH_BYTES], "big")
            self._wanted = at
            if len(self._bytes) < at:
                return
            head = self._loads(bytes(self._bytes[_LENGTH_BYTES:at]))
            sizes = head.get("blobs", ())
            self._wanted += sum(sizes)
            if len(self._bytes) < self._wanted:
                return
            blobs = []
            for size in sizes:
                blobs.append(bytes(self._bytes[at : at + size]))
                at += size
            del self._bytes[:at]
            self._wanted = 0
            yield head, blobs
