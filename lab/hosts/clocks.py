"""A network's clock, and whether commands on its hosts may overlap."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol, TypeVar

from lab.model.clock import Clock as ClockName

P = ParamSpec("P")
T = TypeVar("T")


class Clock(Protocol):
    """CLOCK_MONOTONIC of a network's hosts, and a way to let time pass."""

    @property
    def kind(self) -> ClockName: ...

    def monotonic_ns(self) -> int: ...

    def now(self) -> datetime:
        """The wall clock of the hosts, in UTC."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def next_start_ns(self, lead_s: float) -> int:
        """An instant at least `lead_s` from now; in virtual time the next client begins a millisecond after it."""
        ...


class RealClock:
    """The machine's clock."""

    kind: ClockName = "real"

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def next_start_ns(self, lead_s: float) -> int:
        return self.monotonic_ns() + round(lead_s * 1e9)


REAL = RealClock()


class InRealTime:
    """The members that every network in real time shares."""

    clock: Clock = REAL

    virtual_facts: Mapping[str, Any] | None = None

    def random_bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def vary(self, seed: int) -> None:
        """Real samples differ without a seed."""


class InOrder(Executor):
    """Runs each call at once, in the caller's thread.

    A virtual clock stands still between two commands, so overlapping them saves no time, and the order of threads would make two
    runs of one seed differ.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future

    def map(self, fn: Callable[..., T], *iterables: Any, timeout: float | None = None, chunksize: int = 1) -> Iterator[T]:
        del timeout, chunksize
        return iter([fn(*arguments) for arguments in zip(*iterables, strict=False)])


@contextmanager
def workers(clock: Clock, most: int) -> Iterator[Executor]:
    """Threads for commands that overlap in real time; none in virtual time."""
    with InOrder() if clock.kind == "virtual" else ThreadPoolExecutor(most) as pool:
        yield pool
