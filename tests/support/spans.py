"""The lab's host watch around a test: what happened to the machine while it ran, in spans short enough that a burst shows.

When a namespace ends, the kernel reaps its processes without adding their CPU time to a parent's (`zap_pid_ns_processes` ignores
SIGCHLD). A test that ends a lab would thus lose the lab's time, and that time would look like another program's. So the family's
time is added up from frequent looks, and only its growth since the last of them is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Self

from lab.judge.host import HostLimits, why_disturbed
from lab.model.results import HostLoad
from lab.net.host_load import HostWatch, Look, load_between, look
from tests.support import reaper

SPAN_S = 5.0
"""A burst of seconds would vanish in the mean of a test that takes minutes."""
LOOK_S = 0.5
"""A look takes some 10 ms; a lab that ends loses at most this span of its CPU time."""
QUIET_S = 1.0
_PROC = Path("/proc")
_ENGINES = {"dockerd", "containerd", "containerd-shim", "conmon"}


def container_engines(proc: Path = _PROC) -> Collection[int]:
    """Processes that run containers. What a test does in containers descends from them, not from the test."""
    found = set()
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "comm").read_text().strip()
            except OSError:
                continue
            if name in _ENGINES:
                found.add(int(entry.name))
    return found


class Spans:
    """A context manager that measures load. Afterwards `loads` has the load of each span, and of all spans together."""

    def __init__(self, roots: Callable[[], Collection[int]] = reaper.roots, span_s: float = SPAN_S) -> None:
        self._roots, self._span_s = roots, span_s
        self._looks: list[Look] = []
        self._last: Look | None = None
        self._own_s = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self.mark()
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._clock.join()
        self.mark()

    def mark(self) -> None:
        """Begin a new span."""
        with self._lock:
            self._looks.append(self._look())

    def _look(self) -> Look:
        """The machine's counters, with all the CPU time that the family has used, ended processes included."""
        seen = look(self._roots)
        if self._last is not None and self._last.lab_s is not None and seen.lab_s is not None:
            self._own_s += max(0.0, seen.lab_s - self._last.lab_s)
        self._last = seen
        return replace(seen, lab_s=None if seen.lab_s is None else self._own_s)

    @property
    def loads(self) -> list[HostLoad]:
        with self._lock:
            looks = sorted(self._looks, key=lambda each: each.at_s)
        pairs = list(pairwise(looks))
        return [load_between(*pair) for pair in (pairs if len(pairs) == 1 else [*pairs, (looks[0], looks[-1])])]

    def why_disturbed(self) -> str | None:
        """By the lab's own limits: the first span that is above them; None where the machine was quiet all the time."""
        return next((why for load in self.loads if (why := why_disturbed(load, HostLimits()))), None)

    def _tick(self) -> None:
        due = time.monotonic() + self._span_s
        while not self._over.wait(min(LOOK_S, self._span_s)):
            if time.monotonic() >= due:
                self.mark()
                due += self._span_s
            else:
                with self._lock:
                    self._look()


def await_quiet(most_s: float) -> None:
    """Wait until nothing has disturbed the machine for a second, at most `most_s`: the next attempt runs anyhow."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        with HostWatch(roots=reaper.roots) as watch:
            time.sleep(QUIET_S)
        if why_disturbed(watch.load, HostLimits()) is None:
            return
