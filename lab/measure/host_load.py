"""What befalls the machine while something runs: steal, CPU of other processes, lateness of timers, frequency.

Busy is what a core was not idle, not waiting for a disk, and not taken by the hypervisor. It is not the sum of /proc/stat's user
and system: where the kernel counts those by the tick, work that begins and ends between two ticks (a router's, on every packet)
is counted too little, while idle time and a process's own sum are exact (proc_stat(5); `get_cpu_idle_time_us` and
`cputime_adjust` in the kernel). Measured on a quiet two-core machine with 700 Mbit/s through the router: 1.33 cores busy, 1.25
the lab's, and 0.88 by the tick.

The lab's own are this process and all that descend from it (the agent of a namespaces lab is the first process of a namespace:
what is orphaned in there falls to it), the first processes of its containers and theirs, and, told to, other labs beside it. A
process that has ended is in its parent's sum, so nothing is lost between two looks. Kernel threads are nobody's: they work for
whoever sends packets, which here is the lab.

A look costs some 3 ms for a hundred processes, before and after what is watched and not meanwhile. Lateness comes from the
sampler that reads the router's ports every 10 ms anyhow, a small process of its own.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from lab.measure.ports import Grid, PortSampler
from lab.result.models import HostLoad

_PROC = Path("/proc")
_FREQUENCIES = Path("/sys/devices/system/cpu")
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in a process's flags (include/linux/sched.h)."""
_LATE_SHARE = 0.99


class Process(NamedTuple):
    """One line of /proc/PID/stat; `ticks` are its own user and system time and those of children it has waited for."""

    pid: int
    parent: int
    ticks: int
    kernel: bool


class Processors(NamedTuple):
    """Ticks since boot, summed over the cores asked for; `idle` has the time spent waiting for a disk too."""

    idle: int
    steal: int
    cores: int


@dataclass(frozen=True)
class Look:
    """What the machine had counted at one instant, in seconds; None where it cannot be known here."""

    at_s: float
    cores: int
    idle_s: float | None
    steal_s: float | None
    lab_s: float | None
    kernel_s: float | None


def parse_process(text: str) -> Process | None:
    """None where the text is none; a command may have any character in its name, hence the last bracket (proc_pid_stat(5))."""
    head, _, tail = text.rpartition(")")
    pid, words = head.partition(" ")[0], tail.split()
    if not pid.isdigit() or len(words) < 15:
        return None
    return Process(int(pid), int(words[1]), sum(map(int, words[11:15])), bool(int(words[6]) & _KERNEL_THREAD))


def parse_processors(stat: str, cores: Collection[int]) -> Processors | None:
    """From /proc/stat; None where it has not a line for every one of `cores`, or no steal in them (before Linux 2.6.11)."""
    rows = {int(found[1]): found[2].split() for found in re.finditer(r"^cpu(\d+) (.*)$", stat, re.M)}
    mine = [[int(word) for word in rows[core]] for core in cores if len(rows.get(core, ())) >= 8]
    if not mine or len(mine) < len(cores):
        return None
    return Processors(idle=sum(row[3] + row[4] for row in mine), steal=sum(row[7] for row in mine), cores=len(mine))


def family_ticks(processes: Iterable[Process], roots: Collection[int]) -> int:
    """Of the roots and all that descend from them, each counted once."""
    by_parent: dict[int, list[Process]] = {}
    todo: list[Process] = []
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
        if process.pid in roots:
            todo.append(process)
    total, seen = 0, set[int]()
    while todo:
        process = todo.pop()
        if process.pid not in seen:
            seen.add(process.pid)
            total += process.ticks
            todo += by_parent.get(process.pid, ())
    return total


def lateness_ms(times_ns: Sequence[int], grid: Grid) -> list[float]:
    """How late each reading but the first was: from the grid's first instant after the reading before it."""
    step = grid.interval_ns

    def due(after_ns: int) -> int:
        return grid.base_ns + ((after_ns - grid.base_ns) // step + 1) * step

    return [max(0, later - due(earlier)) / 1e6 for earlier, later in pairwise(times_ns)]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of all are not above; None without values."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else None


def load_between(
    first: Look, last: Look, late_ms: Sequence[float] = (), *, frequency_mhz: float | None = None, load_1min: float | None = None
) -> HostLoad:
    """What befell the machine between two looks. Rounding of the counters never makes a figure negative."""
    span_s = max(last.at_s - first.at_s, 1e-6)
    idle, steal, own, kernel = (
        _grown(getattr(first, name), getattr(last, name)) for name in ("idle_s", "steal_s", "lab_s", "kernel_s")
    )
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
    """This process and its descendants are all there is of the lab."""
    return ()


def look(roots: Callable[[], Collection[int]] = no_others, proc: Path = _PROC) -> Look:
    """Read the machine's counters now.

    `roots` are more first processes that are the lab's; a 0 among them is one that cannot be seen from here, and then nobody can
    say what is foreign.
    """
    cores = os.sched_getaffinity(0)
    own = {os.getpid(), *roots()}
    processes = [] if 0 in own else _processes(proc)
    processors = parse_processors(_text(proc / "stat"), cores)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return Look(
        at_s=time.monotonic(),
        cores=len(cores),
        idle_s=processors.idle * tick_s if processors else None,
        steal_s=processors.steal * tick_s if processors else None,
        lab_s=family_ticks(processes, own) * tick_s if processes else None,
        kernel_s=sum(process.ticks for process in processes if process.kernel) * tick_s if processes else None,
    )


def frequency_mhz(proc: Path = _PROC, system: Path = _FREQUENCIES) -> float | None:
    """Mean over the cores; None where the kernel does not tell (many virtual machines tell a constant)."""
    hertz = [float(text) * 1e3 for path in system.glob("cpu[0-9]*/cpufreq/scaling_cur_freq") if (text := _text(path).strip())]
    found = [each / 1e6 for each in hertz] or [
        float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)$", _text(proc / "cpuinfo"), re.M)
    ]
    return sum(found) / len(found) if found else None


class HostWatch:
    """Use as a context manager around what is to be watched; then `load` says what befell the machine.

    With `ports`, a running sampler, it has the lateness of timers too.
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
        load = _text(_PROC / "loadavg").split()
        self._load = load_between(
            first,
            last,
            self._lateness(),
            frequency_mhz=frequency_mhz(),
            load_1min=float(load[0]) if load else None,
        )

    def _lateness(self) -> list[float]:
        """Of the readings that came meanwhile: by their number, because their clock may be another machine's."""
        if self._ports is None:
            return []
        rows = self._ports.rows()[max(0, self._rows - 1) :]
        return lateness_ms([row.t_ns for row in rows], self._ports.grid) if self._ports.grid else []


def watch_idle(ports: PortSampler, span_s: float, roots: Callable[[], Collection[int]] = no_others) -> HostLoad:
    """The machine for `span_s` seconds in which the lab does nothing but count."""
    with HostWatch(ports, roots) as watch:
        time.sleep(span_s)
    return watch.load


def _processes(proc: Path) -> list[Process]:
    """All that can be seen; one that ends meanwhile is in its parent's sum, or soon will be."""
    names = [name for name in os.listdir(proc) if name.isdigit()] if proc.is_dir() else []  # noqa: PTH208 - half the time
    found = (parse_process(_text(f"{proc}/{name}/stat")) for name in names)
    return [process for process in found if process is not None]


def _text(path: Path | str) -> str:
    """Empty where there is none: another kernel, a process that has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - of a hundred processes the layers above it cost more than it
            return file.read().decode(errors="replace")
    except OSError:
        return ""
