"""Do both clocks agree? The throttle rows by each of them, and whether a real interval excludes the virtual mean.

python -m benchmarks.clocks [--suite throttle] [--client ferry] [--runs REAL VIRTUAL [VIRTUAL...]] [OPTION OF lab run...]

`lab run` does the work, once with --clock real and once with --clock virtual; --runs compares what folders hold instead. It
needs a quiet machine: a real cell on a disturbed machine is INVALID and proves nothing. Among 38 cells, a virtual mean outside a
real interval can be chance. Outside the wider interval for that many cells (Bonferroni) it needs a cause. Processing time is a
cause that can be shown: the same cells in virtual time with a price of `PRICES` per system call. The exit code is 1 if a cell has
no cause.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common import keep, one_line_end, say, table
from lab.judge.interval import mean_interval
from lab.model.clock import CLOCKS
from lab.model.errors import EXIT_INVALID, LabFault
from lab.model.numbers import percent, percent_interval
from lab.model.results import CellResult
from lab.model.units import Duration
from lab.store.run_dir import read_cell

ALPHA = 0.05
MACHINE_MS = 2.0
MACHINE = "this machine's own time"
"""The cause of a transfer that takes up to `MACHINE_MS` longer in real time: wake-ups and processing, free in virtual time.

It is two ticks of a 1 ms timer. A protocol's own differences are round trips, 10 ms and more on these links.
"""
PRICES = ("10us", "20us")
"""Per system call and page fault: what they take on a machine like this, the program's own work between two of them included."""
CAUSES: Mapping[str, str] = {}
"""By a pattern of cell ids: what makes real time differ there, found and named. The commit that adds an entry argues it."""


@dataclass(frozen=True)
class Row:
    """One cell on both clocks; fractions of the limit. `word` says what came of it."""

    id: str
    real: tuple[float, float, float] | None
    real_name: str
    virtual: float | None
    virtual_name: str
    n: tuple[int, int]
    longer_ms: float | None
    word: str

    @property
    def unexplained(self) -> bool:
        return self.word == "EXCLUDED"


def compare(
    real: CellResult, virtual: CellResult, cells: int, causes: Mapping[str, str] = CAUSES, priced: Sequence[CellResult] = ()
) -> Row:
    """Compare the virtual mean with the real interval, and with the wider interval for `cells` cells.

    `priced` is the same cell at other prices of a system call.
    """
    own, mean = real.verdict.interval, virtual.verdict.interval.mean if virtual.verdict.interval else None
    counts = len(real.samples), len(virtual.samples)
    names = real.verdict.name, virtual.verdict.name
    told = (own.mean, own.low, own.high) if own else None
    if own is None or mean is None or "INVALID" in names:
        which = "real" if own is None or names[0] == "INVALID" else "virtual"
        longer_ms, word = None, f"nothing to compare: the {which} cell is {names[which == 'virtual']}"
    else:
        longer_ms = _body_ms(real, own.mean) - _body_ms(virtual, mean)
        word = _word(real, mean, longer_ms, cells=cells, causes=causes, priced=priced)
    return Row(real.id, told, names[0], mean, names[1], counts, longer_ms, word)


def _word(
    real: CellResult, mean: float, longer_ms: float, *, cells: int, causes: Mapping[str, str], priced: Sequence[CellResult]
) -> str:
    own = real.verdict.interval
    assert own
    if own.low <= mean <= own.high:
        return "agree"
    values = [math.log1p(sample.deviation) for sample in real.samples if sample.deviation is not None]
    family = mean_interval(values, 1 - ALPHA / cells)

    def held(by: float) -> bool:
        return family.low <= math.log1p(by) <= family.high

    if held(mean):
        return f"agree, as one of {cells} cells"
    if 0 <= longer_ms <= MACHINE_MS:
        return f"excluded: {MACHINE}"
    for each in priced:
        if each.virtual and each.verdict.interval and held(each.verdict.interval.mean):
            price = Duration(each.virtual.charge_ns)
            return f"excluded: {MACHINE}, {percent(each.verdict.interval.mean)} where a system call takes {price}"
    cause = next((said for pattern, said in causes.items() if re.search(pattern, real.id)), "")
    return f"excluded: {cause}" if cause else "EXCLUDED"


def _body_ms(cell: CellResult, deviation: float) -> float:
    """What the body takes at that deviation from the limit."""
    if cell.transfer.limit is None:
        raise LabFault(f"{cell.id} has no limit, and so no deviation from it")
    return cell.samples[0].expected_bytes / (cell.transfer.limit.byte_s * (1 + deviation)) * 1e3


def pairs(real: Sequence[CellResult], virtual: Sequence[CellResult]) -> list[tuple[CellResult, CellResult]]:
    """Cells of one id; those that only one clock has are said."""
    others = {cell.id: cell for cell in virtual}
    for name in sorted({cell.id for cell in real} ^ set(others)):
        say(f"{name} ran by one clock only")
    return [(cell, others[cell.id]) for cell in real if cell.id in others]


def cells_of(folder: Path) -> list[CellResult]:
    return [read_cell(path) for path in sorted((folder / "cells").glob("*.json"))]


def run(suite: str, clock: str, more: Sequence[str]) -> Path:
    """`lab run`; its folder, which it names on its last line. Raises LabFault where it left none."""
    words = [sys.executable, "-m", "lab.cli.main", "run", suite, "--clock", clock, *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said = []
        for text in process.stdout:
            say(text.rstrip())
            said.append(text)
    folder = next((text.removeprefix("results: ").strip() for text in reversed(said) if text.startswith("results: ")), "")
    if not folder:
        raise LabFault(f"lab run {suite} --clock {clock} left no result")
    return Path(folder)


def line(row: Row) -> list[str]:
    real = ", ".join(percent_interval(*row.real)) if row.real else "-"
    return [
        row.id,
        f"{row.real_name}, {row.n[0]}",
        real,
        f"{row.virtual_name}, {row.n[1]}",
        "-" if row.virtual is None else percent(row.virtual),
        "-" if row.longer_ms is None else f"{row.longer_ms:+.2f}",
        row.word,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="throttle")
    parser.add_argument("--client", default="ferry")
    parser.add_argument(
        "--runs", nargs="+", type=Path, metavar="RUN", help="folders of runs that are there: real, virtual, priced"
    )
    options, more = parser.parse_known_args()
    asked = ["--client", options.client, *more]
    folders = options.runs or [
        *(run(options.suite, clock, asked) for clock in sorted(CLOCKS)),
        *(run(options.suite, "virtual", [*asked, "--price", price]) for price in PRICES),
    ]
    if len(folders) < 2:
        raise LabFault("two runs at least: one in real time, one in virtual time")
    real, virtual, *priced = map(cells_of, folders)
    both = pairs(real, virtual)
    if not both:
        raise LabFault("no cell ran by both clocks")
    others = [cell for cells in priced for cell in cells]
    rows = [compare(a, b, len(both), priced=[cell for cell in others if cell.id == a.id]) for a, b in both]
    print(table(["cell", "real", "mean and interval", "virtual", "mean", "longer, ms", "clocks"], [line(row) for row in rows]))
    open_, told = sum(row.unexplained for row in rows), sum(row.longer_ms is not None for row in rows)
    print(f"{told} of {len(rows)} cells can be compared; {open_} real intervals exclude the virtual mean without a named cause")
    print(f"raw samples: {keep('clocks', {'runs': [str(each) for each in folders], 'rows': [asdict(row) for row in rows]})}")
    if open_ or not told:
        sys.exit(1 if open_ else EXIT_INVALID)


if __name__ == "__main__":
    one_line_end(main)
