"""The results of a session so far, and its record."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from lab import __version__
from lab.model.answer import Answer, uncounted_cells
from lab.model.clock import CLOCKS
from lab.model.errors import DISK_IS_FULL, EXIT_INVALID, UsageProblem
from lab.model.results import CellResult, Ended, RunRecord, VerdictName, exit_code
from lab.run.time_limit import callers_limit, has_passed
from lab.store.provenance import git_revision
from lab.store.run_dir import RunDir

_SIGNALS = 128
"""Exit codes above it are those of a command that a signal ended."""
Kept = TypeVar("Kept", CellResult, Answer)


class Collected:
    """Results in the order in which they came; what ran again takes the place of what was, as its file does."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.results: list[CellResult] = []
        self.answers: list[Answer] = []
        self.skipped: dict[str, str] = {}
        self.started_at = datetime.now(UTC)
        self.planned: Sequence[str] = ()
        """Ids of what was asked for, where that is known before the run starts."""
        self.ended: Ended = "complete"
        self.ended_code = 0
        """The command's exit code where the run is not complete."""
        self._cut_off: BaseException | None = None
        self._limit = callers_limit()
        self.recorded: RunRecord | None = None
        """The record as it was written when the session was closed; None without results."""

    @property
    def found_something(self) -> bool:
        return bool(self.results or self.answers)

    @property
    def was_stopped(self) -> bool:
        """True if a signal or a full disk ended the run: its folder stays then and says so, even without results."""
        return self.ended == "disk" or self.ended_code > _SIGNALS

    def result(self, cell_id: str) -> CellResult:
        """The result of a cell that ran."""
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

    def cut_off(self, problem: BaseException) -> None:
        """Note that `problem` ends the run although it is handled elsewhere: a test runner keeps an interruption to itself."""
        self._cut_off = problem

    def note_end(self, problem: BaseException | None) -> None:
        """Note how the run ends: by `problem`, or complete where nothing that was asked for is missing."""
        self.ended, self.ended_code = ended_by(problem or self._cut_off, in_time=not has_passed(self._limit))
        there = {*(each.id for each in self.results), *(each.id for each in self.answers), *self.skipped}
        if self.ended == "complete" and not there.issuperset(self.planned):
            self.ended, self.ended_code = "interrupted", EXIT_INVALID

    def record(self) -> RunRecord:
        verdicts: dict[str, VerdictName] = {cell.id: cell.verdict.name for cell in self.results}
        verdicts |= {answer.id: answer.verdict.name for answer in self.answers if answer.verdict and answer.counts}
        clocks = {cell.clock for cell in self.results} | {clock for answer in self.answers for clock in answer.clocks}
        baselines = uncounted_cells(self.answers)
        ids = [*(cell.id for cell in self.results), *(answer.id for answer in self.answers)]
        return RunRecord(
            run=self.run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
            cells=[result.id for result in self.results],
            answers=[answer.id for answer in self.answers],
            baselines=[key for key in ids if key in baselines],
            clocks=[clock for clock in CLOCKS if clock in clocks],
            verdicts=verdicts,
            skipped=self.skipped,
            planned=[*self.planned],
            ended=self.ended,
            exit_code=self.ended_code or exit_code(name for key, name in verdicts.items() if key not in baselines),
        )


def ended_by(problem: BaseException | None, *, in_time: bool) -> tuple[Ended, int]:
    """The end that `problem` gives a run, and its exit code; the code is 0 where the verdicts decide.

    SIGTERM interrupts a run that is `in_time`; after the run's time limit it is a timeout. A problem of one question does not
    end a run: the caller sees if something is missing.
    """
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted", 128 + signal.SIGINT
    # `lab` turns SIGTERM and SIGHUP into these.
    if isinstance(problem, SystemExit) and problem.code in {128 + signal.SIGTERM, 128 + signal.SIGHUP}:
        return "interrupted" if in_time else "timeout", int(problem.code)
    if _disk_is_full(problem):
        return "disk", EXIT_INVALID
    if isinstance(problem, UsageProblem):
        return "interrupted", problem.exit_code
    return ("interrupted", EXIT_INVALID) if problem else ("complete", 0)


def _disk_is_full(problem: BaseException | None) -> bool:
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in DISK_IS_FULL:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def keep(results: list[Kept], result: Kept) -> None:
    """Add it, in place of one of its id."""
    results[:] = [each for each in results if each.id != result.id]
    results.append(result)
