"""The functions that run on a worker: the probe, and a question, asked as a lab on that machine would ask it.

Dask sends the names of these functions and their arguments; the code is the worker's own, and `probe` says which code that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Condition
from types import MappingProxyType

from lab.model.errors import RoughwaterError
from lab.model.transfer import ClientSpec
from lab.run.instruments import Instruments
from lab.run.lock import MachineLock
from lab.run.options import Options
from lab.run.questions import Question, answer_of
from lab.run.session import Session
from lab.run.workers.facts import INSTANCE, facts
from lab.run.workers.parcel import HeldRun, Parcel, problem_of
from lab.store.provenance import WORKER


class Turns:
    """A question in real time has the machine to itself: it waits for the others to end, and new ones wait for it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._working = 0
        self._alone = 0
        """The number of questions that want the machine for themselves, or have it."""

    @contextmanager
    def take(self, *, alone: bool) -> Iterator[None]:
        with self._changed:
            self._alone += alone
            self._changed.wait_for(lambda: not self._working if alone else not self._alone)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._alone -= alone
                self._changed.notify_all()


TURNS = Turns()


@dataclass(frozen=True)
class Order:
    """One question to one worker. `lost` are the workers that it was lost with before."""

    question: Question
    options: Options
    run: str
    worker: str
    instance: str
    alone: bool
    wait_s: float
    lost: tuple[str, ...] = ()


async def probe(clients: Sequence[tuple[str, str]]) -> dict[str, object]:
    """The machine's facts as JSON. In a thread, because the worker must stay able to answer."""
    specs = [ClientSpec(name=name, program=program) for name, program in clients]
    return (await asyncio.to_thread(facts, specs)).model_dump(mode="json")


def sendable(options: Options) -> Options:
    """The options without what belongs to the machine that gives the command."""
    return replace(options, turn=None, instruments=Instruments())


def answer(order: Order) -> Parcel:
    """Ask the question on this machine. A problem that the lab knows is part of the parcel."""
    if order.instance != INSTANCE:
        return Parcel(gone=True)
    run = HeldRun(order.run)
    told: dict[str, object] = {"worker": order.worker, "repetition": len(order.lost)}
    if order.lost:
        told["lost_workers"] = list(order.lost)
    with TURNS.take(alone=order.alone), MachineLock(order.wait_s, beside=order.options.beside) as lock:
        options = replace(order.options, turn=lock.take, name=f"{order.run}-{INSTANCE[:8]}")
        session = Session(run, options)
        before = WORKER.set(MappingProxyType(told))
        outcome, problem = "", None
        try:
            with session:
                outcome = answer_of(order.question, session).id
        except RoughwaterError as found:
            problem = problem_of(found)
        finally:
            WORKER.reset(before)
    return Parcel(run.documents, outcome, problem, dict(session.skipped))
