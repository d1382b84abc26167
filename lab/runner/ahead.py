"""Runs what a suite will ask for before Robot asks: cells in virtual time side by side, a machine on every core.

They cannot disturb each other, so nothing speaks against it; but Robot runs one test after the other. A first pass over the suite
only writes down what its keywords ask of the session. What can be run in virtual time is run; the second pass finds it done.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

from lab.errors import ThroughlineError, UsageProblem
from lab.result.models import CellResult
from lab.result.store import RunDir
from lab.result.study import StudyResult
from lab.runner.clocks import clock_for
from lab.runner.found import Found as Results
from lab.runner.lanes import Shared, wait_for
from lab.runner.session import Options, Session
from lab.spec.models import Cell
from lab.spec.study import BufferStudy

T = TypeVar("T")
Asked = Cell | BufferStudy
Found = CellResult | StudyResult


class PlannedError(Exception):
    """The keyword has said what it wants; nothing is run yet."""


class Planner:
    """Stands in for a Session in the first pass: keeps what can be run ahead, and ends every keyword."""

    def __init__(self, run: RunDir, options: Options) -> None:
        self.run, self.options = run, options
        self.asked: list[Asked] = []

    def run_cell(self, cell: Cell) -> NoReturn:
        self._keep(cell, [cell])

    def run_study(self, study: BufferStudy) -> NoReturn:
        self._keep(study, [study.cell(study.buffers[0])])

    def _keep(self, asked: Asked, cells: Sequence[Cell]) -> NoReturn:
        try:
            if clock_for(cells, self.options.clock) == "virtual":
                self.asked.append(asked)
        except UsageProblem:
            pass  # the second pass says so
        raise PlannedError

    def __getattr__(self, name: str) -> Any:
        raise PlannedError(name)


@dataclass
class Outcomes:
    """What came of everything that was run ahead, in the order in which it will be asked for again."""

    of: dict[str, deque[Found | ThroughlineError]] = field(default_factory=dict)

    def add(self, asked: Asked, outcome: Found | ThroughlineError) -> None:
        self.of.setdefault(key(asked), deque()).append(outcome)

    def take(self, asked: Asked) -> Found | ThroughlineError | None:
        """None where nothing was run ahead."""
        waiting = self.of.get(key(asked))
        return waiting.popleft() if waiting else None


def key(asked: Asked) -> str:
    return f"{type(asked).__name__} {asked.model_dump_json()}"


def side_by_side() -> int:
    """Machines at once: one on every core that this process may use."""
    return len(os.sched_getaffinity(0))


def run_ahead(session: Session, asked: Sequence[Asked]) -> Outcomes:
    """Run all of it, on as many machines at once as there are cores; the results become the session's.

    A problem of one is its outcome, and stops no other. An interrupt ends all.
    """
    outcomes = Outcomes()
    for what, outcome in zip(asked, run_all(session, [partial(_ask, what) for what in asked]), strict=True):
        outcomes.add(what, outcome)
    return outcomes


def run_all(session: Session, jobs: Sequence[Callable[[Session], T]]) -> list[T | ThroughlineError]:
    """What came of every job, in their order, or the problem that it had; on as many machines at once as there are cores.

    Their results become this session's in the order of the jobs, whichever was done first. An interrupt ends all.
    """
    waiting = deque(enumerate(jobs))
    found: dict[int, T | ThroughlineError] = {}
    parts: dict[int, Results] = {}
    broken: list[BaseException] = []
    lock = threading.Lock()
    progress = Shared(session.progress)
    crews = [session.lane(number, progress) for number in range(1, min(side_by_side(), len(jobs)) + 1)]

    def work(own: Session) -> None:
        try:
            while not (own.abandoned or broken):
                with lock:
                    if not waiting:
                        return
                    index, job = waiting.popleft()
                try:
                    found[index] = job(own)
                except ThroughlineError as problem:
                    found[index] = problem
                finally:  # of a pair that was cut short one cell may be written
                    parts[index] = Results(session.run)
                    parts[index].absorb(own)
        except BaseException as problem:
            broken.append(problem)
        finally:
            own.close_network()

    threads = [threading.Thread(target=work, args=(crew,), name=f"ahead-{crew.options.name}", daemon=True) for crew in crews]
    for thread in threads:
        thread.start()
    try:
        wait_for(threads)
    except BaseException:
        for crew in crews:
            crew.abandon()
        wait_for(threads)
        raise
    finally:
        for index in sorted(parts):
            session.absorb(parts[index])
    if broken:
        raise broken[0]
    return [found[index] for index in range(len(jobs))]


def _ask(asked: Asked, session: Session) -> Found:
    return session.run_cell(asked) if isinstance(asked, Cell) else session.run_study(asked)
