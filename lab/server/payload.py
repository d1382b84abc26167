"""Payload files: pseudo-random content determined by size and seed, so that both ends can make it without sending it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePath

from lab.backend.host import Host
from lab.errors import LabFault
from lab.server.payload_script import blocks
from lab.server.scripts import script_command

_SCRIPT = Path(__file__).with_name("payload_script.py")
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
SEED = 1


@dataclass(frozen=True)
class Payload:
    """A file on a host. `sha256` is that of the bytes that were meant, computed while they were made."""

    name: str
    size: int
    sha256: str
    path: PurePath


def payload_name(size: int) -> str:
    """`5MiB`, `100KiB`, `1999999B`: the largest binary unit that divides the size."""
    for unit, factor in _UNITS:
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return f"{size}B"


def payload_sha256(size: int, seed: int = SEED) -> str:
    digest = hashlib.sha256()
    for block in blocks(size, seed):
        digest.update(block)
    return digest.hexdigest()


def write_payload(host: Host, size: int, *, seed: int = SEED) -> Payload:
    """Make `files/<name>` in the host's workdir, on the host. Raises LabFault when there is no room for it."""
    name = payload_name(size)
    path = host.workdir / "files" / name
    done = host.run(script_command(_SCRIPT, str(size), str(seed), str(path)), check=False, timeout_s=10 + size / 20e6)
    if done.returncode or done.timed_out:
        raise LabFault(f"{host.name}: the payload {name} could not be written to {path}: {done.error_text}")
    return Payload(name, size, done.text.strip(), path)
