"""A run's folder: where results are, how they are written and read.

```
results/
  latest -> RUN
  RUN/run.json            the run as a whole
  RUN/cells/CELL.json     one validated CellResult per cell
  RUN/answers/ID.json     one validated Answer per question about cells or a host; the folder is made with the first
  RUN/evidence/CELL/      logs, captures; named in the cell, never needed to read it
```
A file is there complete and valid, or not at all. A run of schema 1.x has studies/, pairs/, findings/ and qualification.json in
place of answers/; they are read as answers.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from lab.model.answer import Answer
from lab.model.errors import DISK_IS_FULL, LabFault, UsageProblem
from lab.model.files import replacing, write_faults, write_synced
from lab.model.paths import results_dir
from lab.model.results import CellResult, RunRecord
from lab.store.migrate import Kind, upgrade

Model = TypeVar("Model", bound=BaseModel)

RUN_FILE = "run.json"
LATEST = "latest"


@dataclass(frozen=True)
class Shelf:
    """The place of one kind of document in the folder of a run."""

    kind: Kind
    model: type[BaseModel]
    folder: str
    file: str = ""
    """The name of the only one of its kind; empty where there is one file each, named by its id."""

    def holds(self, path: Path) -> bool:
        """True if the path is a document of this kind, by the names of the file and its folder."""
        return path.name == self.file if self.file else path.absolute().parent.name == self.folder


RUN_SHELF = Shelf("run", RunRecord, "", RUN_FILE)
CELLS = Shelf("cell", CellResult, "cells")
ANSWERS = Shelf("answer", Answer, "answers")
OLD_SHELVES = (
    Shelf("study", Answer, "studies"),
    Shelf("pair", Answer, "pairs"),
    Shelf("finding", Answer, "findings"),
    Shelf("qualification", Answer, "", "qualification.json"),
)
"""The shelves of answers in schema 1.x."""
SHELVES = (RUN_SHELF, CELLS, ANSWERS, *OLD_SHELVES)
_NO_SYMLINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_RIGHTS_REMEDY = "give this user the right to read it"
_ROOM_REMEDY = "free space or set ROUGHWATER_RESULTS to a folder on another disk"


class RunDir:
    """One run's folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, word: str, *, results: Path | None = None, now: datetime | None = None) -> RunDir:
        """Make `results/YYYYmmddTHHMMSS-word-hex4` (UTC) and point `results/latest` at it.

        `word` is a suite's name or any word; other characters than letters and digits become dashes. `results` is
        `lab.model.paths.results_dir()` unless given. Raises UsageProblem when the folder cannot be made, LabFault when the disk
        is full.
        """
        results = results or results_dir()
        stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%S")
        slug = re.sub(r"[^a-z0-9]+", "-", word.lower())[:40].strip("-") or "run"
        while True:
            path = results / f"{stamp}-{slug}-{secrets.token_hex(2)}"
            try:
                results.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except OSError as error:
                # Try again only where the run's own name is taken.
                if isinstance(error, FileExistsError) and results.is_dir():
                    continue
                raise _cannot_make(path, error) from error
            break
        run = cls(path)
        run._make(run.cells)
        run._make(run.path / "evidence")
        run._point_latest()
        return run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """An existing run's folder, `latest` resolved. Raises UsageProblem for another folder."""
        if not is_run(path):
            raise UsageProblem(f"{path} is not the folder of a run", remedy="name one under results/, or results/latest")
        return cls(path.resolve())

    @classmethod
    def find(cls, text: str, *, results: Path | None = None) -> RunDir:
        """The run a person names: a path, a name below `results`, `latest`, or `latest~2` for the second before it.

        `results` is `results_dir()` unless given. Raises UsageProblem as `open` does, and where there are too few runs.
        """
        results = results or results_dir()
        try:
            if match := re.fullmatch(rf"{LATEST}~([0-9]{{1,6}})", text):
                back = int(match[1])
                latest = cls.open(results / LATEST).path
                # Their names begin with the time.
                before = [each for each in run_folders(latest.parent) if each.name < latest.name]
                if back > len(before):
                    raise UsageProblem(f"{text}: there are only {len(before)} runs before {latest.name} in {latest.parent}")
                return cls.open(before[-back] if back else latest)
            return cls.open(results / text if is_run(results / text) and not Path(text).is_dir() else Path(text))
        except OSError as error:
            # A name that is too long, a folder without permission.
            raise UsageProblem(f"{text!r} is not the folder of a run: {error.strerror}") from None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def cells(self) -> Path:
        return self.path / "cells"

    def cell_path(self, cell_id: str) -> Path:
        """The path of the cell with this id, written or not; characters a file name cannot hold are percent-encoded."""
        return self.cells / f"{quote(cell_id, safe='')}.json"

    def answer_path(self, answer_id: str) -> Path:
        """The path of the answer with this id, written or not."""
        return self.path / ANSWERS.folder / f"{quote(answer_id, safe='')}.json"

    def evidence(self, cell_id: str) -> Path:
        """The folder of a cell's evidence, made. Raises UsageProblem or LabFault as `create` does."""
        path = self.path / "evidence" / quote(cell_id, safe="")
        self._make(path)
        return path

    def write_cell(self, cell: CellResult) -> Path:
        """Write, re-read from disk and validate one cell; returns its path.

        Raises LabFault when it cannot be written or when the file on disk differs from the model. An earlier file of that name
        then stays as it was.
        """
        return _write(self.cell_path(cell.id), cell)

    def write_answer(self, answer: Answer) -> Path:
        """Write one answer, as `write_cell` does."""
        path = self.answer_path(answer.id)
        self._make(path.parent)
        return _write(path, answer)

    def write_valid(self, result: CellResult | Answer, data: bytes) -> Path:
        """Write a result whose file was made elsewhere: `data`, which are the `file_bytes` of it. Raises LabFault."""
        path = self.cell_path(result.id) if isinstance(result, CellResult) else self.answer_path(result.id)
        self._make(path.parent)
        with result_faults(path), replacing(path) as temporary:
            write_synced(temporary, data)
            if temporary.read_bytes() != data:
                raise LabFault(f"{path}: the result read back from disk differs", remedy="check the disk, else report it: a bug")
        return path

    def write_run(self, record: RunRecord) -> Path:
        """Write the run's own record, as `write_cell` does."""
        return _write(self.path / RUN_FILE, record)

    def discard(self) -> None:
        """Remove a run without results; `latest` then points to the newest run that is left.

        Raises ValueError when a cell was written: results are never removed.
        """
        if any(self.cells.glob("*.json")):
            raise ValueError(f"{self.path} holds results")
        try:
            shutil.rmtree(self.path)
            left = run_folders(self.path.parent)
            if left:
                RunDir(left[-1])._point_latest()
            else:
                (self.path.parent / LATEST).unlink(missing_ok=True)
        except OSError as error:
            raise LabFault(f"{self.path}: cannot be removed, {error.strerror or error}") from error

    def read_cells(self) -> list[CellResult]:
        """Every cell written so far, in the order they started. Raises UsageProblem as `read_cell` does."""
        return sorted(map(read_cell, self.files(CellResult)), key=lambda cell: cell.started_at)

    def files(self, kind: type[BaseModel]) -> Iterator[Path]:
        """Every file of one kind that is there, by folder and name. Raises UsageProblem where a folder may not be listed."""
        for shelf in SHELVES:
            if shelf.model is kind:
                yield from self._on(shelf)

    def _on(self, shelf: Shelf) -> Iterator[Path]:
        folder = self.path / shelf.folder
        try:
            # `glob` would take a folder without permission for an empty one.
            names = sorted(each.name for each in os.scandir(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageProblem(f"{folder}: {error.strerror or error}", remedy=_RIGHTS_REMEDY) from error
        yield from (folder / name for name in names if (name == shelf.file if shelf.file else name.endswith(".json")))

    def _make(self, path: Path) -> None:
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise _cannot_make(path, error) from error

    def _point_latest(self) -> None:
        link = self.path.parent / LATEST
        temporary = self.path.parent / f".{LATEST}-{self.name}"
        try:
            temporary.symlink_to(self.name)
            temporary.replace(link)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            # The link is a convenience; some file systems have no symbolic links.
            if error.errno not in _NO_SYMLINKS:
                raise _cannot_make(link, error) from error


def is_run(path: Path) -> bool:
    """True for the folder of a run. A run without cells may have lost the empty folder for them, for example in git."""
    return (path / CELLS.folder).is_dir() or (path / RUN_FILE).is_file()


def run_folders(parent: Path) -> list[Path]:
    """The folders of runs in `parent`, by name, which begins with their time. `latest`, a link to one of them, is skipped."""
    return sorted(path for path in parent.glob("*") if not path.is_symlink() and is_run(path))


def read_cell(path: Path) -> CellResult:
    """Read and validate one cell. Raises UsageProblem, one line, for a file that is missing, cut off, newer or not a cell."""
    return read_result(path, CellResult)


def read_run(path: Path) -> RunRecord:
    """Read and validate a run's record: `run.json` or the folder that holds it. Raises UsageProblem as `read_cell`."""
    return read_result(path / RUN_FILE if path.is_dir() else path, RunRecord)


def file_bytes(path: Path, model: BaseModel) -> bytes:
    """The content of the file `path` of that model. Raises LabFault where the model cannot be JSON."""
    try:
        # `allow_nan=False`: pydantic alone writes NaN as null, which an optional field would read back as "not measured".
        return json.dumps(model.model_dump(mode="json"), allow_nan=False, ensure_ascii=False, indent=1).encode()
    except ValueError as error:
        raise LabFault(f"{path}: the result holds what JSON cannot ({_one_line(error)})", remedy="report it: a bug") from error


def write_checked(temporary: Path, path: Path, model: BaseModel) -> None:
    """Write `model` to `temporary`, read it back and validate it; `path` is the name it will have.

    Raises LabFault when the model cannot be JSON or when the file on disk differs from it, OSError when the disk refuses.
    """
    data = file_bytes(path, model)
    write_synced(temporary, data)
    if (problem := _difference(temporary, data, type(model))) is not None:
        raise LabFault(f"{path}: the result read back from disk {problem}", remedy="check the disk, else report it: a bug")


def result_faults(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError from writing a result into a LabFault that names the result."""
    return write_faults(path, "the result", remedy=_ROOM_REMEDY)


def _write(path: Path, model: BaseModel) -> Path:
    """Validate before the rename, so that a bad file never has the final name."""
    with result_faults(path), replacing(path) as temporary:
        write_checked(temporary, path, model)
    return path


def _difference(path: Path, data: bytes, kind: type[BaseModel]) -> str | None:
    """The difference of the file on disk from `data`, a valid `kind`; None if there is none."""
    found = path.read_bytes()
    if found != data:
        return f"has {len(found)} bytes that are not the {len(data)} written"
    try:
        again = kind.model_validate_json(found)
    except ValidationError as error:
        return f"is not a valid {kind.__name__}: {_first_fault(error)}"
    if again.model_dump(mode="json") != json.loads(data):
        return f"differs from the {kind.__name__} that was written"
    return None


def read_document(path: Path, kind: Kind) -> dict[str, object]:
    """The JSON of a file, migrated to the current schema and not yet validated. Raises UsageProblem, one line."""
    return upgrade(read_json(path), kind, str(path))


def read_json(path: Path) -> object:
    """The JSON of a file as stored. Raises UsageProblem, one line."""
    try:
        # Reading a pipe might never end, and reading a folder gives no clear error.
        if path.exists() and not path.is_file():
            raise UsageProblem(f"{path}: not a file", remedy="name a result that exists")
        data = path.read_bytes()
    except OSError as error:
        remedy = _RIGHTS_REMEDY if isinstance(error, PermissionError) else "name a result that exists"
        raise UsageProblem(f"{path}: {error.strerror or error}", remedy=remedy) from error
    return parse_json(data, str(path), remedy="run the cell again")


def parse_json(data: bytes, origin: str, *, remedy: str) -> object:
    """A file's bytes as JSON, without NaN and numbers that no double holds (RFC 8259). Raises UsageProblem, one line."""
    try:
        document = json.loads(data)
        json.dumps(document, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{origin}: cut off or not JSON ({_one_line(error)})", remedy=remedy) from error
    return document


def validated(document: dict[str, object], kind: type[Model]) -> Model:
    """The model of `document`. Raises pydantic's ValidationError with every fault."""
    return kind.model_validate_json(json.dumps(document))


def read_result(path: Path, kind: type[Model]) -> Model:
    """Read and validate one file of one kind. Raises UsageProblem as `read_cell`."""
    try:
        return validated(read_document(path, shelf_of(path, kind).kind), kind)
    except ValidationError as error:
        raise UsageProblem(f"{path}: not a valid {kind.__name__}: {_first_fault(error)}") from error


def shelf_of(path: Path, kind: type[BaseModel]) -> Shelf:
    """The shelf of a file with such a model: by its place, else where new ones are written."""
    shelves = [shelf for shelf in SHELVES if shelf.model is kind]
    return next((shelf for shelf in shelves if shelf.holds(path)), shelves[0])


def _first_fault(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg']}{more}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _cannot_make(path: Path, error: OSError) -> UsageProblem | LabFault:
    if error.errno in DISK_IS_FULL:
        return LabFault(f"{path}: cannot be made, the disk is full", remedy=_ROOM_REMEDY)
    why = error.strerror or str(error)
    return UsageProblem(f"{path}: cannot be made, {why}", remedy="set ROUGHWATER_RESULTS to a folder you may write to")
