"""Machines that are ready: one of each kind is booted and wired, and forked for each use (kernel patch 0015).

A fork costs a twentieth of a boot, and is byte for byte what a machine of its own would be at that instant
(tests/virtual/test_ready.py). The ready machines stand in a system call of their first process, and cost memory alone.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from lab.hosts.virtual.machine import Boot, Machine, Patience

_MOST = 3
"""Ready machines at a time: each has some 70 MB."""

Wired = TypeVar("Wired")


class _Ready(Generic[Wired]):
    """A machine that stands ready, and what was found when it was wired."""

    def __init__(self, boot: Boot, wire: Callable[[Machine], Wired]) -> None:
        self.machine: Machine | None = None
        self.wired: Wired | None = None
        self.forks: list[Machine] = []
        self._failure: BaseException | None = None
        self._is_up, self._over = threading.Event(), threading.Event()
        # A machine ends with the thread that started it: PR_SET_PDEATHSIG (prctl(2)).
        threading.Thread(target=self._hold, args=(boot, wire), name="ready machine", daemon=True).start()

    def _hold(self, boot: Boot, wire: Callable[[Machine], Wired]) -> None:
        try:
            machine = Machine.start(boot, for_forks=True)
            try:
                self.wired = wire(machine)
                machine.serve_forks()
            except BaseException:
                machine.close()
                raise
            machine.core.give_back()
            self.machine = machine
        except BaseException as failure:  # the thread that waits raises it
            self._failure = failure
        self._is_up.set()
        self._over.wait()

    def fork(self, boot: Boot, patience: Patience | None) -> tuple[Machine, Wired]:
        self._is_up.wait()
        if self._failure is not None:
            raise self._failure
        assert self.machine is not None
        assert self.wired is not None
        made = self.machine.fork(boot, patience=patience)
        self.forks = [*(each for each in self.forks if not each.closed), made]
        return made, self.wired

    @property
    def is_used(self) -> bool:
        return not self._is_up.is_set() or not all(each.closed for each in self.forks)

    def close(self) -> None:
        if self.machine is not None:
            self.machine.close()
        self._over.set()


_ready: dict[tuple[int, Hashable], _Ready[Any]] = {}
_lock = threading.Lock()


def take(kind: Hashable, boot: Boot, wire: Callable[[Machine], Wired], patience: Patience | None) -> tuple[Machine, Wired]:
    """A machine of that kind, wired, and what `wire` found. Its clock stands at the same instant each time.

    `kind` has all that `wire` and the boot depend on but the seed. Raises LabFault where it does not boot or is not wired.
    """
    key = (os.getpid(), kind)  # a fork of this process has none of its children
    with _lock:
        found = _ready.pop(key, None) or _Ready(boot, wire)
        _ready[key] = found  # the latest to be used is the last
        for other in [each for each in _ready if each != key][: max(0, len(_ready) - _MOST)]:
            if not _ready[other].is_used:
                _ready.pop(other).close()
    try:
        made, wired = found.fork(boot, patience)
    except Exception:
        with _lock:
            if _ready.get(key) is found:
                del _ready[key]
            if not found.is_used:
                found.close()
        raise
    return made, wired


def close_all() -> None:
    """End those of this process."""
    with _lock:
        for pid, kind in list(_ready):
            if pid == os.getpid():
                _ready.pop((pid, kind)).close()


atexit.register(close_all)
