"""The cache as a store of directories that are either whole or absent.

A directory is staged beside its final place and renamed into it, under one lock, so that two labs never build at once
and a killed build leaves nothing that looks finished. Each carries a manifest with the SHA-256 of every file that is
used at run time; whatever does not match its manifest is treated as absent, and so gets built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from lab.errors import LabFault
from lab.paths import cache_dir

Progress = Callable[[str], None]

MANIFEST = "manifest.json"
_STAGING = ".building-"


def digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every regular file below `directory`, by relative path, the manifest itself left out."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(directory)): digest(path) for path in files if path.name != MANIFEST}


def write_manifest(directory: Path, facts: Mapping[str, Any], files: Mapping[str, str]) -> None:
    (directory / MANIFEST).write_text(json.dumps({**facts, "files": files}, indent=1, sort_keys=True) + "\n")


def load(directory: Path) -> dict[str, Any] | None:
    """The manifest of a directory whose files are exactly what was built, else None.

    Hashing 20 MB takes about 20 ms, so there is no stamp of sizes and times that could be believed in error.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        whole = all(digest(directory / name) == expected for name, expected in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if whole and files else None


@contextmanager
def locked(progress: Progress) -> Iterator[Path]:
    """The cache folder, held by this process alone; leftovers of builds that were killed are swept first."""
    cache = cache_dir()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "assets.lock").open("a")
    except OSError as error:
        raise LabFault(f"cannot write to the cache {cache}: {error.strerror}", remedy="set THROUGHLINE_CACHE") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another lab is building; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob(f"{_STAGING}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        yield cache


@contextmanager
def staging(cache: Path) -> Iterator[Path]:
    """A folder to build in, gone afterwards; a full disk or a refused write ends in one line."""
    try:
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=cache, ignore_cleanup_errors=True) as name:
            yield Path(name)
    except OSError as error:
        remedy = "free some space (300 MB) or set THROUGHLINE_CACHE"
        raise LabFault(f"cannot build in {cache}: {error.strerror or error}", remedy=remedy) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in place of `path`: renamed to it at the end, or gone. Threads and processes may do so at once.

    Raises OSError where the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def publish(staged: Path, final: Path) -> None:
    """Rename into place. An older version steps aside into the staging area, which is about to be deleted."""
    if final.exists():
        final.rename(staged.with_name(f"{staged.name}.old"))
    staged.rename(final)


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float = 300,
    cwd: Path | None = None,
    scratch: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Exit code and all output of a helper program; one that hangs (a dead mirror) is asked to end, then killed.

    What it leaves in its TMPDIR when this process is killed too belongs into `scratch`, which the next build sweeps.
    """
    environment = {**(os.environ if env is None else env), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    if scratch:
        environment["TMPDIR"] = str(scratch)
    with subprocess.Popen(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,
        env=environment,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                output, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            return 124, f"{output}\nno answer within {timeout_s:.0f} s"
        return process.returncode, output


def reason(output: str) -> str:
    """The line of a failed program's output that says why: what apt says below its first "Err:", an error, the last words."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    fetching = [after for line, after in pairwise(lines) if line.startswith("Err:")]
    errors = [line for line in lines if line.startswith(("E:", "error:"))]
    return (fetching or errors or lines[-1:] or ["no output"])[0]
