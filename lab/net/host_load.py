"""The load of the machine while something runs: steal, CPU of other processes, lateness of timers, frequency.

A core is busy while it is not idle, not waiting for a disk, and not taken by the hypervisor. Busy time is not the sum of user and
system time: where the kernel counts those by the tick, work that begins and ends between two ticks (a router's, on every packet)
is counted too little, while idle time and a process's own sum are exact (proc_stat(5); `get_cpu_idle_time_us` and
`cputime_adjust` in the kernel). Measured on a quiet two-core machine with 700 Mbit/s through the router: 1.33 cores busy, 1.25
the lab's, and 0.88 by the tick.

The lab's own processes are this one and its descendants (the agent of a namespaces lab is the first process of a namespace and
adopts its orphans), the first processes of its containers and their descendants, and other labs where the caller names them. A
process that has ended is in its parent's sum, so nothing is lost between two looks. Kernel threads belong to neither side: they
work for the process that sends packets, which is the lab.

A look costs some 10 ms for a hundred processes, before and after the watched time and not during it. Lateness comes from the
sampler that reads the router's ports every 10 ms anyway, a small process of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

import psutil

from lab.judge.quantile import quantile
from lab.model.results import HostLoad
from lab.net.ports import Grid, PortSampler

_KERNEL_ROOT = 2
"""kthreadd, the parent of every kernel thread, where it is in sight."""
_LATE_SHARE = 0.99


class Process(NamedTuple):
    """`cpu_s` is its own user and system time and its waited-for children's."""

    pid: int
    parent: int
    cpu_s: float


class Processors(NamedTuple):
    """Seconds since boot, summed over the cores asked for; `idle_s` includes the time spent waiting for a disk."""

    idle_s: float
    steal_s: float


@dataclass(frozen=True)
class Look:
    """Counters of the machine at one instant, in seconds; None where the kernel does not report them."""

    at_s: float
    cores: int
    idle_s: float | None
    steal_s: float | None
    lab_s: float | None
    kernel_s: float | None


def family_s(processes: Iterable[Process], roots: Collection[int]) -> float:
    """CPU seconds of the roots and all their descendants, each counted once."""
    by_parent: dict[int, list[Process]] = {}
    todo: list[Process] = []
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid in roots:
            todo.append(process)
    total, seen = 0.0, set[int]()
    while todo:
        process = todo.pop()
        if process.pid not in seen:
            seen.add(process.pid)
            total += process.cpu_s
            todo += by_parent.get(process.pid, ())
    return total


def lateness_ms(times_ns: Sequence[int], grid: Grid) -> list[float]:
    """The lateness of each reading but the first: from the grid's first instant after the reading before it."""
    step = grid.interval_ns

    def due(after_ns: int) -> int:
        return grid.base_ns + ((after_ns - grid.base_ns) // step + 1) * step

    return [max(0, later - due(earlier)) / 1e6 for earlier, later in pairwise(times_ns)]


def load_between(
    first: Look, last: Look, late_ms: Sequence[float] = (), *, frequency_mhz: float | None = None, load_1min: float | None = None
) -> HostLoad:
    """The machine's load between two looks. Rounding of the counters never makes a figure negative."""
    span_s = max(last.at_s - first.at_s, 1e-6)
    idle, steal = _grown(first.idle_s, last.idle_s), _grown(first.steal_s, last.steal_s)
    own, kernel = _grown(first.lab_s, last.lab_s), _grown(first.kernel_s, last.kernel_s)
    foreign = None
    if idle is not None and steal is not None and own is not None:
        foreign = max(0.0, (first.cores * span_s - idle - steal - own - (kernel or 0.0)) / span_s)
    return HostLoad(
        span_s=span_s,
        steal_share=None if steal is None else min(1.0, steal / (first.cores * span_s)),
        foreign_cores=foreign,
        lab_cores=None if own is None else own / span_s,
        cores=first.cores,
        late_p99_ms=quantile(late_ms, _LATE_SHARE),
        late_worst_ms=max(late_ms, default=None),
        frequency_mhz=frequency_mhz,
        load_1min=load_1min,
    )


def _grown(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else max(0.0, last - first)


def no_others() -> Collection[int]:
    """The lab has only this process and its descendants."""
    return ()


def look(roots: Callable[[], Collection[int]] = no_others) -> Look:
    """Read the machine's counters now.

    `roots` are further first processes of the lab; a 0 among them cannot be seen from here, so that what is foreign is unknown.
    """
    cores = os.sched_getaffinity(0)
    own = {os.getpid(), *roots()}
    found = [] if 0 in own else processes()
    counted = processors(cores)
    return Look(
        at_s=time.monotonic(),
        cores=len(cores),
        idle_s=counted.idle_s if counted else None,
        steal_s=counted.steal_s if counted else None,
        lab_s=family_s(found, own) if found else None,
        kernel_s=family_s(found, _kernel_roots()) if found else None,
    )


def processes() -> list[Process]:
    """All that can be seen; a process that ends meanwhile is in its parent's sum, or soon will be."""
    found = psutil.process_iter(["ppid", "cpu_times"])
    return [Process(each.pid, each.info["ppid"], sum(each.info["cpu_times"][:4])) for each in found if each.info["cpu_times"]]


def processors(cores: Collection[int]) -> Processors | None:
    """None where a core is offline, because the kernel's list then has other numbers than the cores."""
    rows = psutil.cpu_times(percpu=True)
    if len(rows) != os.sysconf("SC_NPROCESSORS_CONF"):
        return None
    mine = [rows[core] for core in cores]
    return Processors(idle_s=sum(row.idle + row.iowait for row in mine), steal_s=sum(row.steal for row in mine))


def _kernel_roots() -> list[int]:
    """None in a PID namespace, where 2 is any process."""
    try:
        return [_KERNEL_ROOT] if psutil.Process(_KERNEL_ROOT).name() == "kthreadd" else []
    except psutil.Error:
        return []


def frequency_mhz() -> float | None:
    """Mean over the cores; None where the kernel does not report it (many virtual machines report a constant)."""
    found = psutil.cpu_freq()
    return found.current if found else None


class HostWatch:
    """Use as a context manager around what is to be watched; then `load` is what happened to the machine.

    With `ports`, a running sampler, it includes the lateness of timers.
    """

    def __init__(self, ports: PortSampler | None = None, roots: Callable[[], Collection[int]] = no_others) -> None:
        self._ports, self._roots = ports, roots
        self._first: Look | None = None
        self._rows = 0
        self._load: HostLoad | None = None

    @property
    def load(self) -> HostLoad:
        assert self._load is not None, "still watching"
        return self._load

    def __enter__(self) -> Self:
        self._rows = len(self._ports.rows()) if self._ports else 0
        self._first = look(self._roots)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None or self._first is None:
            return
        first, last = self._first, look(self._roots)
        self._load = load_between(
            first,
            last,
            self._lateness(),
            frequency_mhz=frequency_mhz(),
            load_1min=os.getloadavg()[0],
        )

    def _lateness(self) -> list[float]:
        """The readings that came meanwhile are found by number, because their clock may be another machine's."""
        if self._ports is None:
            return []
        rows = self._ports.rows()[max(0, self._rows - 1) :]
        return lateness_ms([row.t_ns for row in rows], self._ports.grid) if self._ports.grid else []


def watch_idle(ports: PortSampler, span_s: float, roots: Callable[[], Collection[int]] = no_others) -> HostLoad:
    """The machine's load over `span_s` seconds in which the lab only counts."""
    with HostWatch(ports, roots) as watch:
        time.sleep(span_s)
    return watch.load
