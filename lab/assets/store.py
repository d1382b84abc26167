"""The cache: directories that are either complete or absent.

A directory is built in a staging folder and renamed into place under a lock of its own, so two labs never build the same
thing at the same time, wait for no other thing, and a killed build leaves nothing that looks finished. A manifest holds the
SHA-256 of every file. A directory that does not match its manifest counts as absent and is built again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

from lab.model.errors import LabFault
from lab.model.files import digest
from lab.model.paths import cache_dir

Progress = Callable[[str], None]

MANIFEST = "manifest.json"
_STAGED = re.compile(r"\.building-(.+)-[a-z0-9_]{8}")
_held: set[str] = set()
"""The parts that this process has locked."""


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every regular file below `directory` except the manifest, by relative path."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(directory)): digest(path) for path in files if path.name != MANIFEST}


def write_manifest(directory: Path, facts: Mapping[str, Any], files: Mapping[str, str]) -> None:
    (directory / MANIFEST).write_text(json.dumps({**facts, "files": files}, indent=1, sort_keys=True) + "\n")


def load(directory: Path) -> dict[str, Any] | None:
    """The manifest of a directory if every file matches it, else None. Hashing 20 MB takes about 20 ms."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        intact = all(digest(directory / name) == expected for name, expected in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if intact and files else None


@contextmanager
def locked(progress: Progress, part: str) -> Iterator[Path]:
    """The cache folder, of which this process alone may build `part`: the name of what it makes. Raises LabFault.

    Orphans of killed builds are removed first.
    """
    cache = cache_dir()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = _lock(cache, part)
    except OSError as error:
        raise LabFault(f"cannot write to the cache {cache}: {error.strerror}", remedy="set ROUGHWATER_CACHE") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another lab is building {part}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_orphans(cache, part)
        _held.add(part)
        try:
            yield cache
        finally:
            _held.discard(part)


@contextmanager
def staging(cache: Path, part: str) -> Iterator[Path]:
    """A folder to build `part` in, which is locked; removed afterwards. An OSError in the block becomes a LabFault."""
    if part not in _held:
        raise RuntimeError(f"{part} is built without its lock: another lab would take its folder for an orphan")
    try:
        with tempfile.TemporaryDirectory(prefix=f".building-{part}-", dir=cache, ignore_cleanup_errors=True) as name:
            yield Path(name)
    except OSError as error:
        remedy = "free some space (300 MB) or set ROUGHWATER_CACHE"
        raise LabFault(f"cannot build in {cache}: {error.strerror or error}", remedy=remedy) from error


@contextmanager
def installing(final: Path, part: str = "") -> Iterator[tuple[Path, dict[str, Any]]]:
    """An empty tree to fill and facts for its manifest; at the end the tree becomes `final`. `part`, else its name, is locked.

    The parent of the tree is for intermediate files. Raises LabFault if `final` does not match its manifest.
    """
    with staging(final.parent, part or final.name) as work:
        tree, facts = work / "tree", dict[str, Any]()
        tree.mkdir()
        yield tree, facts
        write_manifest(tree, facts, digests(tree))
        publish(tree, final)
    if load(final) is None:
        raise LabFault(f"{final} does not read back as it was written", remedy="check the disk")


def publish(staged: Path, final: Path) -> None:
    """Rename into place. An older version moves to the staging folder, which is removed later."""
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
    """Exit code and output of a helper program. After `timeout_s` (a dead mirror, say) it is terminated, then killed.

    `scratch` becomes its TMPDIR: give a staging folder, which the next build removes if this process is killed.
    """
    environment = {**(os.environ if env is None else env), "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
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


def _lock(cache: Path, part: str) -> TextIO:
    return (cache / f"{part}.lock").open("a")


def _remove_orphans(cache: Path, own: str) -> None:
    """Remove the staging folders of `own`, which is locked, and of every part that no process has locked."""
    for folder in cache.glob(".building-*"):
        match = _STAGED.fullmatch(folder.name)
        if match is None:
            continue
        if match[1] == own:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        with _lock(cache, match[1]) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)


def reason(output: str) -> str:
    """The reason in a failed program's output: the line below apt's first "Err:", else an error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    fetching = [after for line, after in pairwise(lines) if line.startswith("Err:")]
    errors = [line for line in lines if line.startswith(("E:", "error:"))]
    return (fetching or errors or lines[-1:] or ["no output"])[0]
