"""Files: their digest, and new ones that appear complete or not at all. Standard library only: images ship this module."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from lab.model.errors import DISK_IS_FULL, LabFault, RoughwaterError


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new name next to `path` to write to. At the end of the block that file is synced and renamed to `path`.

    `path` stays as it was if the block raises or the disk refuses; the new file is then removed. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        _sync(temporary, os.O_RDONLY)
        temporary.replace(path)
        # The rename itself survives a power cut only once the folder is on disk.
        _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def write_faults(path: Path, what: str = "", *, remedy: str, fault: type[RoughwaterError] = LabFault) -> Iterator[None]:
    """Turn an OSError into one line: `path: the result cannot be written, the disk is full`.

    An error about a file in another folder, such as a source that cannot be read, names that file.
    """
    try:
        yield
    except OSError as error:
        named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
        place = path if named.parent == path.parent else named
        why = "the disk is full" if error.errno in DISK_IS_FULL else error.strerror or str(error)
        raise fault(f"{place}: {f'{what} cannot'.lstrip()} be written, {why}", remedy=remedy) from error


def write_text(path: Path, text: str) -> Path:
    """Write a UTF-8 file for the user, complete or not at all. Raises LabFault."""
    with write_faults(path, remedy="free space or name another place"), replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on disk, so that reading it back proves something. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
