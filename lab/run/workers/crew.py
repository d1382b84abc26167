"""Hands questions to workers that have room for them, and takes what comes back: docs/decisions/0023-many-machines.md."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from uuid import uuid4

from lab.model.errors import LabFault, UsageProblem
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec
from lab.run.clocks import is_windows_name
from lab.run.collected import keep
from lab.run.options import Options
from lab.run.questions import EventQuestion, Outcome, PlatformQuestion, Question, Result, SendBufferQuestion, virtual
from lab.run.session import Session
from lab.run.workers.cluster import FIRST_WORKER_S, Cluster, Listed, SchedulerLost, connected
from lab.run.workers.facts import Facts, against_this_machine, first_difference
from lab.run.workers.parcel import Parcel, found_problem, unpack
from lab.run.workers.task import Order, answer, sendable

if TYPE_CHECKING:
    from distributed import Future as Answered

MOST_LOST = 3
"""After the loss of this number of workers a question is not tried again: it may be what ends them."""
SILENT_S = 60.0
_LOOK_S = 1.0
_GATHER_S = 10.0


@contextmanager
def crew_at(address: str | None, needs: Sequence[str] = (), *, wait_s: float = 600.0) -> Iterator[DaskCrew | None]:
    """The workers of a scheduler; None without an address. Raises UsageProblem where no scheduler answers."""
    if address is None:
        yield None
        return
    with connected(address) as cluster:
        yield DaskCrew(cluster, tuple(needs), wait_s)


@dataclass(frozen=True)
class DaskCrew:
    """The workers of a cluster that offer what `needs` names. `wait_s` is how long a run waits for a worker."""

    cluster: Cluster
    needs: tuple[str, ...] = ()
    wait_s: float = 600.0

    def answer(self, session: Session, questions: Sequence[Question]) -> list[Outcome]:
        """The outcomes, as `lab.run.questions.Crew` promises them. SchedulerLost, a LabFault, says how to go on."""
        work = _Work(self, session, questions)
        try:
            with ThreadPoolExecutor(2) as pool:
                work.begin()
                while work.left:
                    work.look(pool)
                    work.place()
                    work.take()
        except SchedulerLost as problem:
            raise work.lost(problem) from problem
        finally:
            work.end()
        return [work.outcomes[index] for index in range(len(questions))]


def needed(question: Question, options: Options) -> tuple[str, ...]:
    """The resources that a worker must offer for this question."""
    windows = any(is_windows_name(client) for client in clients_of(question))
    if isinstance(question, EventQuestion | SendBufferQuestion):
        real = windows or options.clock == "real"
    else:
        real = not virtual(question, options)
    return (("real" if real else "virtual"), *(["windows"] if windows else []))


def clients_of(question: Question) -> list[ClientSpec]:
    """The clients that it runs."""
    if isinstance(question, EventQuestion | SendBufferQuestion):
        return [question.client]
    cells = [question.cell] if isinstance(question, PlatformQuestion) else question.cells
    return [cell.client for cell in cells]


@dataclass
class _Member:
    """A worker that was compared. `free` is what it offers and this run does not use."""

    listed: Listed
    facts: Facts
    free: dict[str, float]
    last_seen: float
    heard: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return self.listed.name


@dataclass
class _Due:
    """A question and its place in the list; `lost` are the workers that it was lost with."""

    index: int
    question: Question
    needs: tuple[str, ...]
    lost: list[str] = field(default_factory=list)


@dataclass
class _Placed:
    due: _Due
    member: _Member
    future: Answered[Parcel]


class _Work:
    """One list of questions on its way. Everything happens in the caller's thread, but probes of workers that came later."""

    def __init__(self, crew: DaskCrew, session: Session, questions: Sequence[Question]) -> None:
        self._crew, self._session = crew, session
        self._due = deque(
            _Due(index, each, (*needed(each, session.options), *crew.needs)) for index, each in enumerate(questions)
        )
        self._clients = list(dict.fromkeys(client for each in questions for client in clients_of(each)))
        self._options = sendable(session.options)
        self._of = len(questions)
        self.outcomes: dict[int, Outcome] = {}
        self._found: dict[int, Sequence[Result]] = {}
        self._members: dict[str, _Member] = {}
        self._placed: dict[str, _Placed] = {}
        self._probes: dict[str, Future[dict[str, Facts | str]]] = {}
        self._refused: dict[str, float | None] = {}
        """Workers that get nothing, with their last sign of life where a new one would change that."""
        self._reference: dict[str, Facts] = {}
        self._done: SimpleQueue[str] = SimpleQueue()
        self._looked = self._moved = 0.0

    @property
    def left(self) -> int:
        """Number of questions without an outcome."""
        return self._of - len(self.outcomes)

    # --- workers ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Compare the workers that are there. Raises UsageProblem, one line, where they differ or cannot do what is asked."""
        relative = next((each for each in self._clients if "/" in each.program and not each.program.startswith("/")), None)
        if relative:
            raise UsageProblem(
                f"client {relative.name}: workers have no {relative.program}", remedy="give the path that it has on all of them"
            )
        listed = self._first_workers()
        wanted = {each.needs for each in self._due}
        offered = [each for each in listed.values() if any(_offers(each.offers, needs) for needs in wanted)]
        for needs in sorted(wanted):
            if not any(_offers(each.offers, needs) for each in offered):
                asked = next(each.question.id for each in self._due if each.needs == needs)
                raise UsageProblem(
                    f"{asked} needs a worker that offers {' and '.join(needs)}, and none does",
                    remedy=f"lab workers {self._crew.cluster.address} lists what they offer",
                )
        told = self._crew.cluster.probe([each.address for each in offered], self._clients)
        known: dict[str, Facts] = {}
        for each in offered:
            facts = told.get(each.address, "it does not answer")
            problem = facts if isinstance(facts, str) else against_this_machine(each.name, facts, self._clients)
            if isinstance(facts, str) or problem:
                raise UsageProblem(f"worker {each.name}: {problem}", remedy="install the same lab on all machines")
            known[each.address] = facts
        names = {each.address: each.name for each in offered}
        if problem := first_difference({names[address]: facts for address, facts in known.items()}):
            raise UsageProblem(f"worker {problem}", remedy="install the same on all workers, or end those that differ")
        self._reference = {names[address]: facts for address, facts in [*known.items()][:1]}
        for each in offered:
            self._join(each, known[each.address])
        self._looked = self._moved = time.monotonic()
        self._note(
            f"{self._of} to ask of the {len(known)} worker{'' if len(known) == 1 else 's'} of {self._crew.cluster.address}"
        )

    def _first_workers(self) -> dict[str, Listed]:
        deadline = time.monotonic() + FIRST_WORKER_S
        while not (listed := self._crew.cluster.look()):
            if time.monotonic() > deadline:
                address = self._crew.cluster.address
                raise UsageProblem(f"the scheduler at {address} has no worker", remedy=f"start some: lab worker {address}")
            time.sleep(0.1)
        return listed

    def _join(self, listed: Listed, facts: Facts) -> None:
        self._members[listed.address] = _Member(listed, facts, dict(listed.offers), listed.last_seen)

    def look(self, pool: ThreadPoolExecutor) -> None:
        """Look for lost and new workers, at most once a second.

        The questions of a lost worker become due again; a new worker is compared before it gets any.
        """
        now = time.monotonic()
        self._welcome()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        listed = self._crew.cluster.look()
        for address, member in list(self._members.items()):
            found = listed.get(address)
            if found is not None and found.last_seen != member.last_seen:
                member.last_seen, member.heard = found.last_seen, now
            if found is None or now - member.heard > SILENT_S:
                self._lose(member, "is gone" if found is None else f"has been silent for {SILENT_S:.0f} s")
                if found is not None:  # it may come back, by a new sign of life
                    self._refused[address] = found.last_seen
        wanted = {each.needs for each in [*self._due, *(placed.due for placed in self._placed.values())]}
        for address, each in listed.items():
            refused = address in self._refused and self._refused[address] in (None, each.last_seen)
            known = refused or address in self._members or address in self._probes
            if not known and any(_offers(each.offers, needs) for needs in wanted):
                self._refused.pop(address, None)
                self._probes[address] = pool.submit(self._crew.cluster.probe, [address], self._clients)

    def _welcome(self) -> None:
        """Compare the workers that came later, when they have answered. One that differs gets nothing."""
        for address, probe in [(address, probe) for address, probe in self._probes.items() if probe.done()]:
            del self._probes[address]
            facts = probe.result().get(address, "it does not answer")
            listed = self._crew.cluster.look().get(address)
            if listed is None:
                continue
            problem = facts if isinstance(facts, str) else against_this_machine(listed.name, facts, self._clients)
            if isinstance(facts, Facts) and not problem:
                problem = first_difference({**self._reference, listed.name: facts})
            if isinstance(facts, Facts) and not problem:
                self._join(listed, facts)
            else:
                self._refused[address] = None
                self._note(f"worker {listed.name} gets nothing: {problem}")

    def _lose(self, member: _Member, why: str) -> None:
        self._members.pop(member.listed.address, None)
        self._note(f"worker {member.name} {why}")
        for key, placed in list(self._placed.items()):
            if placed.member is member:
                self._again(key)

    # --- questions --------------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Give questions to workers that have room, each to the one with the most. Raises LabFault where none comes for long."""
        for _ in range(len(self._due)):
            due = self._due[0]
            able = [member for member in self._members.values() if _offers(member.free, due.needs)]
            if able:
                self._due.popleft()
                self._give(due, max(able, key=lambda member: member.free[due.needs[0]]))
            elif len({each.needs for each in self._due}) == 1:
                break
            else:  # another may fit
                self._due.rotate(-1)
        if not self._placed and self._due and time.monotonic() - self._moved > self._crew.wait_s:
            raise LabFault(
                f"no worker for {self._due[0].question.id} in {self._crew.wait_s:.0f} s: {self._tally}", remedy=self._how_to_go_on
            )

    def _give(self, due: _Due, member: _Member) -> None:
        for need in due.needs:
            member.free[need] -= 1
        order = Order(
            question=due.question,
            options=self._options,
            run=self._session.run.name,
            worker=member.name,
            instance=member.facts.instance,
            alone="real" in due.needs,
            wait_s=self._crew.wait_s,
            lost=tuple(due.lost),
        )
        key = f"{due.question.id}-{uuid4().hex[:12]}"
        future: Answered[Parcel] = self._crew.cluster.client.submit(
            answer,
            order,
            key=key,
            pure=False,
            retries=0,
            workers=[member.listed.address],
            allow_other_workers=False,
            resources=dict.fromkeys(due.needs, 1),
        )
        self._placed[key] = _Placed(due, member, future)
        future.add_done_callback(lambda _: self._done.put(key))

    def take(self) -> None:
        """Wait a moment for something to come back, and take all that has."""
        try:
            keys = [self._done.get(timeout=_LOOK_S / 4)]
            while not self._done.empty():
                keys.append(self._done.get())
        except Empty:
            return
        arrived = [each for key in keys if key in self._placed and (each := self._arrived(key))]
        try:
            self.place()  # first, so that a worker need not wait until its result is written
        finally:
            for placed, parcel in arrived:
                self._unpack(placed, parcel)

    def _arrived(self, key: str) -> tuple[_Placed, Parcel] | None:
        placed = self._placed[key]
        try:
            parcel = placed.future.result(timeout=_GATHER_S)
        except (TimeoutError, OSError, CancelledError, asyncio.CancelledError):
            self._crew.cluster.look()  # raises where it is the scheduler that is gone
            self._again(key)  # its worker is gone before it has handed its result over
            return None
        except Exception as problem:
            if type(problem).__name__ == "KilledWorker":  # began again at its address, and was lost again
                self._again(key)
                return None
            why = f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
            fault = LabFault(f"{placed.due.question.id}: worker {placed.member.name}: {why}", remedy="report it: a bug")
            self.outcomes[self._release(key).due.index] = fault
            return None
        if parcel.gone:
            self._lose(placed.member, "has begun again")
            return None
        return self._release(key), parcel

    def _unpack(self, placed: _Placed, parcel: Parcel) -> None:
        session, index = self._session, placed.due.index
        found = unpack(parcel, session.run)
        self._found[index] = found
        for result in found:
            verdict = result.verdict
            if verdict and (isinstance(result, CellResult) or result.counts):
                session.progress.verdict(result.id, verdict)
        for what, reason in parcel.skipped.items():
            session.progress.skipped(f"{what}: {reason}")
        session.skipped |= parcel.skipped
        missing = LabFault(f"{placed.due.question.id}: worker {placed.member.name} sent no result", remedy="report it: a bug")
        asked = next((each for each in found if each.id == parcel.outcome), missing)
        self.outcomes[index] = found_problem(parcel.problem) if parcel.problem else asked

    def _again(self, key: str) -> None:
        """Once more on another worker; what was lost with too many is the lab's fault."""
        placed = self._release(key)
        due = placed.due
        due.lost.append(placed.member.name)
        if len(due.lost) >= MOST_LOST:
            words = ", ".join(due.lost)
            self.outcomes[due.index] = LabFault(
                f"{due.question.id}: {MOST_LOST} workers were lost with it: {words}", remedy="run it without --workers to see why"
            )
            return
        self._note(f"{due.question.id} was lost with worker {placed.member.name} and runs again")
        self._due.appendleft(due)

    def _release(self, key: str) -> _Placed:
        placed = self._placed.pop(key)
        for need in placed.due.needs:
            placed.member.free[need] += 1
        placed.future.cancel()
        self._moved = time.monotonic()
        return placed

    def end(self) -> None:
        """Call back what has not come, and make what has the session's, in the order of the questions."""
        for placed in self._placed.values():
            placed.future.cancel()
        for index in sorted(self._found):
            for result in self._found[index]:
                if isinstance(result, CellResult):
                    keep(self._session.results, result)
                else:
                    keep(self._session.answers, result)

    @property
    def _tally(self) -> str:
        return f"{len(self.outcomes)} of {self._of} are done, and kept in {self._session.run.path}"

    @property
    def _how_to_go_on(self) -> str:
        return f"go on with the same command and --resume {self._session.run.name}"

    def lost(self, problem: SchedulerLost) -> SchedulerLost:
        return SchedulerLost(f"{problem.message}: {self._tally}", remedy=self._how_to_go_on)

    def _note(self, text: str) -> None:
        self._session.progress.note(text)


def _offers(offers: Mapping[str, float], needs: Sequence[str]) -> bool:
    return all(offers.get(need, 0) >= 1 for need in needs)
