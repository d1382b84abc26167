"""The kernel of virtual time: shipped with the checkout, unpacked into the cache on first use.

Nothing is built or downloaded; images/kernel/build.py builds the shipped kernel. If the cache cannot be written or is on a
file system mounted noexec, `kernel_fd` gives a kernel in memory.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.assets import store
from lab.model import files
from lab.model.errors import LabFault
from lab.model.paths import cache_dir, shipped_root

_PROGRAM = "linux"
# Every first cell unpacks it, in two seconds; images of containers take minutes.
_PART = "kernel"
_CHECK_OUT = "restore it with `git checkout images/kernel`"
# Since Linux 6.3. Without it some machines make memory files that cannot be executed.
_MFD_EXEC = 0x10


@dataclass(frozen=True)
class KernelFacts:
    """The kernel's identity in results. `sha256` is that of the unpacked program."""

    release: str
    sha256: str
    package: str
    package_version: str


def recipe_dir() -> Path:
    """The folder with the recipe, the patches, the digests and the packed kernel."""
    return shipped_root() / "images" / "kernel"


def packed() -> Path:
    """The shipped kernel, compressed."""
    return recipe_dir() / "linux-virtual.xz"


@functools.cache
def facts() -> KernelFacts:
    """The shipped kernel's release, digest and source package. Raises LabFault if digests.json cannot be read."""
    path = recipe_dir() / "digests.json"
    try:
        digests = json.loads(path.read_text())
        shipped, source = digests["shipped"], digests["source"]
        return KernelFacts(shipped["release"], shipped["sha256"], source["package"], source["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabFault(f"cannot read {path}: {error!r}", remedy=_CHECK_OUT) from error


def find() -> Path:
    """The kernel as a program in the cache, unpacked if necessary, its digest verified.

    Raises LabFault if the cache cannot be written or is mounted noexec; `kernel_fd` works even then.
    """
    ready = _cached()
    if ready is None:
        with store.locked(_quiet, _PART) as cache:
            ready = _cached() or _unpack(cache)
    if not os.access(ready, os.X_OK):
        raise LabFault(f"nothing can be executed from {ready.parent} (noexec?)", remedy="set ROUGHWATER_CACHE to another folder")
    return ready


def kernel_fd() -> int:
    """A descriptor of the kernel, to execute as /proc/self/fd/N: of the cached program, else of a copy in memory.

    The caller closes it. A child inherits it only by pass_fds. Raises LabFault if the machine refuses both.
    """
    if (processor := platform.machine()) != "x86_64":
        name = {"aarch64": "arm64"}.get(processor, processor)
        raise LabFault(f"User-Mode Linux has no port to {name}", remedy="use --clock real")
    try:
        return os.open(find(), os.O_RDONLY | os.O_CLOEXEC)
    except (LabFault, OSError) as error:
        if not packed().exists():
            raise
        return _in_memory(error)


def _place() -> Path:
    return cache_dir() / f"kernel-{facts().sha256[:12]}"


def _cached() -> Path | None:
    program = _place() / _PROGRAM
    try:
        return program if files.digest(program) == facts().sha256 else None
    except OSError:
        return None


def _unpack(cache: Path) -> Path:
    with store.staging(cache, _PART) as work:
        staged = work / "kernel"
        staged.mkdir()
        program = staged / _PROGRAM
        program.write_bytes(_program())
        program.chmod(0o755)
        store.write_manifest(staged, {"release": facts().release}, {_PROGRAM: facts().sha256})
        staged.chmod(0o755)
        store.publish(staged, _place())
    return _place() / _PROGRAM


def _program() -> bytes:
    path = packed()
    try:
        program = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise LabFault(f"cannot unpack {path}: {error}", remedy=_CHECK_OUT) from error
    if hashlib.sha256(program).hexdigest() != facts().sha256:
        raise LabFault(f"{path} is not the kernel that digests.json names", remedy=_CHECK_OUT)
    return program


def _in_memory(why: Exception) -> int:
    program = _program()
    with _memory_file(why) as fd:
        view = memoryview(program)
        while view:
            view = view[os.write(fd, view) :]
        # A program that is open for writing cannot be executed (ETXTBSY): a second, read-only descriptor.
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def _memory_file(why: Exception) -> Iterator[int]:
    try:
        try:
            fd = os.memfd_create("linux-virtual", os.MFD_CLOEXEC | _MFD_EXEC)
        except OSError:  # a kernel older than the flag
            fd = os.memfd_create("linux-virtual", os.MFD_CLOEXEC)
    except OSError as error:
        raise LabFault(f"the kernel cannot be unpacked: {why}; nor in memory: {error.strerror}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _quiet(_message: str) -> None:
    """Unpacking takes half a second, too short for a message."""
