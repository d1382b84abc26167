"""The time limit of a caller: `timeout DURATION lab ...`. It ends a command by SIGTERM, as a person or a scheduler may, too.

A signal says neither who sent it nor why. A limit that has passed does: coreutils' `timeout` is an ancestor, and its command line
has the duration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_PROC = Path("/proc")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_VALUED = ("-k", "--kill-after", "-s", "--signal")
_MOST_ANCESTORS = 64
_EARLY_S = 0.1
"""The kernel counts a process's start in hundredths of a second."""


def callers_limit(process: int | None = None, proc: Path = _PROC) -> float | None:
    """When the first of the callers' limits passes, in seconds since boot; None without one."""
    return min((limit for each in _ancestors(process or os.getpid(), proc) if (limit := _limit(each)) is not None), default=None)


def has_passed(limit: float | None) -> bool:
    return limit is not None and time.clock_gettime(time.CLOCK_BOOTTIME) >= limit - _EARLY_S


def _ancestors(process: int, proc: Path) -> Iterator[Path]:
    """Folders of /proc, from the parent on."""
    for _ in range(_MOST_ANCESTORS):
        try:
            process = int(_stat(proc / str(process))[1])
        except (OSError, ValueError, IndexError):
            return
        if process == 0:
            return
        yield proc / str(process)


def _limit(ancestor: Path) -> float | None:
    try:
        words = (ancestor / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        if not words or Path(words[0]).name != "timeout" or (lasts_s := duration_s(words[1:])) is None:
            return None
        return int(_stat(ancestor)[19]) / os.sysconf("SC_CLK_TCK") + lasts_s
    except (OSError, ValueError, IndexError):
        return None


def duration_s(words: Sequence[str]) -> float | None:
    """The limit in the arguments of `timeout`; None without one."""
    left = list(words)
    while left and left[0].startswith("-"):
        option = left.pop(0)
        if option in _VALUED and left:
            left.pop(0)
    if not left:
        return None
    number, unit = (left[0][:-1], left[0][-1]) if left[0][-1:] in _UNITS else (left[0], "s")
    try:
        return float(number) * _UNITS[unit] or None
    except ValueError:
        return None


def _stat(process: Path) -> list[str]:
    """The fields of /proc/PID/stat from the third on: the second is a name, which may have blanks and brackets."""
    return (process / "stat").read_text().rpartition(")")[2].split()
