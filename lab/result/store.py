"""A run's folder: where every result goes, and the only way in which one is written.

```
results/
  latest -> RUN
  RUN/run.json            the run as a whole
  RUN/cells/CELL.json     one validated CellResult per cell
  RUN/studies/STUDY.json  one validated StudyResult per comparison of cells; made when there is one
  RUN/pairs/PAIR.json     one validated PairResult per cell that ran beside a baseline's; likewise
  RUN/findings/ID.json    one validated Finding per study that is no cell; likewise
  RUN/qualification.json  the table of a release's qualification, in such a run
  RUN/evidence/CELL/      logs, captures; named in the cell, never needed to read it
```
A file is there whole and valid, or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from lab.errors import DISK_IS_FULL, EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, LabFault, UsageProblem
from lab.paths import results_dir
from lab.result.finding import Finding
from lab.result.migrate import Kind, upgrade
from lab.result.models import CellResult, RunRecord, VerdictName
from lab.result.qualification import PairResult, Qualification
from lab.result.study import StudyResult

Model = TypeVar("Model", bound=BaseModel)

RUN_FILE = "run.json"
QUALIFICATION_FILE = "qualification.json"
LATEST = "latest"


@dataclass(frozen=True)
class Shelf:
    """Where a run's folder keeps one kind of result."""

    kind: Kind
    model: type[BaseModel]
    folder: str
    file: str = ""
    """The name of the only one of its kind; empty where there is one file each, named by its id."""


SHELVES: tuple[Shelf, ...] = (
    Shelf("run", RunRecord, "", RUN_FILE),
    Shelf("cell", CellResult, "cells"),
    Shelf("study", StudyResult, "studies"),
    Shelf("pair", PairResult, "pairs"),
    Shelf("finding", Finding, "findings"),
    Shelf("qualification", Qualification, "", QUALIFICATION_FILE),
)
_SHELF_OF: dict[type[BaseModel], Shelf] = {shelf.model: shelf for shelf in SHELVES}
_NO_SYMLINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_RIGHTS_REMEDY = "give this user the right to read it"
_ROOM_REMEDY = "free space or set THROUGHLINE_RESULTS to a folder on another disk"


class RunDir:
    """One run's folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, word: str, *, results: Path | None = None, now: datetime | None = None) -> RunDir:
        """Make `results/YYYYmmddTHHMMSS-word-hex4` (UTC) and point `results/latest` at it.

        `word` is a suite's name or any word; what a file name should not hold becomes a dash. `results` is
        `lab.paths.results_dir()` unless given. Raises UsageProblem when the folder cannot be made, LabFault when the disk
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
                # Only the run's own name may be taken; anything else there is not a folder for results.
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
        """An existing run's folder, `latest` resolved. Raises UsageProblem when it is not one."""
        if not (path / "cells").is_dir():
            raise UsageProblem(f"{path} is not the folder of a run", remedy="name one under results/, or results/latest")
        return cls(path.resolve())

    @classmethod
    def find(cls, text: str, *, results: Path | None = None) -> RunDir:
        """The run a person names: a path, a name below `results`, `latest`, or `latest~2` for the second before it.

        `results` is `lab.paths.results_dir()` unless given. Raises UsageProblem as `open` does, and where there are not so many.
        """
        results = results or results_dir()
        try:
            if match := re.fullmatch(rf"{LATEST}~([0-9]{{1,6}})", text):
                back = int(match[1])
                latest = cls.open(results / LATEST).path
                # Their names begin with the time.
                before = sorted(each.parent for each in latest.parent.glob("*/cells") if each.parent.name < latest.name)
                if back > len(before):
                    raise UsageProblem(f"{text}: only {len(before)} runs stand before {latest.name} in {latest.parent}")
                return cls.open(before[-back] if back else latest)
            return cls.open(results / text if (results / text / "cells").is_dir() and not Path(text).is_dir() else Path(text))
        except (OSError, ValueError) as error:
            # A name too long, a folder that may not be entered, a zero byte.
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageProblem(f"{text!r} is not the folder of a run: {why}") from None

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def cells(self) -> Path:
        return self.path / "cells"

    def cell_path(self, cell_id: str) -> Path:
        """Where the cell of this id is or will be; characters a file name cannot hold are percent-encoded."""
        return self.cells / f"{quote(cell_id, safe='')}.json"

    def study_path(self, study_id: str) -> Path:
        """Where the study of this id is or will be."""
        return self.path / "studies" / f"{quote(study_id, safe='')}.json"

    def pair_path(self, pair_id: str) -> Path:
        """Where the pair of this id is or will be."""
        return self.path / "pairs" / f"{quote(pair_id, safe='')}.json"

    def evidence(self, cell_id: str) -> Path:
        """The folder of a cell's evidence, made. Raises UsageProblem or LabFault as `create` does."""
        path = self.path / "evidence" / quote(cell_id, safe="")
        self._make(path)
        return path

    def write_cell(self, cell: CellResult) -> Path:
        """Write, re-read from disk and validate one cell; returns its path.

        Raises LabFault when it cannot be written or when what is on disk is not what was meant; nothing is then left
        under the final name that was not there before.
        """
        return _write(self.cell_path(cell.id), cell)

    def write_study(self, study: StudyResult) -> Path:
        """Write one study, as `write_cell` does."""
        path = self.study_path(study.id)
        self._make(path.parent)
        return _write(path, study)

    def write_pair(self, pair: PairResult) -> Path:
        """Write one comparison of two clients, as `write_cell` does."""
        path = self.pair_path(pair.id)
        self._make(path.parent)
        return _write(path, pair)

    def write_qualification(self, qualification: Qualification) -> Path:
        """Write what a release came to, as `write_cell` does."""
        return _write(self.path / QUALIFICATION_FILE, qualification)

    def finding_path(self, finding_id: str) -> Path:
        """Where the finding of this id is or will be."""
        return self.path / "findings" / f"{quote(finding_id, safe='')}.json"

    def write_finding(self, finding: Finding) -> Path:
        """Write what a study found, as `write_cell` does."""
        path = self.finding_path(finding.id)
        self._make(path.parent)
        return _write(path, finding)

    def write_run(self, record: RunRecord) -> Path:
        """Write the run's own record, as `write_cell` does."""
        return _write(self.path / RUN_FILE, record)

    def discard(self) -> None:
        """Remove a run that came to nothing; `latest` goes back to the newest run that is left.

        Raises ValueError when a cell was written: results are never thrown away.
        """
        if any(self.cells.glob("*.json")):
            raise ValueError(f"{self.path} holds results")
        try:
            shutil.rmtree(self.path)
            left = [run for run in self.path.parent.glob(f"*/{self.cells.name}") if not run.parent.is_symlink()]
            if left:
                RunDir(max(left).parent)._point_latest()
            else:
                (self.path.parent / LATEST).unlink(missing_ok=True)
        except OSError as error:
            raise LabFault(f"{self.path}: cannot be removed, {error.strerror or error}") from error

    def read_cells(self) -> list[CellResult]:
        """Every cell written so far, in the order they started. Raises UsageProblem as `read_cell` does."""
        return sorted(map(read_cell, self.files(CellResult)), key=lambda cell: cell.started_at)

    def files(self, kind: type[BaseModel]) -> Iterator[Path]:
        """Every file of one kind that is there, by name. Raises UsageProblem where the folder may not be listed."""
        shelf = _SHELF_OF[kind]
        folder = self.path / shelf.folder
        try:
            # Not `glob`: it takes a folder that may not be read for an empty one.
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
            # A convenience: a file system without symbolic links keeps its results without it.
            if error.errno not in _NO_SYMLINKS:
                raise _cannot_make(link, error) from error


_WORST_FIRST: tuple[tuple[VerdictName, int], ...] = (
    ("FAIL", EXIT_FAIL),
    ("INVALID", EXIT_INVALID),
    ("INCONCLUSIVE", EXIT_INCONCLUSIVE),
)


def exit_code(verdicts: Iterable[VerdictName]) -> int:
    """What a run's verdicts mean to a shell: 1 for any FAIL, else 4 for any INVALID, else 3 for any INCONCLUSIVE, else 0.

    FAIL comes first: a proven fault of the client stands, whatever befell the other cells.
    """
    seen = set(verdicts)
    return next((code for name, code in _WORST_FIRST if name in seen), EXIT_PASS)


def read_cell(path: Path) -> CellResult:
    """Read and validate one cell. Raises UsageProblem, one line, when it is missing, cut off, newer or not a cell."""
    return read_result(path, CellResult)


def read_study(path: Path) -> StudyResult:
    """Read and validate one study. Raises UsageProblem as `read_cell`."""
    return read_result(path, StudyResult)


def read_pair(path: Path) -> PairResult:
    """Read and validate one comparison of two clients. Raises UsageProblem as `read_cell`."""
    return read_result(path, PairResult)


def read_qualification(path: Path) -> Qualification:
    """Read and validate what a release came to. Raises UsageProblem as `read_cell`."""
    return read_result(path, Qualification)


def read_finding(path: Path) -> Finding:
    """Read and validate what a study found. Raises UsageProblem as `read_cell`."""
    return read_result(path, Finding)


def read_run(path: Path) -> RunRecord:
    """Read and validate a run's record: `run.json` or the folder that holds it. Raises UsageProblem as `read_cell`."""
    return read_result(path / RUN_FILE if path.is_dir() else path, RunRecord)


def write_beside(path: Path, model: BaseModel) -> Path:
    """Write `model` under a temporary name beside `path`, read it back and validate it; the caller renames or removes it.

    Raises LabFault when it cannot be written or when what is on disk is not what was meant; nothing is then left.
    """
    try:
        # `allow_nan=False`: pydantic alone writes NaN as null, which an optional field would read back as "not measured".
        data = json.dumps(model.model_dump(mode="json"), allow_nan=False, ensure_ascii=False, indent=1).encode()
    except ValueError as error:
        raise LabFault(f"{path}: the result holds what JSON cannot ({_one_line(error)})", remedy="report it: a bug") from error
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with disk_faults(path):
            _write_whole(temporary, data)
            if (problem := _difference(temporary, data, type(model))) is not None:
                raise LabFault(
                    f"{path}: the result read back from disk {problem}", remedy="check the disk, else report it: a bug"
                )
    except BaseException:
        remove(temporary)
        raise
    return temporary


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a file from `write_beside` its name, for good. Raises LabFault when the disk refuses; the temporary is then gone."""
    try:
        with disk_faults(path):
            temporary.replace(path)
            _sync_folder(path.parent)
    finally:
        remove(temporary)


@contextlib.contextmanager
def disk_faults(path: Path) -> Iterator[None]:
    """What the system says while a result is written, as a LabFault that names the result."""
    try:
        yield
    except OSError as error:
        full = error.errno in DISK_IS_FULL
        why = "the disk is full" if full else error.strerror or str(error)
        raise LabFault(f"{path}: the result could not be written, {why}", remedy=_ROOM_REMEDY if full else "") from error


def remove(temporary: Path) -> None:
    """Remove a temporary file, where it is still there and can be removed."""
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


def _write(path: Path, model: BaseModel) -> Path:
    """Validate before the rename, so that a bad file never bears the final name."""
    put_in_place(write_beside(path, model), path)
    return path


def _write_whole(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _difference(path: Path, data: bytes, kind: type[BaseModel]) -> str | None:
    """How the file on disk fails to be `data` as a `kind`; None when it is."""
    found = path.read_bytes()
    if found != data:
        return f"has {len(found)} bytes that are not the {len(data)} written"
    try:
        again = kind.model_validate_json(found)
    except ValidationError as error:
        return f"is not a valid {kind.__name__}: {_first_fault(error)}"
    if again.model_dump(mode="json") != json.loads(data):
        return f"is another {kind.__name__} than the one written"
    return None


def read_document(path: Path, kind: Kind) -> dict[str, object]:
    """One file's JSON as today's schema has it, not yet validated. Raises UsageProblem, one line, where it is none."""
    return upgrade(read_json(path), kind, str(path))


def read_json(path: Path) -> object:
    """One file's JSON as it is stored. Raises UsageProblem, one line, where it is none."""
    try:
        # What is no file may never end (a pipe), or say nothing of why it cannot be read.
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
    """`document` as its closed model. Raises pydantic's ValidationError with every fault."""
    return kind.model_validate_json(json.dumps(document))


def read_result(path: Path, kind: type[Model]) -> Model:
    """Read and validate one file of one kind. Raises UsageProblem as `read_cell`."""
    document = read_document(path, _SHELF_OF[kind].kind)
    try:
        return validated(document, kind)
    except ValidationError as error:
        raise UsageProblem(f"{path}: not a valid {kind.__name__}: {_first_fault(error)}") from error


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg']}{more}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _cannot_make(path: Path, error: OSError) -> UsageProblem | LabFault:
    if error.errno in DISK_IS_FULL:
        return LabFault(f"{path}: cannot be made, the disk is full", remedy=_ROOM_REMEDY)
    why = error.strerror or str(error)
    return UsageProblem(f"{path}: cannot be made, {why}", remedy="set THROUGHLINE_RESULTS to a folder you may write to")
