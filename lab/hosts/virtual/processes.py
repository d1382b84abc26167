"""The machine's processes as this host sees them: its kernel's, and one per program inside."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path


def children(pid: int) -> list[int]:
    """Processes that `pid` has started and not yet reaped."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in path.read_text().split()]
    return found


def state(pid: int) -> str:
    """R, S, D, T, Z (proc(5)); empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def cpu_s(pid: int) -> float:
    """User and system seconds of one process, including its reaped children; 0 for a process that is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK") if len(words) > 15 else 0.0


def tree_cpu_s(pid: int) -> tuple[float, float]:
    """CPU seconds of one process, and of it with those that it has started."""
    own = cpu_s(pid)
    return own, own + sum(cpu_s(child) for child in children(pid))


def end_children(pid: int, but: Collection[int]) -> bool:
    """Kill all programs inside except those; False when there was no other.

    The machine's kernel is stopped meanwhile, so that a program that keeps forking does not escape.
    """
    _tell(pid, signal.SIGSTOP)
    try:
        found = [child for child in children(pid) if child not in but]
        for child in found:
            _tell(child, signal.SIGKILL)
    finally:
        _tell(pid, signal.SIGCONT)
    return bool(found)


def end_busiest_child(pid: int) -> bool:
    """Kill the program in the machine that used most CPU time. To its kernel the program crashed; the machine goes on."""
    found = children(pid)
    if not found:
        return False
    _tell(max(found, key=cpu_s), signal.SIGKILL)
    return True


def _tell(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
