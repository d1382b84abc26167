"""Which processes descend from another: of all processes of a machine only these are a test's business."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


def descendants(pid: int) -> dict[int, str]:
    """All that run: process ids with their start times."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in found and (born := birth(child)):
                found[child] = born
                waiting.append(child)
    return found


def birth(pid: int) -> str:
    """Start time of a process; empty if it is gone or a zombie."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] == "Z" else words[19]


def command(pid: int) -> str:
    """Its command line; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans of what is started meanwhile become children of this process, so that `descendants` finds them."""
    libc = ctypes.CDLL(None)
    before = ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def bury() -> None:
    """Adopted orphans that have ended are forgotten. Only where every other child has been waited for, or still runs."""
    for child in _children(os.getpid()):
        if not birth(child):
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


def _children(pid: int) -> list[int]:
    """Children of all its threads. A thread that has ended between two looks has no children."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a thread may end meanwhile
    except OSError:
        return []
    for thread in threads:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:
            continue
    return found
