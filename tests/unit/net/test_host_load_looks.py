"""What happened to the machine between two looks, from counters that a test sets."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from lab.net import host_load
from lab.net.host_load import HostWatch, Look, Process, frequency_mhz, load_between, look, processes, processors, watch_idle
from lab.net.ports import Grid

MS = 1_000_000


def at(seconds: float, **more: float | None) -> Look:
    return Look(at_s=seconds, **{"cores": 2, "idle_s": 10.0, "steal_s": 1.0, "lab_s": 5.0, "kernel_s": 0.5, **more})  # type: ignore[arg-type]


def test_each_figure_is_its_counters_growth_over_the_time() -> None:
    found = load_between(at(0), at(4, idle_s=14.0, steal_s=1.8, lab_s=6.2, kernel_s=0.7), [3.0, 1.0, 2.0])
    assert found.span_s == 4
    assert found.steal_share == pytest.approx(0.8 / 8)
    assert found.lab_cores == pytest.approx(0.3)
    assert found.foreign_cores == pytest.approx((8 - 4 - 0.8 - 1.2 - 0.2) / 4)
    assert (found.cores, found.late_p99_ms, found.late_worst_ms) == (2, 3.0, 3.0)


def test_a_share_is_at_most_all_and_a_time_never_nothing() -> None:
    found = load_between(at(1), at(1, steal_s=9.0))
    assert found.span_s == 1e-6
    assert found.steal_share == 1.0
    assert load_between(at(0), at(1)).foreign_cores == 2.0, "nobody says what ran"
    assert load_between(at(0), at(1, idle_s=19.0)).foreign_cores == 0.0


def test_what_the_kernel_does_not_say_is_not_known() -> None:
    last = {"idle_s": 10.5, "steal_s": 1.2, "lab_s": 5.1, "kernel_s": 0.6}
    assert load_between(at(0), at(1, **{**last, "steal_s": None})).steal_share is None
    assert load_between(at(0), at(1, **{**last, "steal_s": None})).foreign_cores is None
    assert load_between(at(0), at(1, **{**last, "lab_s": None})).lab_cores is None
    without = load_between(at(0), at(1, **{**last, "kernel_s": None}))
    assert without.foreign_cores == pytest.approx(2 - 0.5 - 0.2 - 0.1), "threads of the kernel are then some of the others"
    assert (without.late_p99_ms, without.late_worst_ms) == (None, None)


def test_cpu_seconds_are_a_processs_own_and_its_ended_childrens(monkeypatch: pytest.MonkeyPatch) -> None:
    times = (1.0, 2.0, 4.0, 8.0, 16.0)  # user, system, children's user and system, waiting for a disk

    def process_iter(wanted: list[str]) -> list[Any]:
        assert wanted == ["ppid", "cpu_times"]
        return [
            SimpleNamespace(pid=7, info={"ppid": 1, "cpu_times": times}),
            SimpleNamespace(pid=8, info={"ppid": 7, "cpu_times": None}),
        ]

    monkeypatch.setattr(psutil, "process_iter", process_iter)
    assert processes() == [Process(7, 1, 15.0)], "one that has ended has no times"


def test_processors_are_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SimpleNamespace(idle=10.0 * n, iowait=1.0 * n, steal=0.1 * n) for n in (1, 2, 4)]

    def cpu_times(*, percpu: bool) -> list[Any]:
        assert percpu
        return rows

    monkeypatch.setattr(psutil, "cpu_times", cpu_times)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_NPROCESSORS_CONF": 3}[name])
    found = processors({0, 2})
    assert found
    assert (found.idle_s, found.steal_s) == (pytest.approx(55.0), pytest.approx(0.5))
    monkeypatch.setattr(os, "sysconf", lambda _: 4)
    assert processors({0}) is None, "a core is offline"


@pytest.fixture(name="machine")
def two_cores(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine whose processes, processors and time are set."""
    made = SimpleNamespace(processes=[], processors=host_load.Processors(10.0, 1.0), now=5.0, second="kthreadd")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "getpid", lambda: 100)
    monkeypatch.setattr(host_load, "processes", lambda: made.processes)
    monkeypatch.setattr(host_load, "processors", lambda _: made.processors)
    monkeypatch.setattr(
        host_load, "time", SimpleNamespace(monotonic=lambda: made.now, sleep=lambda s: setattr(made, "now", made.now + s))
    )

    def process(pid: int) -> Any:
        assert pid == 2
        if not made.second:
            raise psutil.NoSuchProcess(2)
        return SimpleNamespace(name=lambda: made.second)

    monkeypatch.setattr(psutil, "Process", process)
    made.processes = [Process(2, 0, 0.25), Process(3, 2, 0.5), Process(100, 1, 1.0), Process(101, 100, 2.0), Process(200, 1, 4.0)]
    return made


def test_a_look_knows_the_labs_processes_from_the_kernels_and_the_others(machine: SimpleNamespace) -> None:
    assert look() == Look(at_s=5.0, cores=2, idle_s=10.0, steal_s=1.0, lab_s=3.0, kernel_s=0.75)
    assert look(lambda: [200]).lab_s == 7.0
    machine.second = "bash"
    assert look().kernel_s == 0.0, "in a PID namespace 2 is any process"
    machine.second = ""
    assert look().kernel_s == 0.0


def test_what_cannot_be_seen_has_no_figure(machine: SimpleNamespace) -> None:
    found = look(lambda: [0])
    assert (found.idle_s, found.lab_s, found.kernel_s) == (10.0, None, None)
    machine.processors = None
    found = look()
    assert (found.idle_s, found.steal_s, found.lab_s) == (None, None, 3.0)


class Ports:
    """A sampler: the instants of its readings, in ms."""

    def __init__(self, *times_ms: float, grid: bool = True) -> None:
        self.times = list(times_ms)
        self.grid = Grid(0, 10 * MS) if grid else None

    def rows(self) -> list[Any]:
        return [SimpleNamespace(t_ns=round(each * MS)) for each in self.times]


def test_a_watch_is_the_load_of_its_block_with_the_lateness_of_its_readings(machine: SimpleNamespace) -> None:
    ports: Any = Ports(0, 17, 20)
    with HostWatch(ports) as watch:
        with pytest.raises(AssertionError, match="still watching"):
            _ = watch.load
        machine.now = 15.0
        machine.processors = host_load.Processors(20.0, 3.0)
        machine.processes[3] = Process(101, 100, 5.0)
        ports.times += [33, 40.5]
    assert watch.load.span_s == 10
    assert watch.load.lab_cores == pytest.approx(0.3)
    assert watch.load.steal_share == pytest.approx(0.1)
    assert watch.load.late_worst_ms == pytest.approx(3.0), "not the 7 ms of before"
    assert watch.load.load_1min is not None


def test_without_readings_nothing_was_late(machine: SimpleNamespace) -> None:
    for ports in (None, Ports(0, 17, grid=False)):
        given: Any = ports
        with HostWatch(given) as watch:
            machine.now += 1
        assert watch.load.late_worst_ms is None
    first: Any = Ports()
    with HostWatch(first) as watch:
        first.times += [0, 14]
    assert watch.load.late_worst_ms == pytest.approx(4.0), "all of them where none was there before"


@pytest.mark.usefixtures("machine")
def test_a_block_that_fails_has_no_load() -> None:
    watch = HostWatch()
    with pytest.raises(KeyError), watch:
        raise KeyError
    with pytest.raises(AssertionError):
        _ = watch.load


def test_an_idle_machine_is_watched_for_the_time_that_is_asked(machine: SimpleNamespace) -> None:
    ports: Any = Ports(0)
    found = watch_idle(ports, 2.5, lambda: [200])
    assert found.span_s == 2.5
    assert machine.now == 7.5


@pytest.mark.parametrize(("said", "mhz"), [(None, None), (SimpleNamespace(current=2600.0), 2600.0)])
def test_the_frequency_is_the_kernels(monkeypatch: pytest.MonkeyPatch, said: Any, mhz: float | None) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", lambda: said)
    assert frequency_mhz() == mhz
