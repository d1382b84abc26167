"""One measurement at a time on a machine: a measurement holds a file locked (flock(2)).

The kernel releases the lock when the process ends, however it ends, and lists the holders in /proc/locks. The file stays empty,
so its content cannot be out of date. The `lab` command takes the lock; a Session does not, so a program may run two at once.

By default the lock is exclusive. Measurements with `--beside` share it; each of them must ask for that, because a measurement
that expects to be alone would be disturbed. When the lock is shared, the host watch does not count the other labs' processes as
foreign load.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from lab.model.errors import UsageProblem
from lab.model.paths import lock_path

_LOOK_S = 0.2
_COMMAND_CHARACTERS = 80


class MachineLock:
    """The machine's lock, taken when a session first brings a network up in real time, and kept until the command ends.

    With `at_once` it is taken on entry. Virtual time needs no lock: nothing that runs meanwhile changes what is measured there.
    """

    def __init__(self, wait_s: float, *, beside: bool, at_once: bool = False) -> None:
        self.beside = beside
        self._wait_s = wait_s
        self._at_once = at_once
        self._held = ExitStack()
        self._mutex = Lock()
        self._taken = False

    def __enter__(self) -> Self:
        if self._at_once:
            self._take()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._held.close()

    @contextmanager
    def take(self) -> Iterator[None]:
        """Raises UsageProblem as `measuring`."""
        self._take()
        yield

    def _take(self) -> None:
        with self._mutex:
            if not self._taken:
                self._held.enter_context(measuring(self._wait_s, _on_stderr, beside=self.beside))
                self._taken = True


def _on_stderr(text: str) -> None:
    print(f"lab: {text}", file=sys.__stderr__ or sys.stderr, flush=True)


@contextmanager
def measuring(wait_s: float, say: Callable[[str], None], *, beside: bool = False, path: Path | None = None) -> Iterator[None]:
    """Hold the machine's lock during the block. Waits for another measurement, and announces that in one line through `say`.

    Raises UsageProblem if the other still measures after `wait_s` seconds, or if the lock cannot be taken.
    """
    place = path or lock_path()
    kind = fcntl.LOCK_SH if beside else fcntl.LOCK_EX
    deadline = time.monotonic() + wait_s
    told = False
    while (held := _take(place, kind)) is None:
        others = "; ".join(map(describe, holders(place))) or "a process that this user cannot see"
        if time.monotonic() >= deadline:
            raise UsageProblem(
                f"this machine is measuring already: {others}",
                remedy="wait for it with --wait TIME, or give both the option --beside",
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
    """The command of a process and the time of its start, on one line."""
    folder = proc / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        since = f", since {datetime.fromtimestamp(_started_s(folder, proc)).astimezone():%H:%M:%S}"
    except (OSError, ValueError, IndexError):
        return f"process {pid}"
    # The folders of an interpreter and of its script are of no use, and would fill the line.
    words = [*(Path(word).name for word in words[:2]), *words[2:]]
    text = " ".join(word if word.isprintable() else "?" for word in words if word)
    return f"process {pid} ({text[:_COMMAND_CHARACTERS]}){since}"


def _started_s(folder: Path, proc: Path) -> float:
    booted = re.search(r"^btime (\d+)$", (proc / "stat").read_text(), re.M)
    ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
    return int(booted[1] if booted else 0) + ticks / os.sysconf("SC_CLK_TCK")


def _take(place: Path, kind: int) -> int | None:
    """A descriptor that holds the lock, or None if another process does."""
    held = _open(place)
    try:
        fcntl.flock(held, kind | fcntl.LOCK_NB)
        # A clean-up may have removed the name meanwhile: the next process would lock another file.
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
    """Open the file for reading, which is enough to lock it, so other users need no write access. Refuses anything but a file."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    remedy = "name another file by ROUGHWATER_LOCK"
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
        raise UsageProblem(f"{place}, the lock between measurements: {error.strerror}", remedy=remedy) from None
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise UsageProblem(f"{place}, the lock between measurements, is not a regular file", remedy=remedy)
    return found


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"
