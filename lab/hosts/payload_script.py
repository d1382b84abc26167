"""Runs on a host: writes a payload of N bytes made from a seed, and prints its sha256. Standard library only.

usage: payload_script.py SIZE SEED FILE
       payload_script.py SIZE SEED FOLDER COUNT NAME

The second makes a set: COUNT files of SIZE bytes each, called NAME % index, with seeds from SEED on; a line of sha256 for each.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator

BLOCK_BYTES = 1 << 20


def blocks(size: int, seed: int) -> Iterator[bytes]:
    """`size` incompressible bytes. SHAKE-128: the same in every Python version, 400 MB/s, every block on its own."""
    for index in range(-(-size // BLOCK_BYTES)):
        length = min(BLOCK_BYTES, size - index * BLOCK_BYTES)
        yield hashlib.shake_128(b"roughwater %d %d" % (seed, index)).digest(length)


def write(size: int, seed: int, path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "wb") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
        for block in blocks(size, seed):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def main(size: int, seed: int, path: str, count: int, name: str) -> None:
    part = path + ".part"
    os.makedirs(part if count else os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    lines = [write(size, seed + index, f"{part}/{name % index}") for index in range(count)] or [write(size, seed, part)]
    os.replace(part, path)  # noqa: PTH105
    print("\n".join(lines))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int((sys.argv[4:] or ["0"])[0]), (sys.argv[5:] or [""])[0])
