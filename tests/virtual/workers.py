"""`python -m tests.virtual.workers [CELLS]`: cells in virtual time on four workers of this machine, one killed every 20 s.

1. `lab run CELLS` without workers, then with workers that are killed by kill -9: every cell has one result, and each is equal to
   the one without workers, byte for byte (`lab.store.deterministic`).
2. The scheduler is killed: the command says so in one line, keeps what was done, and `--resume` goes on.
3. What a worker costs: a question that does nothing, without workers and with one.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.model.cell_name import format_cell_name
from lab.model.errors import EXIT_INVALID
from lab.model.results import CellResult
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size
from lab.run.named_cells import named_cells
from lab.run.options import Options
from lab.run.session import Session
from lab.run.workers.crew import crew_at
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import RunDir, read_cell
from tests.support.dask_cluster import DaskCluster, run_with_kills, start
from tests.support.instant import Instant

KILL_EVERY_S = 20.0
MOST_OVERHEAD_S = 0.05
SAMPLES = 5
_TOPOLOGIES = ("dsl-20", "dsl-50", "lan-50", "lossy-wifi")


def draw(cells: int, seed: int) -> list[str]:
    """Names of small cells, no two alike."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < cells:
        transfer = Transfer(
            protocol=rng.choice(("http1", "https1", "h2", "sftp")),
            direction=rng.choice(("get", "put")),
            size=Size.parse(f"{rng.randrange(64, 513, 8)} KiB"),
            limit=ByteRate.parse(f"{rng.randrange(200, 2000, 50)} kB/s"),
        )
        found[format_cell_name(rng.choice(("curl", "ferry")), rng.choice(_TOPOLOGIES), transfer)] = None
    return list(found)


class Runs:
    """`lab run` with these cells as a person starts it. Its results are in `folder`."""

    def __init__(self, folder: Path, cells: Sequence[str]) -> None:
        self.folder, self.cells = folder, cells

    def begin(self, *more: str) -> subprocess.Popen[bytes]:
        words = ("-m", "lab.cli.main", "run", *self.cells, "--clock", "virtual", "--max-samples", str(SAMPLES), *more)
        log = self.folder / "run.log"
        log.unlink(missing_ok=True)
        return start(*words, env={**os.environ, "ROUGHWATER_RESULTS": str(self.folder / "results")}, log=log)

    def said(self) -> list[str]:
        return (self.folder / "run.log").read_text(errors="replace").splitlines()

    def latest(self) -> RunDir:
        return RunDir.find("latest", results=self.folder / "results")


def read(run: RunDir) -> dict[str, CellResult]:
    """The cells of a run, by id; two files with one cell would be an error."""
    cells = [read_cell(path) for path in sorted(run.cells.glob("*.json"))]
    assert len({cell.id for cell in cells}) == len(cells)
    return {cell.id: cell for cell in cells}


def differences(expected: dict[str, CellResult], found: dict[str, CellResult]) -> list[str]:
    """A line for every cell that is missing, too many, or not equal."""
    lines = [f"{name}: only on one side" for name in expected.keys() ^ found.keys()]
    for name in expected.keys() & found.keys():
        if where := first_difference(view(expected[name]), view(found[name])):
            lines.append(f"{name}: {where}")
    return lines


def lost(cells: dict[str, CellResult]) -> set[str]:
    """Cells that were lost with a worker and repeated, by their own provenance."""
    return {name for name, cell in cells.items() if cell.before.machine.get("lost_workers")}


def repeated(said: Sequence[str]) -> list[str]:
    """The same by the command's own lines; a cell that was lost twice is there twice."""
    return [found[1] for line in said if (found := re.search(r"\] (\S+) was lost with worker \S+ and runs again", line))]


def one_line(said: Sequence[str]) -> str:
    """The line in which a command ended, without a traceback."""
    lines = [line for line in said if line.startswith("lab: ")]
    assert len(lines) == 1, said
    assert not any("Traceback" in line for line in said), said
    return lines[0]


def without_scheduler(cluster: DaskCluster, runs: Runs, alone: dict[str, CellResult], done: int) -> Iterator[str]:
    """Kill the scheduler when that many cells are done, and go on with another: a line for everything that is wrong."""
    command, run = begun(runs, cluster, done)
    cluster.kill_scheduler()
    code = command.wait()
    line = one_line(runs.said())
    print(line, flush=True)
    kept = {path: path.read_bytes() for path in run.cells.glob("*.json")}
    if code != EXIT_INVALID or f"{len(kept)} of {len(runs.cells)} are done" not in line or f"--resume {run.name}" not in line:
        yield f"the scheduler was lost: exit code {code}, {len(kept)} cells, {line}"
    cluster.start_scheduler()
    cluster.wait_until_ended()
    cluster.revive()
    cluster.wait_for(len(cluster.names))
    command = runs.begin("--workers", cluster.address, "--resume", run.name)
    command.wait()
    if not any(f"{len(runs.cells) - len(kept)} to ask" in line for line in runs.said()):
        yield f"--resume asked for other cells than those that the run lacked: {runs.said()[:3]}"
    yield from (f"{path.name}: --resume has changed it" for path, data in kept.items() if path.read_bytes() != data)
    yield from differences(alone, read(run))


def begun(runs: Runs, cluster: DaskCluster, done: int) -> tuple[subprocess.Popen[bytes], RunDir]:
    """A command with workers and its run, once that many of its cells are there."""
    before = runs.latest().name
    command = runs.begin("--workers", cluster.address)
    while command.poll() is None:
        run = runs.latest()
        if run.name != before and len(list(run.cells.glob("*.json"))) >= done:
            return command, run
        time.sleep(0.05)
    raise AssertionError("\n".join(runs.said()))


def overhead_s(address: str, stored: Path, questions: int, folder: Path) -> tuple[float, float]:
    """Seconds per question, one after the other: without workers, and with one worker."""
    cells = named_cells([read_cell(stored).id])
    asked = [Instant(str(stored), number, cells) for number in range(questions)]
    took: list[float] = []
    for workers in (None, address):
        session = Session(RunDir.create("instant", results=folder), Options(clock="virtual"))
        with session, crew_at(workers) as crew:
            since = time.monotonic()
            outcomes = crew.answer(session, asked) if crew else [each.ask(session) for each in asked]
            took.append((time.monotonic() - since) / questions)
        assert [outcome.id for outcome in outcomes] == [each.id for each in asked]
    return took[0], took[1]


def main(words: list[str]) -> int:
    count = int(words[0]) if words else 500
    with tempfile.TemporaryDirectory(prefix="roughwater-") as name:
        problems = list(_all(Path(name), draw(count, seed=1)))
    print("\n".join(problems) or "all is well")
    return 1 if problems else 0


def _all(folder: Path, cells: Sequence[str]) -> Iterator[str]:
    runs = Runs(folder, cells)
    since = time.monotonic()
    runs.begin().wait()
    alone = read(runs.latest())
    print(f"without workers: {len(alone)} cells in {time.monotonic() - since:.0f} s", flush=True)
    with DaskCluster(folder, 4) as cluster:
        since = time.monotonic()
        killed = run_with_kills(cluster, runs.begin("--workers", cluster.address), KILL_EVERY_S)
        found, again = read(runs.latest()), repeated(runs.said())
        took_s = time.monotonic() - since
        print(f"{len(killed)} workers killed: {len(found)} cells in {took_s:.0f} s, {len(again)} repetitions", flush=True)
        yield from differences(alone, found)
        if not killed or lost(found) != set(again):
            yield f"killed {killed}, the results say that {lost(found)} were lost with them, the command {again}"
        stored = runs.latest().cell_path(cells[0])
        yield from without_scheduler(cluster, runs, alone, len(cells) // 3)
    with DaskCluster(folder, 1) as cluster:
        without_s, with_s = overhead_s(cluster.address, stored, 500, folder / "results")
    print(f"{stored.stat().st_size / 1e3:.0f} kB of result: {without_s * 1e3:.1f} ms alone, {with_s * 1e3:.1f} ms with a worker")
    if with_s - without_s > MOST_OVERHEAD_S:
        yield f"a worker costs {(with_s - without_s) * 1e3:.1f} ms per cell"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
