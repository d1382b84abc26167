"""Payload files: pseudo-random content determined by size and seed, so that both ends can make it without sending it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from lab.hosts.host import Host
from lab.hosts.payload_script import blocks, write
from lab.model import files
from lab.model.endpoints import SET_NAME
from lab.model.paths import cache_dir

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
SEED = 1
_MOST_KEPT_BYTES = 64 << 20
# No file of a set has the content of another, or of the single payload.
_SET_SEED = 1000


@dataclass(frozen=True)
class Payload:
    """A file on a host. `sha256` is computed from the bytes as they were made, not read back."""

    name: str
    size: int
    sha256: str
    path: PurePath


@dataclass(frozen=True)
class PayloadSet:
    """A folder of equally large files on a host; `sha256` by file name, of the bytes as they were made."""

    name: str
    size: int
    sha256: Mapping[str, str]
    path: PurePath


def payload_name(size: int) -> str:
    """`5MiB`, `100KiB`, `1999999B`: the largest binary unit that divides the size."""
    for unit, factor in _UNITS:
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


@functools.cache
def payload_sha256(size: int, seed: int = SEED) -> str:
    digest = hashlib.sha256()
    for block in blocks(size, seed):
        digest.update(block)
    return digest.hexdigest()


def write_payload(host: Host, size: int, *, seed: int = SEED) -> Payload:
    """Make `files/<name>` in the host's workdir, on the host. Raises LabFault when there is no room for it."""
    name = payload_name(size)
    path = host.workdir / "files" / name
    if host.reads_host_files and size <= _MOST_KEPT_BYTES and (kept := _kept(size, seed)):
        host.copy(kept[0], path)
        return Payload(name, size, kept[1], path)
    return Payload(name, size, host.make_payload(path, size, seed)[0], path)


def _kept(size: int, seed: int) -> tuple[Path, str] | None:
    """The payload in the cache, made at its first use, and its sha256; None where the cache cannot be written."""
    path = cache_dir() / "payloads" / f"{payload_name(size)}-{seed}"
    expected = payload_sha256(size, seed)
    with contextlib.suppress(OSError):
        if path.exists() and files.digest(path) == expected:
            return path, expected
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as part:
            write(size, seed, str(part))
        return path, expected
    return None


def write_payload_set(host: Host, size: int, count: int) -> PayloadSet:
    """Make `files/1000x20KiB/` in the host's workdir, by one command there. Raises LabFault when there is no room for it."""
    name = f"{count}x{payload_name(size)}"
    path = host.workdir / "files" / name
    found = host.make_payload(path, size, _SET_SEED, count, SET_NAME)
    return PayloadSet(name, size, {SET_NAME % index: sha256 for index, sha256 in enumerate(found)}, path)
