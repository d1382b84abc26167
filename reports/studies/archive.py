"""The data of a study: runs as one compressed file, the same bytes whenever the same runs are packed.

```
data.tar.xz
  archive.json              which curves were kept, and the SHA-256 of every other member
  runs/LABEL/RUN/run.json, cells/ID.json, answers/ID.json       as the run wrote them; LABEL is `-` where none was given
  files/NAME                other data: JSON, CSV or text
```
Captures, logs and pages of a run are not packed. Where all of it is more than a study may ship, the curves go: goodput by slot
of 10 ms and the client's own report, first of all samples but the first of each cell, then of all. Every figure of every sample
stays. `archive.json` and the page say what was left out.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from pydantic import Field, ValidationError

from lab.model.base import first_problem
from lab.model.errors import UsageProblem
from lab.model.files import replacing
from lab.model.results import Closed
from lab.store.run_dir import RUN_FILE, RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from lab.store.validate import validate

MOST_BYTES = 1_000_000
"""The largest size of a study's archive, bytes."""
MANIFEST = "archive.json"
NO_LABEL = "-"
_MOST_UNPACKED = 2**28
_LABEL = re.compile(r"[a-z0-9][a-z0-9.-]*")
_MEMBER = re.compile(r"archive\.json|files/\w[\w.-]*|runs/[\w-][\w.-]*/\w[\w.-]*/(?:run\.json|(?:cells|answers)/[^/]+\.json)")
_PRESET = 9 | lzma.PRESET_EXTREME

Curves = Literal["all", "first", "none"]
CURVES: Mapping[Curves, str] = {
    "all": "",
    "first": "Without goodput by slot and the client's own report, except of each cell's first sample.",
    "none": "Without goodput by slot and the clients' own reports.",
}
"""A page's note on the curves that were left out."""


class Manifest(Closed):
    """The contents of an archive."""

    kind: Literal["roughwater-study-data", "throughline-study-data"] = "roughwater-study-data"  # the second: until November 2026
    curves: Curves = Field(description="which samples kept their curves: all, the first of each cell, none")
    sha256: dict[str, str] = Field(description="digest of every other member, 64 hexadecimal digits, by its name")


@dataclass(frozen=True)
class Contents:
    """An archive that was unpacked and checked."""

    runs: Mapping[str, Sequence[StoredRun]]
    """By label."""
    files: Mapping[str, bytes]
    curves: Curves
    size: int
    sha256: str

    @property
    def all_runs(self) -> list[StoredRun]:
        """The runs of all labels."""
        return [run for runs in self.runs.values() for run in runs]


def pack(path: Path, runs: Sequence[tuple[str, Path]], files: Sequence[Path]) -> Contents:
    """Write the archive of these runs, each a label (may be empty) and a folder, and of other files; then read it back.

    Raises UsageProblem for a run that is not finished or not valid, and where even without curves the archive is too large.
    """
    members = {f"files/{each.name}": each.read_bytes() for each in files}
    for label, folder in runs:
        if label and not _LABEL.fullmatch(label):
            raise UsageProblem(f"{label!r} cannot be a label", remedy="use small letters, digits, `.` and `-`")
        run = RunDir.open(folder)
        _check(run.path)
        for each in (run.path / RUN_FILE, *sorted(run.path.glob("cells/*.json")), *sorted(run.path.glob("answers/*.json"))):
            members[f"runs/{label or NO_LABEL}/{run.path.name}/{each.relative_to(run.path).as_posix()}"] = each.read_bytes()
    if wrong := [name for name in members if not _MEMBER.fullmatch(name)]:
        raise UsageProblem(f"{wrong[0]}: a study cannot ship a file of this name", remedy="use letters, digits, `.`, `_` and `-`")
    for curves in get_args(Curves):
        packed = _packed(members, curves)
        if len(packed) <= MOST_BYTES:
            break
    else:
        raise UsageProblem(f"{path}: {len(packed)} bytes, a study may ship {MOST_BYTES}", remedy="pack fewer runs or cells")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(packed)
    with unpacked(path) as contents:
        for stored in contents.all_runs:
            _check(stored.path)
        return contents


@contextmanager
def unpacked(path: Path, folder: Path | None = None) -> Iterator[Contents]:
    """The archive in a folder, by default a temporary folder. Raises UsageProblem where the archive is damaged or was changed."""
    packed = _bytes(path)
    manifest, members = _members(packed, path)
    with TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        for name, content in members.items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        runs: dict[str, list[StoredRun]] = {}
        for each in sorted(place.glob(f"runs/*/*/{RUN_FILE}")):
            run = read_run_folder(each.parent)
            if run.problems:
                raise UsageProblem(f"{path}: {run.problems[0]}", remedy="pack the study's runs again")
            label = each.parent.parent.name
            runs.setdefault("" if label == NO_LABEL else label, []).append(run)
        files = {name.removeprefix("files/"): content for name, content in members.items() if name.startswith("files/")}
        yield Contents(runs, files, manifest.curves, len(packed), hashlib.sha256(packed).hexdigest())


def _check(run: Path) -> None:
    """Raise UsageProblem unless the run is finished and its files agree with each other and with their schema."""
    found = validate([run])
    if found.unfinished:
        raise UsageProblem(f"{run.name}: not complete, it goes on or was cut off", remedy="pack a run that has finished")
    if found.problems:
        first = found.problems[0]
        raise UsageProblem(f"{first.file}: {first.where}: {first.what}", remedy="pack a run that `lab results validate` accepts")


def _packed(members: Mapping[str, bytes], curves: Curves) -> bytes:
    kept = {name: _thinned(content, curves) if "/cells/" in name else content for name, content in members.items()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(kept.items())}
    manifest = Manifest(curves=curves, sha256=digests).model_dump_json(indent=1).encode()
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in [(MANIFEST, manifest), *sorted(kept.items())]:
            # By default a TarInfo has no owner and the time 0.
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return lzma.compress(into.getvalue(), preset=_PRESET)


def _thinned(content: bytes, curves: Curves) -> bytes:
    """The file of a cell with only those curves."""
    if curves == "all":
        return content
    cell = json.loads(content)
    for at, sample in enumerate([*cell["samples"], *(each["sample"] for each in cell.get("set_aside", ()))]):
        if curves == "first" and at == 0:
            continue
        if sample.get("series"):
            sample["series"]["goodput_bit_s"] = []
        if sample.get("client"):
            sample["client"]["raw"] = {}
    return json.dumps(cell, indent=1).encode()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}", remedy="pack the study's runs: make study NAME=... RUNS=...") from None


def _members(packed: bytes, path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """The members but the manifest, each checked against it."""
    again = "get the file again, or pack the study's runs again"
    try:
        plain = lzma.LZMADecompressor().decompress(packed, max_length=_MOST_UNPACKED)
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            found = {info.name: archive.extractfile(info) for info in archive.getmembers() if info.isfile()}
            if wrong := [name for name in archive.getnames() if not _MEMBER.fullmatch(name) or name not in found]:
                raise UsageProblem(f"{path}: {wrong[0]!r} is not a member that a study has", remedy=again)
            members = {name: file.read() for name, file in found.items() if file is not None}
        manifest = Manifest.model_validate_json(members.pop(MANIFEST))
    except (lzma.LZMAError, tarfile.TarError, EOFError, KeyError) as error:
        raise UsageProblem(f"{path}: damaged, or not the data of a study: {error}", remedy=again) from None
    except ValidationError as error:
        raise UsageProblem(f"{path}: {MANIFEST}: {first_problem(error)}", remedy=again) from None
    for name in sorted({*members, *manifest.sha256}):
        if name not in members or hashlib.sha256(members[name]).hexdigest() != manifest.sha256.get(name):
            raise UsageProblem(f"{path}: {name} was changed, its SHA-256 is not that of {MANIFEST}", remedy=again)
    return manifest, members
