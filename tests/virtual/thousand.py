"""`python -m tests.virtual.thousand [BOOTS] [h3]`: how many boots of one seed agree, half of them next to four busy loops.

Six cells share the boots: HTTP/1.1, h2 and SFTP, on a link without loss and on one with 1 %. With `h3` they are four cells of
HTTP/3: ferry, and curl of Debian 13. The first boot of each cell is the reference for the others: the digest of the result, and
the SHA-256 of each capture.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from lab.model.cell import Cell
from tests.virtual.boots import CLEAN, LOSSY, PROTOCOLS, Boot, busy_loops, cell_of, run

SEED = 1
HTTP3_CLIENTS = ("ferry", "curl@debian13")


def cells_of(words: list[str]) -> list[Cell]:
    """The cells that share the boots."""
    kinds = [("h3", client) for client in HTTP3_CLIENTS] if "h3" in words else [(protocol, "curl") for protocol in PROTOCOLS]
    return [cell_of(protocol, topology, client=client) for topology in (CLEAN, LOSSY) for protocol, client in kinds]


def main(words: list[str]) -> int:
    boots = int(words[0]) if words else 1000
    cells = cells_of(words[1:])
    first: dict[str, Boot] = {}
    agree: Counter[str] = Counter()
    done: Counter[str] = Counter()
    begun = time.monotonic()
    for half, busy in enumerate((False, True)):
        with busy_loops() if busy else nullcontext():
            for index in range(half * boots // 2, (half + 1) * boots // 2):
                cell = cells[index % len(cells)]
                with tempfile.TemporaryDirectory() as folder:
                    result, found = run(cell, SEED, Path(folder))
                done[cell.id] += 1
                if result.verdict.name == "PASS" and first.setdefault(cell.id, found) == found:
                    agree[cell.id] += 1
                else:
                    where = "beside busy loops" if busy else "alone"
                    print(f"boot {index}, {where}: {cell.id}: {result.verdict.reason}: {found}", flush=True)
                if index % 10 == 9:
                    print(f"{index + 1} boots, {agree.total()} agree, {time.monotonic() - begun:.0f} s", flush=True)
    for cell in cells:
        print(f"{cell.id}, seed {SEED}: {agree[cell.id]} of {done[cell.id]} agree")
    seconds = time.monotonic() - begun
    print(f"all: {agree.total()} of {done.total()} agree, half of them beside four busy loops; {seconds:.0f} s")
    return 0 if agree == done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
