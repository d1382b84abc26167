"""A client that keeps a limit of a known size, with a known spread, and the verdicts on it.

A cell has a client of its own. It multiplies the limit that it is asked for by one of 64 factors, which the time of its start
chooses. Their geometric mean is the cell's truth, because the lab's interval is of logarithms. Truth, spread, protocol,
direction, size and limit are drawn by the seed. Forty cells share a machine in virtual time, so that booting does not count.
"""

from __future__ import annotations

import math
import random
import shlex
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.clients.ferry import find_ferry
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec
from lab.run.options import Options
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.support.liars import DIRECTIONS, PROTOCOLS, limited

TOLERANCE = 0.05
SPREADS = (0.0, 0.005, 0.01, 0.02, 0.04)
"""Standard deviations of a transfer's rate, as shares."""
WIDEST = 0.15
SAMPLES = 5
LOOKS = LookPlan(looks=(SAMPLES,))
TOGETHER = 12
"""Cells that share a machine."""
NEAR_EDGE = 0.002
"""Nearer to an edge than this, either verdict is a matter of the lab's own error (docs/how-it-decides.md): counted apart."""
_FACTORS = 64
# The guest's clock in microseconds, spread by a prime. With the same seed a transfer starts at the same time.
_SCRIPT = """\
#!/bin/sh
at=$(( $(date +1%N) / 1000 * 7919 % {count} ))
set -- "$@"
limit= words=
for word; do
    if [ "$limit" = next ]; then
        set -- {factors}
        shift $at
        word=$(( word * $1 / 1000000 ))
        limit=done
    fi
    [ "$word" = --limit-rate ] && limit=next
    words="$words '$word'"
done
eval "exec {ferry} $words"
"""


@dataclass(frozen=True)
class Truth:
    """`factor`: the geometric mean of what the client does with its limit. `spread`: of single transfers."""

    factor: float
    spread: float

    @property
    def right(self) -> str:
        return "PASS" if abs(self.factor - 1) < TOLERANCE else "FAIL"

    @property
    def near_edge(self) -> bool:
        return abs(abs(self.factor - 1) - TOLERANCE) < NEAR_EDGE


def write_client(folder: Path, name: str, truth: Truth, chance: random.Random) -> ClientSpec:
    """A program that runs ferry with another limit."""
    logs = [chance.gauss(0.0, truth.spread) for _ in range(_FACTORS)]
    middle = sum(logs) / _FACTORS
    factors = [truth.factor * math.exp(log - middle) for log in logs]
    path = folder / f"ferry-{name}"
    path.write_text(
        _SCRIPT.format(
            count=_FACTORS, factors=" ".join(str(round(factor * 1e6)) for factor in factors), ferry=shlex.quote(str(find_ferry()))
        )
    )
    path.chmod(0o755)
    return ClientSpec(name=f"ferry-{name}", program=str(path))


def draw(folder: Path, count: int, seed: int) -> Iterator[tuple[list[Truth], list[Cell]]]:
    """Batches of cells with their truths. The same seed draws the same."""
    chance = random.Random(seed)
    for begin in range(0, count, TOGETHER):
        protocol, direction = chance.choice(PROTOCOLS), chance.choice(DIRECTIONS)
        truths, cells = [], []
        for number in range(begin, min(begin + TOGETHER, count)):
            truth = Truth(1 + chance.uniform(-WIDEST, WIDEST), chance.choice(SPREADS))
            client = write_client(folder, f"p{number}", truth, chance)
            size, limit = f"{chance.randrange(200, 500)} kB", f"{chance.randrange(500, 4_000)} kB/s"
            truths.append(truth)
            cells.append(limited(client, protocol, direction, size, limit))
        yield truths, cells


@dataclass
class Score:
    """Verdicts on clients whose truth is known. `false_*` are lines that name the cell."""

    cells: int = 0
    right: int = 0
    undecided: int = 0
    near_edge: int = 0
    near_edge_wrong: int = 0

    def __post_init__(self) -> None:
        self.false_pass: list[str] = []
        self.false_fail: list[str] = []
        self.invalid: list[str] = []

    def count(self, truth: Truth, result: CellResult) -> None:
        self.cells += 1
        verdict = result.verdict
        line = f"{result.id}: {verdict.name}, planted {truth.factor - 1:+.3%}, spread {truth.spread:.1%}: {verdict.reason}"
        if verdict.name == "INVALID":
            self.invalid.append(line)
            print(line)
        elif verdict.name == "INCONCLUSIVE":
            self.undecided += 1
            print(line)
        elif truth.near_edge:
            self.near_edge += 1
            self.near_edge_wrong += verdict.name != truth.right
        elif verdict.name == truth.right:
            self.right += 1
        else:
            (self.false_pass if verdict.name == "PASS" else self.false_fail).append(line)

    def line(self) -> str:
        return (
            f"{self.cells} cells: {self.right} right, {self.undecided} INCONCLUSIVE, {len(self.false_pass)} false PASS, "
            f"{len(self.false_fail)} false FAIL, {len(self.invalid)} INVALID; "
            f"within {NEAR_EDGE:.1%} of an edge {self.near_edge}, of which {self.near_edge_wrong} wrong"
        )


def judge(count: int, seed: int) -> Score:
    """Run that many cells and print the score after each batch."""
    score, begun = Score(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roughwater-planted-") as place:
        folder = Path(place)
        for number, (truths, cells) in enumerate(draw(folder, count, seed)):
            results = RunDir.create(f"planted-{number}", results=folder / "results")
            with Session(results, Options(clock="virtual", seed=seed + number, virtual_looks=LOOKS)) as session:
                _, judged = session.run_together(f"planted-{number}", cells, SAMPLES)
            for truth, result in zip(truths, judged, strict=True):
                score.count(truth, result)
            print(f"[{time.monotonic() - begun:7.0f} s] {score.line()}", flush=True)
    for line in (*score.false_pass, *score.false_fail, *score.invalid):
        print(line)
    return score
