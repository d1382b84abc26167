"""The results of a session so far, and its record."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TypeVar

from lab import __version__
from lab.model.answer import Answer, uncounted_cells
from lab.model.clock import CLOCKS
from lab.model.results import CellResult, RunRecord, VerdictName, exit_code
from lab.store.provenance import git_revision
from lab.store.run_dir import RunDir

Kept = TypeVar("Kept", CellResult, Answer)


class Collected:
    """Results in the order in which they came; what ran again takes the place of what was, as its file does."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.results: list[CellResult] = []
        self.answers: list[Answer] = []
        self.skipped: dict[str, str] = {}
        self.started_at = datetime.now(UTC)
        self.recorded: RunRecord | None = None
        """The record as it was written when the session was closed; None without results."""

    @property
    def found_something(self) -> bool:
        return bool(self.results or self.answers)

    def result(self, cell_id: str) -> CellResult:
        """What came of a cell that ran."""
        return next(result for result in self.results if result.id == cell_id)

    def absorb(self, lane: Collected) -> None:
        """Take over what another has found so far of the same run."""
        for result in lane.results:
            keep(self.results, result)
        for answer in lane.answers:
            keep(self.answers, answer)
        self.skipped |= lane.skipped
        lane.results.clear()
        lane.answers.clear()

    def record(self) -> RunRecord:
        verdicts: dict[str, VerdictName] = {cell.id: cell.verdict.name for cell in self.results}
        verdicts |= {answer.id: answer.verdict.name for answer in self.answers if answer.verdict and answer.counts}
        clocks = {cell.clock for cell in self.results} | {clock for answer in self.answers for clock in answer.clocks}
        baselines = uncounted_cells(self.answers)
        return RunRecord(
            run=self.run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
            cells=[result.id for result in self.results],
            answers=[answer.id for answer in self.answers],
            baselines=[result.id for result in self.results if result.id in baselines],
            clocks=[clock for clock in CLOCKS if clock in clocks],
            verdicts=verdicts,
            skipped=self.skipped,
            exit_code=exit_code(name for key, name in verdicts.items() if key not in baselines),
        )


def keep(results: list[Kept], result: Kept) -> None:
    """Add it, in place of one of its id."""
    results[:] = [each for each in results if each.id != result.id]
    results.append(result)
