"""Runs on a host: writes a payload of N bytes made from a seed, and prints its sha256. Standard library only.

usage: payload_script.py SIZE SEED FILE
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
        yield hashlib.shake_128(b"throughline %d %d" % (seed, index)).digest(length)


def main(size: int, seed: int, path: str) -> None:
    digest = hashlib.sha256()
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib costs 10 ms of start-up
    with open(path + ".part", "wb") as file:  # noqa: PTH123
        for block in blocks(size, seed):
            digest.update(block)
            file.write(block)
    os.replace(path + ".part", path)  # noqa: PTH105
    print(digest.hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
