"""One measurement at a time on a machine: a file that whoever measures holds locked (flock(2)).

The kernel lets go of it with the process that held it, however that ended, and tells who holds it (/proc/locks): nothing is
written into the file, so nothing in it can be out of date. It is the `lab` command that takes it; a Session does not, so that a
program that wants two of them side by side may have them.

Alone is exclusive. Measurements that are meant to run beside each other (`--beside`) share it: each of them has to say so,
because one that counts on being alone would be disturbed. To the host watch of one that shares, the others' processes are no
foreign ones.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from lab.errors import UsageProblem
from lab.paths import lock_path

_LOOK_S = 0.2
_COMMAND_CHARACTERS = 80


@contextmanager
def measuring(wait_s: float, say: Callable[[str], None], *, beside: bool = False, path: Path | None = None) -> Iterator[None]:
    """Hold the machine for the time of the block; another that measures is waited for, told in one line by `say`.

    Raises UsageProblem when it still measures after `wait_s` seconds, and where no lock can be had.
    """
    place = path or lock_path()
    kind = fcntl.LOCK_SH if beside else fcntl.LOCK_EX
    deadline = time.monotonic() + wait_s
    told = False
    while (held := _take(place, kind)) is None:
        others = "; ".join(map(describe, holders(place))) or "somebody who cannot be seen from here"
        if time.monotonic() >= deadline:
            raise UsageProblem(
                f"this machine is measuring already: {others}",
                remedy="wait for it with --wait TIME, or run both with --beside",
            )
        if not told:
            say(f"waiting, at most {_span(wait_s)}, for another measurement on this machine: {others}")
            told = True
        time.sleep(_LOOK_S)
    try:
        yield
    finally:
        os.close(held)


def holders(path: Path | None = None, proc: Path = Path("/proc")) -> list[int]:
    """The processes that hold the machine, as far as they can be seen from here."""
    try:
        file = (path or lock_path()).lstat()
        text = (proc / "locks").read_text()
    except OSError:
        return []
    return parse_holders(text, file.st_dev, file.st_ino)


def parse_holders(text: str, device: int, inode: int) -> list[int]:
    """From /proc/locks (proc_locks(5)), not those that wait for it ("->").

    Some file systems (overlay, btrfs) have another device number there than stat(2) tells: then the inode decides.
    """
    rows = re.findall(r"^\d+: FLOCK +\S+ +\S+ (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ", text, re.M)
    same = [(int(pid), (int(major, 16), int(minor, 16))) for pid, major, minor, number in rows if int(number) == inode]
    here = [pid for pid, place in same if place == (os.major(device), os.minor(device))]
    return sorted(set(here or [pid for pid, _ in same]))


def describe(pid: int, proc: Path = Path("/proc")) -> str:
    """Which command a process is and since when, on one line."""
    folder = proc / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        since = f", since {datetime.fromtimestamp(_started_s(folder, proc)).astimezone():%H:%M:%S}"
    except (OSError, ValueError, IndexError):
        return f"process {pid}"
    # Where an interpreter and its script are installed tells nothing, and takes the line.
    words = [*(Path(word).name for word in words[:2]), *words[2:]]
    text = " ".join(word if word.isprintable() else "?" for word in words if word)
    return f"process {pid} ({text[:_COMMAND_CHARACTERS]}){since}"


def _started_s(folder: Path, proc: Path) -> float:
    booted = re.search(r"^btime (\d+)$", (proc / "stat").read_text(), re.M)
    ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
    return int(booted[1] if booted else 0) + ticks / os.sysconf("SC_CLK_TCK")


def _take(place: Path, kind: int) -> int | None:
    """A descriptor that holds it, or None where somebody else does."""
    held = _open(place)
    try:
        fcntl.flock(held, kind | fcntl.LOCK_NB)
        # Somebody who cleans folders up may have taken the name away meanwhile: the next one would lock another file.
        if os.path.samestat(os.fstat(held), place.lstat()):
            return held
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def _open(place: Path) -> int:
    """For reading is enough to lock it, so nobody needs to be able to write it. Not what lies there in a file's place."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    remedy = "name another file by THROUGHLINE_LOCK"
    try:
        try:
            found = os.open(place, flags)
        except FileNotFoundError:
            try:
                found = os.open(place, flags | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(found, 0o644)
            except FileExistsError:
                found = os.open(place, flags)
    except OSError as error:
        raise UsageProblem(f"{place}, by which measurements take turns: {error.strerror}", remedy=remedy) from None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise UsageProblem(f"{place}, by which measurements take turns, is no file", remedy=remedy)
    return found


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"
