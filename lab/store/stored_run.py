"""A run's folder as far as it can be read: every valid file, and one line for each file that is not.

Reports, histories and comparisons read runs that were cut off, copied in part or made by a newer lab. `RunDir.read_cells` refuses
such a run instead.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from lab.model.answer import Answer, answer_of, asking, uncounted_cells
from lab.model.clock import Clock
from lab.model.errors import UsageProblem
from lab.model.results import CellResult, RunRecord, VerdictName
from lab.store.run_dir import RunDir, read_result

DOUBT = "the lab that stored it, before schema 2.1, did not record whether anything is missing"
Model = TypeVar("Model", bound=BaseModel)
Listed = TypeVar("Listed", CellResult, Answer)


@dataclass(frozen=True)
class StoredRun:
    """The contents of a run's folder; lists in the order in which their members started."""

    path: Path
    cells: list[CellResult] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    record: RunRecord | None = None
    """run.json; None where it is missing (the run is not finished, or was cut off) or cannot be read (see `problems`)."""
    problems: list[str] = field(default_factory=list)
    """One line, with the file's path, for each file that cannot be read."""

    @property
    def whole(self) -> bool:
        """True if the run's record says that the run came to its end with everything that was asked for."""
        return self.record is not None and self.record.whole

    @property
    def state(self) -> str:
        """The reason for an incomplete run, for people, with the number of cells and answers done; empty for a complete run."""
        if self.whole:
            return ""
        if self.record is None:
            return "no run.json: it goes on, or it was cut off"
        signals = {128 + number: f"ended by {number.name}" for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        words = {
            "interrupted": signals.get(self.record.exit_code, "interrupted"),
            "timeout": "ended by a time limit of the caller's",
            "disk": "the disk was full",
            "killed": "it goes on, or it was killed",
        }
        why = words.get(self.record.ended or "", "cut off")
        there = {each.id for each in self.everything} | self.record.skipped.keys()
        planned = self.record.planned
        return f"{why}; {sum(name in there for name in planned)} of {len(planned)} done" if planned else why

    @property
    def doubt(self) -> str:
        """A warning about a record that does not say how its run ended; empty for any other.

        A lab that wrote such records stored the exit code of its results so far, also where the run was interrupted.
        """
        unknown = self.record is not None and self.record.ended is None and not self.record.planned
        return DOUBT if unknown and self.qualification is None else ""

    @property
    def qualification(self) -> Answer | None:
        return next(iter(asking(self.answers, "qualification")), None)

    @property
    def baselines(self) -> dict[str, str]:
        """Cells whose own verdicts do not count, by id, with the reason in a word: `baseline`, `compared` or `trial`."""
        return {**dict.fromkeys(self.record.baselines if self.record else (), "baseline"), **uncounted_cells(self.answers)}

    @property
    def everything(self) -> list[Answer]:
        """Every cell's own answer, then the others."""
        return [*map(answer_of, self.cells), *self.answers]

    @property
    def verdicts(self) -> dict[str, VerdictName]:
        """The verdicts of all cells and judged answers, by id, as in run.json."""
        return {each.id: each.verdict.name for each in self.everything if each.verdict and each.counts}

    @property
    def counted(self) -> Counter[VerdictName]:
        """The number of counted verdicts by kind: the run's one set of numbers, by run.json, else by the readable files."""
        if self.record is not None and self.record.ended != "killed":
            judged, aside = self.record.verdicts, set(self.record.baselines)
        else:
            judged, aside = self.verdicts, set(self.baselines)
        return Counter(name for key, name in judged.items() if key not in aside)

    @property
    def clocks(self) -> list[Clock]:
        """Every clock that a cell or an answer of the run used."""
        return [*dict.fromkeys(clock for each in self.everything for clock in each.clocks)]

    @property
    def skipped(self) -> dict[str, str]:
        """The reason for each cell and answer that was not run, by id."""
        return self.record.skipped if self.record else {}


def read_run_folder(path: Path) -> StoredRun:
    """Read every valid file of a run. Raises UsageProblem only where `path` is not the folder of a run."""
    run, problems = RunDir.open(path), list[str]()
    return StoredRun(
        path=run.path,
        record=next(_valid(run, RunRecord, problems), None),
        cells=_in_order(_valid(run, CellResult, problems), problems),
        answers=_in_order(_valid(run, Answer, problems), problems),
        problems=problems,
    )


def _valid(run: RunDir, kind: type[Model], problems: list[str]) -> Iterator[Model]:
    try:
        for path in run.files(kind):
            try:
                yield read_result(path, kind)
            except UsageProblem as problem:
                problems.append(str(problem))
    except UsageProblem as problem:
        problems.append(str(problem))


def _in_order(found: Iterator[Listed], problems: list[str]) -> list[Listed]:
    """Sorted by their start. A copy under another file name is left out and reported."""
    first: dict[str, Listed] = {}
    for each in found:
        if first.setdefault(each.id, each) is not each:
            problems.append(f"{each.id}: twice in {each.run}, in two files; only one is shown")
    return sorted(first.values(), key=lambda each: each.started_at)
