"""From the kernel's counters to what happened to the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.net.host_load import (
    HostWatch,
    Look,
    Process,
    family_s,
    lateness_ms,
    load_between,
    look,
    processors,
    quantile,
)
from lab.net.ports import Grid

GRID = Grid(base_ns=1_000_000_000, interval_ns=10_000_000)


def seconds(at: float, *, idle: float | None, lab: float | None, steal: float | None = 0.0, kernel: float | None = 0.0) -> Look:
    return Look(at_s=at, cores=2, idle_s=idle, steal_s=steal, lab_s=lab, kernel_s=kernel)


def test_cores_are_those_that_the_lab_may_use() -> None:
    all_cores = processors(range(os.cpu_count() or 1))
    one = processors({0})
    assert all_cores is not None
    assert one is not None
    assert 0 < one.idle_s <= all_cores.idle_s


def test_without_a_line_for_every_core_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: [])
    assert processors({0}) is None


def test_a_family_is_the_roots_and_all_below_them_each_once() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20, 30: 1}
    processes = [Process(pid, parent, 1 << index) for index, (pid, parent) in enumerate(parents.items())]
    assert family_s(processes, {10}) == 0b0001110
    assert family_s(processes, {10, 12, 20}) == 0b0111110, "12 is below 10"
    assert family_s(processes, {99}) == 0
    assert family_s([Process(5, 6, 1), Process(6, 5, 2)], {5}) == 3, "a circle ends"


def test_a_child_that_has_ended_is_not_lost() -> None:
    lab, child = Process(10, 1, 100), Process(11, 10, 40)
    assert family_s([lab, child], {10}) == family_s([lab._replace(cpu_s=140)], {10})


def test_lateness_is_from_the_first_instant_after_the_reading_before() -> None:
    base, ms = GRID.base_ns, 1_000_000
    on_time = [base, base + 10 * ms, base + 20 * ms]
    assert lateness_ms(on_time, GRID) == [0.0, 0.0]
    late = [base + 1 * ms, base + 13 * ms, base + 47 * ms, base + 50 * ms]
    assert lateness_ms(late, GRID) == [3.0, 27.0, 0.0]
    assert lateness_ms(late[:1], GRID) == []


@given(st.lists(st.integers(0, 60_000_000), min_size=1, max_size=50))
def test_lateness_is_what_the_sampler_was_late_by(delays: list[int]) -> None:
    """The sampler's own rule: sleep to the deadline, read `delay` later, and take the next deadline of the grid."""
    now, times = GRID.base_ns, [GRID.base_ns]
    expected = []
    for delay in delays:
        deadline = GRID.base_ns + ((now - GRID.base_ns) // GRID.interval_ns + 1) * GRID.interval_ns
        now = deadline + delay
        times.append(now)
        expected.append(delay / 1e6)
    assert lateness_ms(times, GRID) == pytest.approx(expected)


def test_a_quantile_is_one_of_the_values() -> None:
    assert quantile(list(range(1, 101)), 0.99) == 99
    assert quantile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert quantile([], 0.99) is None


def test_foreign_is_what_was_busy_and_neither_the_labs_nor_the_kernels() -> None:
    first = seconds(100.0, idle=50.0, lab=7.0, steal=1.0, kernel=3.0)
    last = seconds(110.0, idle=58.0, lab=11.0, steal=1.5, kernel=3.5)
    found = load_between(first, last, [0.1] * 99 + [30.0], frequency_mhz=2600.0, load_1min=1.5)
    assert found.span_s == 10.0
    assert found.foreign_cores == pytest.approx((20 - 8 - 4 - 0.5 - 0.5) / 10)
    assert found.lab_cores == pytest.approx(0.4)
    assert found.steal_share == pytest.approx(0.025)
    assert (found.cores, found.late_p99_ms, found.late_worst_ms) == (2, 0.1, 30.0)
    assert (found.frequency_mhz, found.load_1min) == (2600.0, 1.5)


def test_rounding_never_makes_a_figure_negative() -> None:
    found = load_between(seconds(0.0, idle=10.0, lab=5.0), seconds(1.0, idle=12.01, lab=4.99))
    assert (found.foreign_cores, found.lab_cores) == (0.0, 0.0)


@pytest.mark.parametrize("blind", ["idle", "lab"])
def test_what_cannot_be_known_is_null(blind: str) -> None:
    known: dict[str, float | None] = {"idle": 1.0, "lab": 1.0, blind: None}
    found = load_between(seconds(0.0, idle=known["idle"], lab=known["lab"]), seconds(1.0, idle=known["idle"], lab=known["lab"]))
    assert found.foreign_cores is None
    assert (found.lab_cores is None) == (blind == "lab")
    assert (found.late_p99_ms, found.frequency_mhz, found.load_1min) == (None, None, None)


def test_a_root_that_cannot_be_seen_leaves_open_what_is_foreign() -> None:
    found = look(lambda: [0])
    assert found.lab_s is None
    assert found.idle_s is not None


BURN = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this kernel has no /proc")
def test_what_this_process_starts_is_its_own_though_it_has_ended() -> None:
    with HostWatch() as watch:
        subprocess.run(["sh", "-c", f"'{sys.executable}' -c '{BURN}' & wait"], check=True)
    load = watch.load
    assert load.cores == len(os.sched_getaffinity(0))
    assert load.lab_cores is not None
    assert load.lab_cores * load.span_s > 0.25
    assert load.late_p99_ms is None, "nobody counted"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this kernel has no /proc")
def test_an_orphan_is_not_its_own() -> None:
    """The process was orphaned and has another parent now, so it is not a descendant."""
    starter = subprocess.run(
        ["sh", "-c", f"setsid '{sys.executable}' -c '{BURN}' >/dev/null 2>&1 & echo $!"],
        check=True,
        capture_output=True,
        text=True,
    )
    pid = int(starter.stdout)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        grown = look(lambda: [pid]).lab_s
        ours = look().lab_s
        if grown is not None and ours is not None and grown - ours > 0.05:
            return
    pytest.fail(f"process {pid} was never counted beside this one")
