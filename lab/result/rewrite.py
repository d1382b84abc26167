"""A run's files, rewritten as today's schema has them; only ever on request.

First every new file is written beside its old one, read back and validated: a disk that is full then leaves the run as it was.
Then each old one is kept in `schema-VERSION` in the run's folder, and its new one takes its name, one rename each. A machine that
dies between two renames leaves files of two schemas, each whole: the lab reads both, and rewriting again finishes it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from lab.result.migrate import checked_version
from lab.result.models import SCHEMA_VERSION
from lab.result.store import SHELVES, RunDir, disk_faults, put_in_place, read_json, read_result, remove, write_beside


@dataclass(frozen=True)
class Rewritten:
    """What was done: how many files, to which version, and where in the run the old ones are."""

    files: int
    version: str
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Older:
    path: Path
    model: type[BaseModel]
    kept: Path
    """The folder in the run where the old ones of its version are kept."""


def rewrite(run: RunDir) -> Rewritten:
    """Bring every file of `run` to SCHEMA_VERSION, or none.

    Raises UsageProblem where a file cannot be read, LabFault where one cannot be written; every result is then as it was.
    """
    older = [
        _Older(path, shelf.model, run.path / f"schema-{version}")
        for shelf in SHELVES
        for path in run.files(shelf.model)
        if (version := checked_version(read_json(path), SCHEMA_VERSION, str(path))["schema_version"]) != SCHEMA_VERSION
    ]
    beside: dict[Path, Path] = {}
    try:
        for each in older:
            beside[each.path] = write_beside(each.path, read_result(each.path, each.model))
        for each in older:
            _keep(each.path, each.kept / each.path.relative_to(run.path))
        for path, temporary in beside.items():
            put_in_place(temporary, path)
    finally:
        for temporary in beside.values():
            remove(temporary)
    return Rewritten(len(older), SCHEMA_VERSION, tuple(sorted({each.kept for each in older})))


def _keep(path: Path, kept: Path) -> None:
    """The same file under a second name, which takes no room, and stays when a new one takes the first."""
    if kept.exists():
        # From a rewriting that was cut off.
        return
    with disk_faults(kept):
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, kept)
        except OSError:
            # A file system without second names. Never a part of a copy under the final name.
            temporary = kept.with_name(f".{kept.name}")
            shutil.copy2(path, temporary)
            temporary.replace(kept)
