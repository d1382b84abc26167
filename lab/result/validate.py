"""Results on disk against their closed schemas, and the files of a run against each other; nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

from pydantic import BaseModel, Field, ValidationError

from lab.errors import EXIT_PASS, EXIT_USAGE, UsageProblem
from lab.result.finding import Finding
from lab.result.models import CellResult, Closed, RunRecord, VerdictName
from lab.result.qualification import PairResult, Qualification
from lab.result.relations import Fault, cell_faults, pair_faults, qualification_faults, record_faults, study_faults
from lab.result.salvage import Salvaged
from lab.result.store import RUN_FILE, SHELVES, RunDir, Shelf, read_document, validated
from lab.result.study import StudyResult

Model = TypeVar("Model", bound=BaseModel)
# What only one kind has, for a file that lies elsewhere than in a run's folder.
_MARKS = {"samples": "cell", "git_revision": "run", "arms": "study", "ratio": "pair", "rows": "finding", "items": "qualification"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Problem(Closed):
    """One thing that is wrong with one file."""

    file: str = Field(description="its path")
    where: str = Field(description="JSON path in it (RFC 9535); $ is the whole file")
    what: str = Field(description="what is wrong there, one line")


class Validation(Closed):
    """What a validation saw."""

    runs: int = Field(description="folders of runs that were looked at")
    files: int = Field(description="result files that were looked at")
    unfinished: list[str] = Field(
        description="runs without a run.json: they go on, or were cut off; their files are checked alone"
    )
    problems: list[Problem]
    exit_code: int = Field(description="0 nothing wrong, 2 otherwise: a broken result is bad input")


def validate(paths: Sequence[Path]) -> Validation:
    """Check each path: a run's folder, a folder of them, or one file. Raises UsageProblem where one is none of these."""
    files, folders = [path for path in paths if path.is_file()], [path for path in paths if not path.is_file()]
    runs = [RunDir.open(folder) for path in folders for folder in _runs(path)]
    checked = [_check_run(run) for run in runs]
    problems = [problem for file in files for problem in _check_file(file)]
    problems += [problem for each in checked for problem in each.problems]
    return Validation(
        runs=len(runs),
        files=len(files) + sum(each.files for each in checked),
        unfinished=[run.name for run in runs if not (run.path / RUN_FILE).is_file()],
        problems=problems,
        exit_code=EXIT_USAGE if problems else EXIT_PASS,
    )


@dataclass
class _Checked:
    """A run's files as they are read: what is whole, and what was found wrong."""

    files: int = 0
    unread: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def take(self, run: RunDir, model: type[Model]) -> dict[Path, Model]:
        """Every whole file of one kind."""
        whole: dict[Path, Model] = {}
        try:
            for path in run.files(model):
                self.files += 1
                found, faults = _read(path, model)
                self.add(path, faults)
                if found is None:
                    self.unread.add(unquote(path.stem))
                else:
                    whole[path] = found
        except UsageProblem as problem:
            self.add(run.path, [("$", problem.message)])
        return whole

    def add(self, path: Path, faults: Iterable[Fault]) -> None:
        self.problems += [Problem(file=str(path), where=where, what=what) for where, what in faults]


def _check_run(run: RunDir) -> _Checked:
    checked = _Checked()
    cells, studies = checked.take(run, CellResult), checked.take(run, StudyResult)
    pairs, findings = checked.take(run, PairResult), checked.take(run, Finding)
    known = _known([*cells.values(), *studies.values()], checked.unread)
    named: dict[Path, CellResult | StudyResult | PairResult | Finding] = {**cells, **studies, **pairs, **findings}
    for path, each in named.items():
        checked.add(path, _name_faults(path, each.id))
    for path, cell in cells.items():
        checked.add(path, cell_faults(cell))
    for path, study in studies.items():
        checked.add(path, study_faults(study, known))
    for path, pair in pairs.items():
        checked.add(path, pair_faults(pair, known))
    by_id: dict[str, PairResult | None] = {**dict.fromkeys(checked.unread), **{pair.id: pair for pair in pairs.values()}}
    for path, qualification in checked.take(run, Qualification).items():
        checked.add(path, qualification_faults(qualification, known, by_id))
    found = Salvaged(run.path, [*cells.values()], [*studies.values()], [*pairs.values()], [*findings.values()])
    for path, record in checked.take(run, RunRecord).items():
        checked.add(path, record_faults(record, found, frozenset(checked.unread)))
    return checked


def _check_file(path: Path) -> list[Problem]:
    """One file by itself: what it says of others is not looked at."""
    checked = _Checked()
    shelf = _shelf_of(path)
    found, faults = _read(path, shelf.model)
    checked.add(path, faults)
    if isinstance(found, (CellResult, StudyResult, PairResult, Finding)) and path.absolute().parent.name == shelf.folder:
        checked.add(path, _name_faults(path, found.id))
    if isinstance(found, CellResult):
        checked.add(path, cell_faults(found))
    elif isinstance(found, StudyResult):
        checked.add(path, study_faults(found, None))
    elif isinstance(found, PairResult):
        checked.add(path, pair_faults(found, None))
    return checked.problems


def _name_faults(path: Path, name: str) -> Iterator[Fault]:
    if path.name != f"{quote(name, safe='')}.json":
        yield "$.id", f"is {name}, which is not the file's name"


def _read(path: Path, model: type[Model]) -> tuple[Model | None, list[Fault]]:
    kind = next(shelf.kind for shelf in SHELVES if shelf.model is model)
    try:
        return validated(read_document(path, kind), model), []
    except UsageProblem as problem:
        return None, [("$", problem.message.removeprefix(f"{path}: "))]
    except ValidationError as error:
        return None, [(json_path(each["loc"]), each["msg"]) for each in error.errors(include_url=False)]


def json_path(parts: Iterable[int | str]) -> str:
    """As RFC 9535 writes it: $.samples[3]['a b']."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" if _NAME.fullmatch(part) else f"['{part}']" for part in parts
    )


def _known(results: Iterable[CellResult | StudyResult], unread: Iterable[str]) -> dict[str, VerdictName | None]:
    return {**dict.fromkeys(unread), **{each.id: each.verdict.name for each in results}}


def _runs(path: Path) -> Iterator[Path]:
    """`path` itself where it is a run, else every run below it; `latest` is one of them under another name."""
    try:
        if (path / "cells").is_dir():
            yield path
            return
        names = sorted(each.parent for each in path.glob("*/cells") if not each.parent.is_symlink())
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror or error}", remedy="name a run, a result or a folder of runs") from None
    if not names:
        raise UsageProblem(f"{path} holds no run", remedy="name a run's folder, one of its files, or a folder of runs")
    yield from names


def _shelf_of(path: Path) -> Shelf:
    """By where it lies, else by what is in it."""
    by_name = [
        shelf for shelf in SHELVES if shelf.file == path.name or (shelf.folder and shelf.folder == path.absolute().parent.name)
    ]
    if by_name:
        return by_name[0]
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        document = None
    marks = _MARKS.keys() & document.keys() if isinstance(document, dict) else set()
    kinds = {_MARKS[mark] for mark in marks}
    if len(kinds) != 1:
        raise UsageProblem(f"{path}: cannot tell what kind of result it is", remedy="keep it in its run's folder")
    return next(shelf for shelf in SHELVES if shelf.kind in kinds)
