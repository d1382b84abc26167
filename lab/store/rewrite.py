"""Rewrite a run's files in the current schema, on request.

Every new file is written under a temporary name, read back and validated first: a full disk leaves the run as it was. Then each
old file is kept in `schema-VERSION` in the run's folder and the new one is renamed into place. A crash between two renames leaves
files of two schemas, each complete: the lab reads both, and rewriting again finishes the job.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab.model.answer import Answer
from lab.model.files import replacing
from lab.model.results import SCHEMA_VERSION, CellResult, RunRecord
from lab.store.migrate import checked_version
from lab.store.run_dir import RunDir, read_json, read_result, result_faults, write_checked


@dataclass(frozen=True)
class Rewritten:
    """The number of rewritten files, their new version, and the folders that keep the old ones."""

    files: int
    version: str
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Older:
    path: Path
    version: str
    document: CellResult | Answer | RunRecord

    def target(self, run: RunDir) -> Path:
        """The path of the file in the current schema."""
        return run.answer_path(self.document.id) if isinstance(self.document, Answer) else self.path


def rewrite(run: RunDir) -> Rewritten:
    """Bring every file of `run` to SCHEMA_VERSION, or none.

    Raises UsageProblem where a file cannot be read, LabFault where one cannot be written; the run then stays as it was.
    """
    older = [
        *_older(run, CellResult),
        *_older(run, Answer),
        *_older(run, RunRecord),
    ]
    answers = [each.document.id for each in older if isinstance(each.document, Answer)]
    # Leaving the stack renames every new file, or removes those that are left when one fails.
    with ExitStack() as renames:
        for each in older:
            target, document = each.target(run), each.document
            if isinstance(document, RunRecord):
                listed = dict.fromkeys((*document.answers, *answers))
                document = document.model_copy(update={"answers": [*listed]})
            renames.enter_context(result_faults(target))
            target.parent.mkdir(exist_ok=True)
            write_checked(renames.enter_context(replacing(target)), target, document)
        kept = {run.path / f"schema-{each.version}" for each in older}
        for each in older:
            _keep(each.path, run.path / f"schema-{each.version}" / each.path.relative_to(run.path))
    for each in older:
        if each.path != each.target(run):
            with result_faults(each.path):
                each.path.unlink()
                if each.path.parent != run.path and not any(each.path.parent.iterdir()):
                    each.path.parent.rmdir()
    return Rewritten(len(older), SCHEMA_VERSION, tuple(sorted(kept)))


def _older(run: RunDir, model: type[CellResult | Answer | RunRecord]) -> Iterator[_Older]:
    for path in run.files(model):
        version = checked_version(read_json(path), SCHEMA_VERSION, str(path))["schema_version"]
        if version != SCHEMA_VERSION:
            yield _Older(path, str(version), read_result(path, model))


def _keep(path: Path, kept: Path) -> None:
    """Keep the old file under a second name (a hard link takes no room) before the new one replaces it."""
    if kept.exists():
        # Kept by a rewrite that was cut off.
        return
    with result_faults(kept):
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, kept)
        except OSError:
            # A file system without hard links.
            with replacing(kept) as temporary:
                shutil.copy2(path, temporary)
