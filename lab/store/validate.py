"""Check stored results against their schemas and against each other. Nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from pydantic import BaseModel, Field, ValidationError

from lab.model.answer import Answer
from lab.model.errors import EXIT_PASS, EXIT_USAGE, UsageProblem
from lab.model.results import CellResult, Closed, RunRecord, VerdictName
from lab.store.consistency import Fault, answer_faults, cell_faults, record_faults
from lab.store.run_dir import RUN_FILE, SHELVES, RunDir, Shelf, is_run, read_document, run_folders, shelf_of, validated
from lab.store.stored_run import StoredRun

Model = TypeVar("Model", bound=BaseModel)
# Keys that tell the kind of a file outside a run's folder.
_MARKS = {
    "samples": "cell",
    "git_revision": "run",
    "varied": "study",
    "ratio": "pair",
    "rows": "finding",
    "items": "qualification",
}
_ANSWERS_MARK = "question"
"""Tells an answer, whatever else it has in common with the older kinds."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Problem(Closed):
    """A fault in a file."""

    file: str = Field(description="path of the file")
    where: str = Field(description="JSON path in the file (RFC 9535); $ is the complete file")
    what: str = Field(description="what is wrong, one line")


class Validation(Closed):
    """The result of a validation."""

    runs: int = Field(description="folders of runs that were checked")
    files: int = Field(description="result files that were checked")
    unfinished: list[str] = Field(description="runs that are not complete: run.json is missing, or says so")
    problems: list[Problem]
    exit_code: int = Field(description="0 for no problem, 2 otherwise: a broken result is bad input")


def validate(paths: Sequence[Path]) -> Validation:
    """Check each path: a run's folder, a folder of runs, or a result file. Raises UsageProblem for anything else."""
    files, folders = [path for path in paths if path.is_file()], [path for path in paths if not path.is_file()]
    runs = [RunDir.open(folder) for path in folders for folder in _runs(path)]
    checked = [_check_run(run) for run in runs]
    problems = [problem for file in files for problem in _check_file(file)]
    problems += [problem for each in checked for problem in each.problems]
    return Validation(
        runs=len(runs),
        files=len(files) + sum(each.files for each in checked),
        unfinished=[run.name for run, each in zip(runs, checked, strict=True) if not each.whole],
        problems=problems,
        exit_code=EXIT_USAGE if problems else EXIT_PASS,
    )


@dataclass
class _Checked:
    """The files of a run read so far, and the faults found."""

    files: int = 0
    unread: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = False

    def take(self, run: RunDir, model: type[Model]) -> dict[Path, Model]:
        """Every valid file of one kind."""
        valid: dict[Path, Model] = {}
        try:
            for path in run.files(model):
                self.files += 1
                found, faults = _read(path, model)
                self.add(path, faults)
                if found is None:
                    self.unread.add(unquote(path.stem))
                else:
                    valid[path] = found
        except UsageProblem as problem:
            self.add(run.path, [("$", problem.message)])
        return valid

    def add(self, path: Path, faults: Iterable[Fault]) -> None:
        self.problems += [Problem(file=str(path), where=where, what=what) for where, what in faults]


def _check_run(run: RunDir) -> _Checked:
    checked = _Checked()
    cells, answers = checked.take(run, CellResult), checked.take(run, Answer)
    found = StoredRun(run.path, [*cells.values()], [*answers.values()])
    known: dict[str, VerdictName | None] = {**dict.fromkeys(checked.unread), **dict.fromkeys(each.id for each in found.answers)}
    known |= found.verdicts
    for path, cell in cells.items():
        checked.add(path, _name_faults(path, cell.id))
        checked.add(path, cell_faults(cell))
    for path, answer in answers.items():
        checked.add(path, _name_faults(path, answer.id))
        checked.add(path, answer_faults(answer, known))
    # A record that cannot be read is a problem, and says nothing about the end of its run.
    checked.whole = (run.path / RUN_FILE).is_file()
    for path, record in checked.take(run, RunRecord).items():
        checked.whole = record.whole
        checked.add(path, record_faults(record, found, frozenset(checked.unread)))
    return checked


def _check_file(path: Path) -> list[Problem]:
    """The faults of one file; references to other files are not checked."""
    checked = _Checked()
    shelf = _shelf_of(path)
    found, faults = _read(path, shelf.model, shelf)
    checked.add(path, faults)
    if isinstance(found, (CellResult, Answer)):
        if shelf.holds(path):
            checked.add(path, _name_faults(path, found.id))
        checked.add(path, cell_faults(found) if isinstance(found, CellResult) else answer_faults(found, None))
    return checked.problems


def _name_faults(path: Path, name: str) -> Iterator[Fault]:
    if path.name not in (f"{quote(name, safe='')}.json", *(shelf.file for shelf in SHELVES)):
        yield "$.id", f"is {name}, which is not the name of the file"


def _read(path: Path, model: type[Model], shelf: Shelf | None = None) -> tuple[Model | None, list[Fault]]:
    try:
        return validated(read_document(path, (shelf or shelf_of(path, model)).kind), model), []
    except UsageProblem as problem:
        return None, [("$", problem.message.removeprefix(f"{path}: "))]
    except ValidationError as error:
        return None, [(json_path(each["loc"]), each["msg"]) for each in error.errors()]


def json_path(parts: Iterable[int | str]) -> str:
    """The path in the notation of RFC 9535: $.samples[3]['a b']."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if _NAME.fullmatch(part) else f"['{part}']" for part in parts
    )


def _runs(path: Path) -> Iterator[Path]:
    """`path` itself if it is a run, else every run in it."""
    try:
        if is_run(path):
            yield path
            return
        names = run_folders(path)
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or error}", remedy="name a run, a result or a folder of runs") from None
    if not names:
        raise UsageProblem(f"there is no run in {path}", remedy="name a run's folder, one of its files, or a folder of runs")
    yield from names


def _shelf_of(path: Path) -> Shelf:
    """The shelf by the file's place, else by its content."""
    by_name = [shelf for shelf in SHELVES if shelf.holds(path)]
    if by_name:
        return by_name[0]
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        document = None
    keys = document.keys() if isinstance(document, dict) else set()
    kinds = {"answer"} if _ANSWERS_MARK in keys else {_MARKS[mark] for mark in _MARKS.keys() & keys}
    if len(kinds) != 1:
        raise UsageProblem(f"{path}: cannot tell the kind of this result", remedy="keep it in its run's folder")
    return next(shelf for shelf in SHELVES if shelf.kind in kinds)
