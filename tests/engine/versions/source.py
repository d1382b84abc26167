"""The source of transfers: a tree of files, each of which is one of several versions, and its history."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.engine.sftp_servers import person

# A version begins at its number times this: no two versions have the same bytes at any place.
_STEP = 500_009
_POOL_BYTES = 96 << 20
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
EPOCH = 10**9
"""Modification times of the first versions, in seconds: long ago, so that dates are validators."""


@cache
def _pool() -> bytes:
    return random.Random(46).randbytes(_POOL_BYTES)


@dataclass(frozen=True)
class Version:
    """A content, in pieces of the pool (offset and length in bytes), with its time in seconds and its permission bits."""

    number: int
    pieces: tuple[tuple[int, int], ...]
    mtime: int
    mode: int

    @property
    def size(self) -> int:
        return sum(length for _, length in self.pieces)

    def data(self) -> bytes:
        pool = _pool()
        return b"".join(pool[at : at + length] for at, length in self.pieces)

    def __str__(self) -> str:
        return f"version {self.number} ({self.size} bytes)"


@dataclass(frozen=True)
class Snapshot:
    """The tree at one moment. `named` has its regular files, `followed` also those that links lead to."""

    named: dict[str, Version]
    followed: dict[str, Version]
    links: frozenset[str]
    folders: frozenset[str]

    def names(self, path: str) -> bool:
        """True for a path of the source in any form: a file, a folder, a link, or something below a link."""
        above = (path, *_above(path))
        return path in self.named or path in self.folders or any(each in self.links for each in above)


def _above(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


@dataclass
class Source:
    """Files below `root`; what links lead to is in `aside`. Every change is a snapshot in `history`."""

    root: Path
    aside: Path
    named: dict[str, Version] = field(default_factory=dict)
    followed: dict[str, Version] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    history: list[Snapshot] = field(default_factory=list)
    versions: dict[str, list[Version]] = field(default_factory=dict)
    _numbers: int = 0

    def give(self, path: str, size: int, mode: int) -> None:
        """A first version, or another one by rename: the path may be a link, or absent."""
        self._numbers += 1
        number = self._numbers
        mtime = EPOCH + 1000 * number
        version = Version(number, ((number * _STEP, size),), mtime, mode)
        new = self.aside / f"new-{number}"
        new.write_bytes(version.data())
        new.chmod(mode)
        os.utime(new, (mtime, mtime))
        person().owns(new)
        self._clear_way(path)
        new.replace(self.root / path)
        self.links.discard(path)
        self._set(path, version)

    def _clear_way(self, path: str) -> None:
        """Folders above it, which may be links."""
        for above in _above(path):
            folder = self.root / above
            if folder.is_symlink():
                folder.unlink()
                self._forget(above)
                # A run may have seen the tree without it.
                self.note()
            if not folder.exists():
                folder.mkdir()
                person().owns(folder)

    def _set(self, path: str, version: Version) -> None:
        self.named[path] = self.followed[path] = version
        self.versions.setdefault(path, []).append(version)

    def _forget(self, path: str) -> None:
        for files in (self.named, self.followed):
            for each in [each for each in files if each == path or each.startswith(f"{path}/")]:
                del files[each]
        self.links = {each for each in self.links if each != path and not each.startswith(f"{path}/")}

    def note(self) -> None:
        """The tree as it is now becomes a snapshot."""
        folders = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink()}
        self.history.append(Snapshot(dict(self.named), dict(self.followed), frozenset(self.links), frozenset(folders)))

    def change(self, kind: str, path: str, share: float, *, same_size: bool) -> str:
        """One of `KINDS`. A change that the path cannot take becomes a replacement. Returns what was done."""
        plain = path in self.named
        if kind in ("truncate", "grow") and plain and self.named[path].size > 1:
            self._write(kind, path, share)
        elif kind == "link" and plain:
            self._link(path)
        elif kind == "link-folder" and "/" in path and self._folder(path):
            path = path.split("/", maxsplit=1)[0]
            self._link(path)
        elif kind == "remove" and plain:
            (self.root / path).unlink()
            self._forget(path)
        elif kind == "remove-folder" and "/" in path and self._folder(path):
            path = path.split("/")[0]
            shutil.rmtree(self.root / path)
            self._forget(path)
        else:
            kind = "replace"
            known = self.versions.get(path, [])
            size = known[-1].size if known and same_size else int((known[-1].size if known else 10_000) * (0.5 + share)) + 1
            self.give(path, size, known[-1].mode if known else 0o644)
        self.note()
        return f"{kind} {path}"

    def _folder(self, path: str) -> bool:
        folder = self.root / path.split("/", maxsplit=1)[0]
        return folder.is_dir() and not folder.is_symlink()

    def _write(self, kind: str, path: str, share: float) -> None:
        """In place: the file that others have open is another version from now on."""
        old, real = self.named[path], self.root / path
        self._numbers += 1
        # The owner of a file may write it whatever its mode only if that is root.
        real.chmod(0o600)
        if kind == "truncate":
            size = int(old.size * share)
            os.truncate(real, size)
            pieces, left = [], size
            for at, length in old.pieces:
                pieces.append((at, min(length, left)))
                left -= pieces[-1][1]
        else:
            more = self._numbers * _STEP, int(old.size * share) + 1
            pieces = [*old.pieces, more]
            with real.open("ab") as file:
                file.write(Version(0, (more,), 0, 0).data())
        real.chmod(old.mode)
        self._set(path, Version(self._numbers, tuple(pieces), int(real.stat().st_mtime), old.mode))

    def _link(self, path: str) -> None:
        """The name exists at every moment."""
        moved, link = (self.aside / f"{name}-{len(self.history)}" for name in ("moved", "link"))
        link.symlink_to(moved)
        _exchange(link, self.root / path)
        link.rename(moved)
        self.links.add(path)
        for each in [each for each in self.named if each == path or each.startswith(f"{path}/")]:
            del self.named[each]


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), f"cannot exchange {one} and {other}")


KINDS = ("replace", "truncate", "grow", "link", "link-folder", "remove", "remove-folder")
