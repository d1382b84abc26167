"""A writer of "newc" cpio archives, the format an initramfs has.

The `cpio` program cannot do it: the archive must be the same every time, byte for byte (sorted names, no times, owner root),
and hold device nodes, which only root can make on disk.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file, folder or node. `mode` includes the file type, as in stat; `device` is (major, minor) of a node."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, data: bytes, *, executable: bool = False) -> Entry:
    return Entry(name, stat.S_IFREG | (0o755 if executable else 0o644), data)


def character_device(name: str, major: int, minor: int) -> Entry:
    return Entry(name, stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive of all entries, sorted so that a directory comes before its files. Raises ValueError for a duplicate name."""
    ordered = sorted(entries, key=lambda entry: entry.name)
    names = [entry.name for entry in ordered]
    if len(set(names)) != len(names):
        raise ValueError(f"a name occurs twice among {names}")
    return b"".join(_record(number, entry) for number, entry in enumerate([*ordered, Entry("TRAILER!!!", 0)], start=1))


def _record(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links, user, group, modified, checksum = 1, 0, 0, 0, 0
    fields = (inode, entry.mode, user, group, links, modified, len(entry.data), 0, 0, *entry.device, len(name), checksum)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
