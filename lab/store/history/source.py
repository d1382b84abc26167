"""Sources of runs: a folder of results, or any address that fsspec knows (an object store, another machine).

A run is the same plain files in both. Its signature shows whether it changed. For a finished local run that is the times of its
two folders, which change whenever a file there is made, removed or renamed into place, as the lab writes. For everything else it
is every file's name, size and time (or the store's ETag). A finished local run whose file is edited in place is thus not noticed:
`lab history --reindex` reads everything again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from lab.model.errors import LabFault, UsageProblem
from lab.model.extras import install_extra
from lab.model.paths import cache_dir, results_dir
from lab.model.scratch import scratch_folder
from lab.store.run_dir import RUN_FILE
from lab.store.stored_run import StoredRun, read_run_folder

INDEX_FOLDER = ".history"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*(?:::[a-z][a-z0-9+.-]*)*://.*|.*::[a-z][a-z0-9+.-]*://.*", re.IGNORECASE | re.DOTALL)
_TIMES = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")


class Source(Protocol):
    """Runs, by name."""

    name: str

    def signatures(self) -> dict[str, str]:
        """The signature of every run, in the order of their names."""

    def read(self, run: str) -> StoredRun:
        """The run's readable files; problems name the source's own paths. Raises UsageProblem if it is not a run (any more)."""

    def index_folder(self) -> Path:
        """The folder for its index, which may not exist yet."""


def open_source(text: str | None) -> Source:
    """`text` is a folder, an address such as s3://bucket/results, or None for the results folder. Raises UsageProblem."""
    if text is None:
        return LocalSource(results_dir())
    if text.startswith("file://"):
        return LocalSource(Path(text.removeprefix("file://")))
    return RemoteSource(text) if _ADDRESS.fullmatch(text) else LocalSource(Path(text).expanduser().absolute())


class LocalSource:
    """A folder of runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, str(folder)

    def signatures(self) -> dict[str, str]:
        try:
            entries = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageProblem(
                f"{self.name}: not a folder of results ({why})", remedy="run something first, or give one with --from"
            ) from None
        found = ((name, self._signature(f"{self.folder}/{name}")) for name in entries if not name.startswith("."))
        return {name: signature for name, signature in found if signature}

    def read(self, run: str) -> StoredRun:
        return read_run_folder(self.folder / run)

    def index_folder(self) -> Path:
        own = self.folder / INDEX_FOLDER
        writable = os.access(own if own.is_dir() else self.folder, os.W_OK)
        return own if writable else _cached(str(self.folder.resolve()))

    @staticmethod
    def _signature(run: str) -> str:
        # Two or three calls per run and no objects, because every query does this for up to five thousand runs.
        try:
            cells = _changed(f"{run}/cells")
            own = _changed(run)
        except OSError:
            return ""
        try:
            _changed(f"{run}/{RUN_FILE}")
        except OSError:
            return _digest([(entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(f"{run}/cells")])
        return f"{own} {cells}"


class RemoteSource:
    """Runs below a URL. Each is copied to a temporary folder, so that the code for local runs can read it."""

    def __init__(self, address: str) -> None:
        self.name = address.rstrip("/") if not address.endswith("://") else address
        self._fs, self._root = _file_system(self.name)

    def signatures(self) -> dict[str, str]:
        files: dict[str, list[tuple[object, ...]]] = {}
        for path, facts in self._listed().items():
            run, *rest = path.removeprefix(self._root).lstrip("/").split("/")
            if rest and rest[0] in ("cells", RUN_FILE) and not run.startswith("."):
                time = next((str(facts[key]) for key in _TIMES if facts.get(key) is not None), "")
                files.setdefault(run, []).append(("/".join(rest), facts.get("size"), time))
        return {run: _digest(found) for run, found in sorted(files.items()) if any(str(each[0]) != RUN_FILE for each in found)}

    def read(self, run: str) -> StoredRun:
        with scratch_folder("roughwater-history-") as folder, self._told():
            here = folder / run
            (here / "cells").mkdir(parents=True)
            for path in self._fs.find(f"{self._root}/{run}"):
                part = tuple(path.removeprefix(f"{self._root}/{run}/").split("/"))
                if part in ((RUN_FILE,), ("cells", part[-1])):
                    self._fs.get_file(path, str(here.joinpath(*part)))
            found = read_run_folder(here)
            found.problems[:] = [problem.replace(str(folder), self.name) for problem in found.problems]
            return found

    def index_folder(self) -> Path:
        return _cached(self.name)

    def _listed(self) -> dict[str, dict[str, Any]]:
        with self._told():
            self._fs.invalidate_cache()
            if not self._fs.exists(self._root):
                raise UsageProblem(f"{self.name}: there is nothing", remedy="check the address")
            found: dict[str, dict[str, Any]] = self._fs.find(self._root, detail=True)
            return found

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn any error of a file system (each has its own) into a UsageProblem, one line that names the address."""
        try:
            yield
        except (UsageProblem, LabFault):
            raise
        except Exception as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise UsageProblem(
                f"{self.name}: cannot be read: {words}", remedy="check the address and your access to it"
            ) from error


def _changed(path: str) -> int:
    return os.stat(path).st_mtime_ns  # noqa: PTH116 - a Path costs as much again, fifteen thousand times


def _file_system(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(address)
    except ImportError as error:
        raise UsageProblem(f"{address}: {error}", remedy=f"install what it needs, for s3:// {install_extra('s3')}") from None
    except (ValueError, OSError) as error:
        raise UsageProblem(
            f"{address}: {' '.join(str(error).split())[:200]}", remedy="give a folder or an address like s3://bucket/results"
        ) from None
    return fs, str(root).rstrip("/")


def _cached(name: str) -> Path:
    return cache_dir() / "history" / hashlib.sha256(name.encode()).hexdigest()[:16]


def _digest(files: list[tuple[Any, ...]]) -> str:
    return hashlib.sha256(json.dumps(sorted(files, key=str)).encode()).hexdigest()[:24]
