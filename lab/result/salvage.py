"""What can still be read of a run's folder: everything that is whole, and one line for each file that is not.

A run that was cut off, copied in part, or made by a newer lab is still worth reading. Reports, histories and comparisons stand on
this; `store.RunDir.read_cells` refuses the whole run instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from lab.errors import UsageProblem
from lab.result.finding import Finding
from lab.result.models import CellResult, RunRecord
from lab.result.qualification import PairResult, Qualification
from lab.result.store import RunDir, read_result
from lab.result.study import StudyResult

Model = TypeVar("Model", bound=BaseModel)
Listed = TypeVar("Listed", CellResult, StudyResult, PairResult, Finding)


@dataclass(frozen=True)
class Salvaged:
    """What a run's folder holds; lists in the order in which their members started."""

    path: Path
    cells: list[CellResult] = field(default_factory=list)
    studies: list[StudyResult] = field(default_factory=list)
    pairs: list[PairResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    qualification: Qualification | None = None
    record: RunRecord | None = None
    """run.json; None where it is not there (the run goes on, or was cut off) or cannot be read (then a problem says so)."""
    problems: list[str] = field(default_factory=list)
    """One line, with the file's path, for each file that cannot be read."""


def read_run_folder(path: Path) -> Salvaged:
    """Read all of a run's folder that can be read. Raises UsageProblem only where `path` is not the folder of a run."""
    run, problems = RunDir.open(path), list[str]()
    return Salvaged(
        path=run.path,
        record=next(_whole(run, RunRecord, problems), None),
        cells=_in_order(_whole(run, CellResult, problems), problems),
        studies=_in_order(_whole(run, StudyResult, problems), problems),
        pairs=_in_order(_whole(run, PairResult, problems), problems),
        findings=_in_order(_whole(run, Finding, problems), problems),
        qualification=next(_whole(run, Qualification, problems), None),
        problems=problems,
    )


def _whole(run: RunDir, kind: type[Model], problems: list[str]) -> Iterator[Model]:
    try:
        for path in run.files(kind):
            try:
                yield read_result(path, kind)
            except UsageProblem as problem:
                problems.append(str(problem))
    except UsageProblem as problem:
        problems.append(str(problem))


def _in_order(found: Iterator[Listed], problems: list[str]) -> list[Listed]:
    """By their start. A copy under another name, as a person may leave it, counts once."""
    first: dict[str, Listed] = {}
    for each in found:
        if first.setdefault(each.id, each) is not each:
            problems.append(f"{each.id}: there twice in {each.run}, under two file names; only one is shown")
    return sorted(first.values(), key=lambda each: each.started_at)
