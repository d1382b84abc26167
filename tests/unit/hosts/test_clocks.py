"""Whose time it is: the real clock, and an executor that keeps the order of a program."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.hosts.clocks import REAL, InOrder, InRealTime, workers
from lab.hosts.virtual.host import VirtualClock


class Machine:
    """A machine whose clock stands still; it records how long it was asked to sleep."""

    now_ns = 1_500_000_000
    asked: tuple[object, ...] = ()

    def ask(self, message: dict[str, object]) -> None:
        self.asked += (message,)


def virtual() -> tuple[VirtualClock, Machine]:
    machine = Machine()
    return VirtualClock(machine), machine  # type: ignore[arg-type]


def test_the_real_clock_is_this_machines() -> None:
    before = time.monotonic_ns()
    assert before <= REAL.monotonic_ns() <= time.monotonic_ns()
    assert REAL.now().utcoffset() is not None
    assert REAL.kind == "real"


def test_the_virtual_clock_is_the_machines_and_sleeps_there() -> None:
    clock, machine = virtual()
    assert clock.monotonic_ns() == 1_500_000_000
    assert clock.now().isoformat() == "2027-01-01T00:00:01.500000+00:00"
    clock.sleep(2.0)
    clock.sleep(0.0)
    clock.sleep(-1.0)
    assert machine.asked == ({"op": "sleep", "seconds": 2.0},)


def test_networks_in_real_time_have_no_seed() -> None:
    network = InRealTime()
    assert network.virtual_facts is None
    assert len(network.random_bytes(20)) == 20
    assert network.random_bytes(20) != network.random_bytes(20)
    network.vary(1)


def test_calls_run_at_once_one_after_another_in_the_callers_thread() -> None:
    seen: list[tuple[int, int]] = []

    def note(number: int) -> int:
        seen.append((number, threading.get_ident()))
        return number * number

    with InOrder() as pool:
        first = pool.submit(note, 1)
        assert first.done()
        assert list(pool.map(note, [2, 3])) == [4, 9]
    assert first.result() == 1
    assert seen == [(number, threading.get_ident()) for number in (1, 2, 3)]


def test_what_a_call_raises_is_raised_where_its_result_is_wanted() -> None:
    with InOrder() as pool:
        future = pool.submit(int, "x")
        assert isinstance(future.exception(), ValueError)
        with pytest.raises(ValueError, match="invalid literal"):
            future.result()


def test_commands_overlap_in_real_time_and_not_in_virtual_time() -> None:
    with workers(REAL, 2) as pool:
        assert isinstance(pool, ThreadPoolExecutor)
    with workers(virtual()[0], 2) as pool:
        assert isinstance(pool, InOrder)
