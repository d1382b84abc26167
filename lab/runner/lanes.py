"""Runs jobs one after the other, light ones side by side: every lane is a thread with a session and a network of its own.

A lane's network dies with the thread that launched it (prctl(2), PR_SET_PDEATHSIG), so a thread outlives its network. Signals
come to the main thread alone: it abandons every lane, and leaves when the last network is down.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.result.models import Sample, Verdict
from lab.runner.progress import Progress
from lab.runner.session import Session

T = TypeVar("T")
RUN_AGAIN = "run again alone: beside others, in a lane, it was INVALID"
_LOOK_S = 0.2
"""Between two looks at a thread signals are heard."""


@dataclass(frozen=True)
class Job(Generic[T]):
    """`light` ones leave enough of the machine for another beside them."""

    run: Callable[[Session], T]
    light: bool = False


class Shared:
    """A progress that several threads tell."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        with self._lock:
            self._progress.step(text)

    def sample(self, cell: str, sample: Sample, of: int) -> None:
        with self._lock:
            self._progress.sample(cell, sample, of)

    def set_aside(self, cell: str, sample: Sample, reason: str) -> None:
        with self._lock:
            self._progress.set_aside(cell, sample, reason)

    def verdict(self, cell: str, verdict: Verdict) -> None:
        with self._lock:
            self._progress.verdict(cell, verdict)

    def skipped(self, reason: str) -> None:
        with self._lock:
            self._progress.skipped(reason)


def run_jobs(session: Session, jobs: Sequence[Job[T]], lanes: int, spoilt: Callable[[T], bool]) -> list[T]:
    """What every job came to, in their order. The first problem of any ends all, and is raised.

    A light job whose outcome is `spoilt` by the lab is run again alone; that outcome stands, and its results say so.
    """
    light = [index for index, job in enumerate(jobs) if job.light]
    found: dict[int, T] = {}
    if lanes > 1 and len(light) > 1:
        found = _side_by_side(session, jobs, light, min(lanes, len(light)))
    for index, job in enumerate(jobs):
        if index not in found:
            found[index] = job.run(session)
        elif spoilt(found[index]):
            session.remarks = (RUN_AGAIN,)
            try:
                found[index] = job.run(session)
            finally:
                session.remarks = ()
    return [found[index] for index in range(len(jobs))]


def _side_by_side(session: Session, jobs: Sequence[Job[T]], light: Sequence[int], lanes: int) -> dict[int, T]:
    progress = Shared(session.progress)
    # A network takes half the machine to come up: the lane that already has one would be disturbed by another's.
    ready = threading.Barrier(lanes)
    waiting = deque(light)
    found: dict[int, T] = {}
    problems: list[BaseException] = []
    lock = threading.Lock()

    def work(own: Session) -> None:
        try:
            own.bring_up()
            ready.wait()
            while not problems:
                with lock:
                    if not waiting:
                        return
                    index = waiting.popleft()
                outcome = jobs[index].run(own)
                with lock:
                    found[index] = outcome
                    session.absorb(own)
        except threading.BrokenBarrierError:
            pass  # another lane has the reason
        except BaseException as problem:
            problems.append(problem)
            ready.abort()
        finally:
            own.close_network()
            with lock:  # of a pair that was cut short one cell may be written
                session.absorb(own)

    crews = [session.lane(number, progress) for number in range(1, lanes + 1)]
    # Daemons: after a second Ctrl-C nobody waits for them, and their networks die with them.
    threads = [threading.Thread(target=work, args=(crew,), name=f"lane-{n}", daemon=True) for n, crew in enumerate(crews, 1)]
    for thread in threads:
        thread.start()
    try:
        wait_for(threads)
    except BaseException:
        ready.abort()
        for crew in crews:
            crew.abandon()
        wait_for(threads)
        raise
    if problems:
        raise problems[0]
    return found


def wait_for(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_S)
