"""Runs jobs side by side: every job has a session and a network of its own, in a thread.

In virtual time jobs cannot disturb each other, so there is one per core (`run_all`). In real time only light jobs share the
machine (`run_jobs`). A network dies with the thread that launched it (prctl(2), PR_SET_PDEATHSIG), so a thread outlives its
network. Signals come to the main thread alone: it abandons every network, and leaves when the last one is down.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.model.errors import RoughwaterError
from lab.run.collected import Collected
from lab.run.progress import SharedProgress
from lab.run.session import Session

T = TypeVar("T")
RUN_AGAIN = "run again alone: it was INVALID while other cells ran at the same time"
_LOOK_S = 0.2
"""Between two looks at a thread signals are heard."""


@dataclass(frozen=True)
class Job(Generic[T]):
    """`light` ones leave enough of the machine for another at the same time."""

    run: Callable[[Session], T]
    light: bool = False


def side_by_side() -> int:
    """Number of machines at once: one for every core that this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(session: Session, jobs: Sequence[Callable[[Session], T]]) -> list[T | RoughwaterError]:
    """The outcome of every job, in their order, or the problem that it had; on as many machines at once as there are cores.

    For jobs in virtual time, which cannot disturb each other. Their results become this session's in the order of the jobs,
    whichever was done first. A problem of one stops no other; an interrupt ends all.
    """
    waiting = deque(enumerate(jobs))
    found: dict[int, T | RoughwaterError] = {}
    parts: dict[int, Collected] = {}
    broken: list[BaseException] = []
    lock = threading.Lock()
    progress = SharedProgress(session.progress)
    crews = [session.lane(number, progress) for number in range(1, min(side_by_side(), len(jobs)) + 1)]

    def work(own: Session) -> None:
        try:
            while not (own.lab.abandoned or broken):
                with lock:
                    if not waiting:
                        return
                    index, job = waiting.popleft()
                try:
                    found[index] = job(own)
                except RoughwaterError as problem:
                    found[index] = problem
                finally:  # of a pair that was cut short one cell may be written
                    parts[index] = Collected(session.run)
                    parts[index].absorb(own)
        except BaseException as problem:
            broken.append(problem)
        finally:
            own.lab.close_network()

    threads = [threading.Thread(target=work, args=(crew,), name=f"ahead-{crew.options.name}", daemon=True) for crew in crews]
    for thread in threads:
        thread.start()
    try:
        wait_for(threads)
    except BaseException:
        for crew in crews:
            crew.lab.abandon()
        wait_for(threads)
        raise
    finally:
        for index in sorted(parts):
            session.absorb(parts[index])
    if broken:
        raise broken[0]
    return [found[index] for index in range(len(jobs))]


def run_jobs(session: Session, jobs: Sequence[Job[T]], lanes: int, spoilt: Callable[[T], bool]) -> list[T]:
    """The outcome of every job, in their order; light ones on as many networks as `lanes` says. The first problem ends all.

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
    progress = SharedProgress(session.progress)
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
            own.lab.close_network()
            with lock:  # of a pair that was cut short one cell may be written
                session.absorb(own)

    crews = [session.lane(number, progress) for number in range(1, lanes + 1)]
    # Daemons: after a second Ctrl-C the main thread does not wait for them, and their networks die with them.
    threads = [threading.Thread(target=work, args=(crew,), name=f"lane-{n}", daemon=True) for n, crew in enumerate(crews, 1)]
    for thread in threads:
        thread.start()
    try:
        wait_for(threads)
    except BaseException:
        ready.abort()
        for crew in crews:
            crew.lab.abandon()
        wait_for(threads)
        raise
    if problems:
        raise problems[0]
    return found


def wait_for(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_S)
