"""One cell in a machine of its own, reduced to what must be the same in every boot of one seed."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.link import Link
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate, ByteRate, Duration, Ratio, Size
from lab.run.session import Options, Session
from lab.store.deterministic import digest, view
from lab.store.run_dir import RunDir

SAMPLES = 2
_LONGEST_LOOP_CPU_S = 600
_LINK = Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("20 ms"))
CLEAN = Topology(name="clean", description="-", link=_LINK)
LOSSY = Topology(name="lossy", description="-", link=_LINK.model_copy(update={"loss": Ratio.parse("1 %")}))
PROTOCOLS = ("http1", "h2", "sftp")


@dataclass(frozen=True)
class Boot:
    """What came of a cell: the digest of its result, and those of its captures."""

    result: str
    captures: tuple[str, ...]


def cell_of(
    protocol: str, topology: Topology, size: str = "256 KiB", limit: str | None = "200 kB/s", client: str = "curl"
) -> Cell:
    """A short download by curl."""
    transfer = Transfer.model_validate(
        {"protocol": protocol, "direction": "get", "size": Size.parse(size), "limit": ByteRate.parse(limit) if limit else None}
    )
    return Cell(client=ClientSpec(name=client), topology=topology, transfer=transfer, expectation=Expectation(kind="none"))


def run(cell: Cell, seed: int, folder: Path) -> tuple[CellResult, Boot]:
    """Boot a machine for the cell, run it, and look at what is left."""
    options = Options(clock="virtual", seed=seed, pcap=True, virtual_looks=LookPlan(looks=(SAMPLES, SAMPLES + 1)))
    place = RunDir.create("boot", results=folder)
    with Session(place, options) as session:
        result = session.run_cell(cell)
    captures = sorted(place.evidence(cell.id).glob("*.pcap"))
    return result, Boot(digest(view(result)), tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in captures))


@contextmanager
def busy_loops(number: int = 4, *, longest_cpu_s: int = _LONGEST_LOOP_CPU_S) -> Iterator[None]:
    """Processes that only use CPU time, and end with the block or after `longest_cpu_s` of it."""
    limit = (longest_cpu_s, longest_cpu_s)
    loops = [
        subprocess.Popen(
            [sys.executable, "-c", f"import resource; resource.setrlimit({resource.RLIMIT_CPU}, {limit})\nwhile 1: pass"]
        )
        for _ in range(number)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
