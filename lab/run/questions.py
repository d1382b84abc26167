"""The questions that a lab can be asked, as values: one for each kind of row in a suite, and for each cell that is named.

A question knows how a session answers it. `Asking` answers many questions: in virtual time side by side before they are due, in
real time when their turn comes. Outcomes are values, and so are problems; each is kept.

The code that answers a kind of question is imported when such a question is asked: most runs have one kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lab.model.answer import Answer, Event, Fault
from lab.model.cell import Cell
from lab.model.errors import NotSupported, RoughwaterError, UsageProblem
from lab.model.results import CellResult
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.run.clocks import clock_for
from lab.run.options import Options
from lab.run.parallel import run_all
from lab.run.session import Session

if TYPE_CHECKING:
    from lab.run.events.send_buffers import Off

Result = CellResult | Answer
Outcome = Result | RoughwaterError


class Question(Protocol):
    """Frozen: two that are equal ask the same."""

    @property
    def id(self) -> str:
        """The name of its result."""
        ...

    @property
    def cells(self) -> Sequence[Cell]:
        """Cells that decide its clock. Empty where it has to be asked when its turn comes."""
        ...

    def ask(self, session: Session) -> Result:
        """The answer. Raises NotSupported, UsageProblem, or LabFault where there is no network."""
        ...


@dataclass(frozen=True)
class CellQuestion:
    """Does this cell keep what is expected of it?"""

    cell: Cell

    @property
    def id(self) -> str:
        return self.cell.id

    @property
    def cells(self) -> Sequence[Cell]:
        return [self.cell]

    def ask(self, session: Session) -> CellResult:
        result = session.run_cell(self.cell)
        if session.options.syscalls:
            from lab.run import system_calls

            system_calls.record(session, self.cell)
        if session.options.flamegraph is not None:
            from lab.run import flamegraph

            flamegraph.record(session, self.cell, session.options.flamegraph)
        return result


@dataclass(frozen=True)
class BufferQuestion:
    """Does throughput hold across these buffer sizes?"""

    study: BufferStudy

    @property
    def id(self) -> str:
        return self.study.id

    @property
    def cells(self) -> Sequence[Cell]:
        return [self.study.cell(self.study.buffers[0])]

    def ask(self, session: Session) -> Answer:
        return session.run_study(self.study)


def _event_id(asked: EventQuestion | FaultQuestion | SendBufferQuestion, kind: str, variant: str = "") -> str:
    """The name of the answer to a question about one transfer."""
    from lab.run.events.quirks import Request

    return Request(asked.client, asked.topology, asked.transfer, kind, variant).id


@dataclass(frozen=True)
class EventQuestion:
    """How does the client take this event?"""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    event: Event
    cells: Sequence[Cell] = ()

    @property
    def id(self) -> str:
        return _event_id(self, self.event)

    def ask(self, session: Session) -> Answer:
        from lab.run.events.quirks import run_quirk

        return run_quirk(session, self.client, self.topology, self.transfer, self.event)


@dataclass(frozen=True)
class FaultQuestion:
    """Does exit code 0 mean an identical file, whatever happens to the transfer?"""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    fault: Fault
    samples: int

    @property
    def id(self) -> str:
        return _event_id(self, "no-wrong-file", self.fault)

    @property
    def cells(self) -> Sequence[Cell]:
        """Its transfer without the fault."""
        expected = Expectation(kind="none")
        return [Cell(client=self.client, topology=self.topology, transfer=self.transfer, expectation=expected)]

    def ask(self, session: Session) -> Answer:
        from lab.run.events.faults import run_faults

        return run_faults(session, self.client, self.topology, self.transfer, self.fault, samples=self.samples)


@dataclass(frozen=True)
class SendBufferQuestion:
    """What does the automatic send buffer do for an upload?"""

    client: ClientSpec
    topology: Topology
    transfer: Transfer
    fixed: Size | Off
    rounds: int
    cells: Sequence[Cell] = ()

    @property
    def id(self) -> str:
        return _event_id(self, "send-buffers", "" if isinstance(self.fixed, Size) else "off")

    def ask(self, session: Session) -> Answer:
        from lab.run.events.send_buffers import compare_send_buffers

        return compare_send_buffers(session, self.client, self.topology, self.transfer, fixed=self.fixed, rounds=self.rounds)


@dataclass(frozen=True)
class PlatformQuestion:
    """What does this work cost the host?"""

    cell: Cell
    cells: Sequence[Cell] = ()

    @property
    def id(self) -> str:
        return f"{self.cell.id}--platform"

    def ask(self, session: Session) -> Answer:
        from lab.run.platform import run_platform

        return run_platform(session, self.cell)


@dataclass(frozen=True)
class SameWorkQuestion:
    """What does each of these cells cost, on the same requests?"""

    arms: tuple[Cell, ...]
    rounds: int

    @property
    def id(self) -> str:
        from lab.run.same_work import same_work_id

        return same_work_id(self.arms)

    @property
    def cells(self) -> Sequence[Cell]:
        return self.arms

    def ask(self, session: Session) -> Answer:
        from lab.run.same_work import run_same_work

        return run_same_work(session, self.arms, self.rounds)


_ANSWERS: dict[str, dict[str, bool]] = {
    "null": {"discard": True},
    "none": {"discard": True, "no_file": True},
    "files": {"discard": False, "repeat": True},
}


def same_work(cells: Sequence[Cell], answers: Sequence[str], rounds: int) -> SameWorkQuestion:
    """Each of these cells with each treatment of its answers. Raises ValueError for a comparison that makes no sense."""
    if unknown := next((each for each in answers if each not in _ANSWERS), None):
        raise ValueError(f"answers cannot be {unknown!r} (use {', '.join(_ANSWERS)})")
    if rounds < 2:
        raise ValueError(f"rounds={rounds}: an interval needs two or more")
    arms = [
        cell.model_copy(update={"transfer": Transfer.model_validate({**dict(cell.transfer), **_ANSWERS[each]})})
        for cell in cells
        for each in answers
    ]
    if len({arm.id for arm in arms}) < max(2, len(arms)):
        raise ValueError("a comparison needs two or more different clients or treatments of the answers")
    return SameWorkQuestion(tuple(arms), rounds)


def virtual(question: Question, options: Options) -> bool:
    """True if the question can be asked in virtual time, next to others."""
    try:
        return bool(question.cells) and clock_for(question.cells, options.clock) == "virtual"
    except UsageProblem:
        return False  # it is said when it is asked


class Crew(Protocol):
    """Answers questions on other machines."""

    def answer(self, session: Session, questions: Sequence[Question]) -> list[Outcome]:
        """The outcome of every question, in their order. Each result is in the session's run as soon as it is there.

        Raises UsageProblem where these questions cannot be answered there, and LabFault where the machines are lost.
        """
        ...


@dataclass
class Asking:
    """Questions to one session and their outcomes, in the order in which they were asked for.

    A crew answers all questions ahead, whatever their clock. `done` are results that the run has already, by id.
    """

    session: Session
    crew: Crew | None = None
    done: Mapping[str, Result] = field(default_factory=dict)
    outcomes: list[tuple[Question, Outcome]] = field(default_factory=list)
    _ahead: dict[Question, deque[Outcome]] = field(default_factory=dict)

    def ahead(self, questions: Sequence[Question]) -> None:
        """Answer those of virtual time now, on as many machines at once as there are cores; with a crew all of them."""
        new = [each for each in questions if each not in self._ahead and each.id not in self.done]
        if self.crew:
            self._know(new, self.crew.answer(self.session, new) if new else [])
        elif ready := [each for each in new if virtual(each, self.session.options)]:
            self._know(ready, run_all(self.session, [partial(answer_of, question) for question in ready]))

    def _know(self, questions: Sequence[Question], outcomes: Sequence[Outcome]) -> None:
        for question, outcome in zip(questions, outcomes, strict=True):
            self._ahead.setdefault(question, deque()).append(outcome)

    def ask(self, question: Question) -> Outcome:
        """The outcome: from ahead, or asked now."""
        if question.id in self.done:
            outcome: Outcome = self.done[question.id]
        elif waiting := self._ahead.get(question):
            outcome = waiting.popleft()
        else:
            try:
                outcome = answer_of(question, self.session)
            except RoughwaterError as problem:
                outcome = problem
        self.outcomes.append((question, outcome))
        return outcome

    @property
    def problem(self) -> RoughwaterError | None:
        """The first that kept a question from an answer. A cell that its client cannot do was skipped, and does not count."""
        problems = (outcome for _, outcome in self.outcomes if isinstance(outcome, RoughwaterError))
        return next((problem for problem in problems if not isinstance(problem, NotSupported)), None)


def answer_of(question: Question, session: Session) -> Result:
    """The answer. A question that its client cannot be asked is noted as skipped, or the run would lack what was planned."""
    with session.noting_skip(question.id):
        return question.ask(session)


def ask_all(asking: Asking, questions: Sequence[Question]) -> list[Outcome]:
    """The outcome of every question, in their order. Afterwards raises the first problem that kept one from an answer."""
    asking.ahead(questions)
    outcomes = [asking.ask(question) for question in questions]
    if asking.problem:
        raise asking.problem
    return outcomes
