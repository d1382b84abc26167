"""The path at which a machine in virtual time shows a client that is a file of the caller's.

The file's own path would count: the words of a command lie on its stack, and a script's Python asks for every folder on the way
and lists the last. So a folder is shown under a path of the lab's. A script's folder is copied, without files that no program
reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.model.paths import cache_dir, results_dir

# Alike on every machine with these packages.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/snap", "/run")
_PROGRAM_FOLDERS = ("bin", "sbin")
_MOST_FILES = 1000
_MOST_BYTES = 32 << 20
_TEXTS = ("", ".py", ".sh")
_ABOVE = re.compile(rb"(?<!\.)\.\.(?!\.)|\.parent\.parent|\.parents\[|dirname\(\s*[\w.]*dirname\(")
_BY_ITS_PLACE = b"$ORIGIN/.."
"""In a program that finds its libraries in a folder next to its own."""


@dataclass(frozen=True)
class Place:
    """A folder, the program's path in it, and the files to copy; None for the folder itself, without a copy."""

    folder: str
    inner: str
    files: tuple[str, ...] | None = None


def place_of(program: str) -> Place | None:
    """None for a program that stays where it is: of the system, known by its name, a link, or in need of its neighbours."""
    path = Path(program)
    if not path.is_absolute() or path.is_symlink() or not path.is_file() or program.startswith(tuple(f"{at}/" for at in _SYSTEM)):
        return None
    cache = cache_dir()
    if path.is_relative_to(cache):
        return Place(str(cache), str(path.relative_to(cache)))
    folder = path.parent
    copied = is_script(path) or not path.stat().st_mode & 0o001
    if folder.name in _PROGRAM_FOLDERS and not copied:
        return Place(str(folder.parent), f"{folder.name}/{path.name}")
    if _BY_ITS_PLACE in path.read_bytes():
        return None
    return _copied(path) if copied else Place(str(folder), path.name)


def _copied(path: Path) -> Place | None:
    folder = path.parent
    files = readable_files(folder)
    if has_linked_folders(folder) or any(looks_up(folder / name) for name in files or (path.name,)):
        return None
    return Place(str(folder), path.name, files)


def looks_up(path: Path) -> bool:
    """True if a program's text names the folder above its own."""
    if path.suffix not in _TEXTS:
        return False
    return _ABOVE.search(path.read_bytes()) is not None


def has_linked_folders(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(entry.is_symlink() and entry.is_dir() for entry in entries)


def is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def readable_files(folder: Path) -> tuple[str, ...] | None:
    """The files below a folder that a program may read, by their paths in it, sorted. None for too many, or too much.

    Not compiled Python, the lab's results, what is in hidden folders, or empty files; but an empty `__init__.py` is a package.
    """
    found: list[str] = []
    total = 0
    for path, size in _walk(folder, results_dir()):
        total += size
        found.append(str(path.relative_to(folder)))
        if len(found) > _MOST_FILES or total > _MOST_BYTES:
            return None
    return tuple(sorted(found))


def _walk(folder: Path, results: Path) -> Iterator[tuple[Path, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name.startswith(".") or entry.name == "__pycache__" or Path(entry.path) == results:
                continue
            yield from _walk(Path(entry.path), results)
        elif entry.is_file():
            size = entry.stat().st_size
            if size or entry.name == "__init__.py":
                yield Path(entry.path), size
