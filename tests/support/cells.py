"""Runs cells from end to end for `.ci/run`, one after the other; the last line is `NAME: N passed, N failed, N skipped`.

A cell passes if its verdict is one of those allowed. A FAIL is final: the lab judges only samples that nothing disturbed. A cell
without a verdict (INVALID, INCONCLUSIVE) on a disturbed machine runs again, by the rule of `tests.support.attempts`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from lab.judge.host import host_problems, set_aside_words
from lab.model.results import CellResult
from lab.store.run_dir import RunDir, read_cell
from tests.support.attempts import Attempt, Final, conclude, repeat
from tests.support.spans import Spans, await_quiet

VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")
QUIET_S = 30.0
_LAB = [sys.executable, "-m", "lab.cli.main", "run", "--max-samples", "10", "--json", "--clock"]


@dataclass(frozen=True)
class Outcome:
    """One run of one cell. The verdict is empty where there is no result."""

    verdict: str
    reason: str
    disturbed: str | None
    """The disturbance that the lab's host watch reported; None without one."""

    @classmethod
    def of(cls, cell: CellResult, around: str | None) -> Outcome:
        """`around` disturbed the complete command: a link without a certificate has no samples to set aside."""
        told = dict.fromkeys([*host_problems([cell]), *([set_aside_words(cell.set_aside)] if cell.set_aside else [])])
        return cls(cell.verdict.name, cell.verdict.reason, f"the host was busy: {'; '.join(told)}" if told else around)

    def attempt(self, allowed: Collection[str]) -> Attempt:
        undecided = self.verdict in ("INVALID", "INCONCLUSIVE")
        return Attempt(passed=self.verdict in allowed, disturbed=self.disturbed if undecided else None)


def settle(cell: str, allowed: Collection[str], run: Callable[[str], Outcome], quiet: Callable[[], None]) -> Final:
    def attempt(number: int) -> Attempt:
        if number > 1:
            quiet()
        outcome = run(cell)
        print(f"{cell}, attempt {number}: {outcome.verdict or 'no result'}: {outcome.reason}", flush=True)
        return outcome.attempt(allowed)

    return conclude(repeat(attempt(1), attempt))


def run_cell(cell: str, clock: str) -> Outcome:
    with Spans() as spans:
        done = subprocess.run([*_LAB, clock, cell], stdout=subprocess.PIPE, text=True, check=False)
    try:
        record = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Outcome("", f"exit code {done.returncode}", None)
    if cell not in record["verdicts"]:
        return Outcome("", record["skipped"].get(cell, f"exit code {done.returncode}"), None)
    # Other programs do not disturb virtual time: a cell without a verdict stays without one.
    around = spans.why_disturbed() if clock == "real" else None
    return Outcome.of(read_cell(RunDir.find(record["run"]).cell_path(cell)), around)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="begins the last line")
    parser.add_argument("cells", nargs="+", metavar="cell")
    parser.add_argument("--allow", action="append", choices=VERDICTS, required=True, help="a verdict with which a cell passes")
    parser.add_argument("--clock", choices=("virtual", "real"), required=True)
    asked = parser.parse_args(words)
    finals = [
        settle(cell, asked.allow, lambda name: run_cell(name, asked.clock), lambda: await_quiet(QUIET_S)) for cell in asked.cells
    ]
    for cell, final in zip(asked.cells, finals, strict=True):
        print(f"{asked.name}: {cell}: {final.outcome}{f': {final.note}' if final.note else ''}")
    ends = [final.outcome for final in finals]
    print(f"{asked.name}: " + ", ".join(f"{ends.count(each)} {each}" for each in ("passed", "failed", "skipped")))
    return 1 if "failed" in ends else 0


if __name__ == "__main__":
    sys.exit(main())
