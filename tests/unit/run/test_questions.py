"""Questions to a session: which are asked ahead, whose outcome is whose, and what counts as a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.errors import LabFault, NotSupported, RoughwaterError
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run import questions as module
from lab.run.options import Options
from lab.run.questions import (
    Asking,
    CellQuestion,
    EventQuestion,
    FaultQuestion,
    PlatformQuestion,
    SendBufferQuestion,
    ask_all,
    same_work,
    virtual,
)
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeLab

CURL = ClientSpec(name="curl")
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rate": "8 Mbit/s"}})
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
PUT = Transfer.model_validate({"protocol": "http1", "direction": "put", "size": "1 MB"})
CELL = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-").cell(CURL)
REAL = ReleaseRow.named("dsl-50--h2-get-40x10kB-p10-discard", "-").cell(CURL)


@dataclass(frozen=True)
class Asked:
    """A question whose answer is its name in capitals; with `problem` it has no answer."""

    id: str
    cells: Sequence[Cell] = (CELL,)
    problem: RoughwaterError | None = None
    told: list[str] = field(default_factory=list, compare=False)

    def ask(self, session: object) -> Any:
        self.told.append(f"{self.id} of {session}")
        if self.problem:
            raise self.problem
        return self.id.upper()


@dataclass
class Crew:
    """Answers everything with the question's name and its own."""

    asked: list[list[str]] = field(default_factory=list)

    def answer(self, _: object, questions: Sequence[Any]) -> list[Any]:
        self.asked.append([each.id for each in questions])
        return [f"{each.id} by the crew" for each in questions]


def test_questions_are_called_by_what_they_ask() -> None:
    assert CellQuestion(CELL).id == CELL.id
    assert (CellQuestion(CELL).cells, PlatformQuestion(CELL).cells) == ([CELL], ())
    assert PlatformQuestion(CELL).id == f"{CELL.id}--platform"
    assert EventQuestion(CURL, TOPOLOGY, GET, "flap").id == "curl--plain--http1-get-1MB--flap"
    assert SendBufferQuestion(CURL, TOPOLOGY, GET, Size(1), 2).id == "curl--plain--http1-get-1MB--send-buffers"
    fault = FaultQuestion(CURL, TOPOLOGY, GET, "fin", 3)
    assert fault.id == "curl--plain--http1-get-1MB--no-wrong-file-fin"
    (cell,) = fault.cells
    assert (cell.expectation.kind, cell.transfer, cell.client) == ("none", GET, CURL)


def test_questions_that_are_equal_ask_the_same() -> None:
    def made() -> list[Any]:
        return [
            CellQuestion(CELL),
            PlatformQuestion(CELL),
            EventQuestion(CURL, TOPOLOGY, GET, "flap"),
            SendBufferQuestion(CURL, TOPOLOGY, GET, Size(1), 2),
            FaultQuestion(CURL, TOPOLOGY, GET, "fin", 3),
            same_work([REAL], ["null", "none"], 5),
        ]

    assert len({*made(), *made()}) == 6
    assert CellQuestion(CELL) != CellQuestion(REAL)


def test_only_what_has_cells_for_virtual_time_can_be_asked_ahead() -> None:
    auto, real = Options(clock="auto"), Options(clock="real")
    assert virtual(CellQuestion(CELL), auto)
    assert not virtual(CellQuestion(CELL), real)
    assert not virtual(CellQuestion(REAL), auto)
    assert not virtual(PlatformQuestion(CELL), auto)
    assert not virtual(CellQuestion(REAL), Options(clock="virtual")), "it is refused when it is asked"


@pytest.fixture
def asking(fake_lab: FakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Jobs that are ready run at once, in this thread."""

    def run_all(session: Session, jobs: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for job in jobs:
            try:
                found.append(f"ahead {job(session)}")
            except RoughwaterError as problem:
                found.append(problem)
        return found

    monkeypatch.setattr(module, "run_all", run_all)
    options = fake_lab.options()
    object.__setattr__(options, "clock", "auto")
    return Asking(Session(RunDir.create("test", results=tmp_path), options))


def test_what_was_asked_ahead_is_not_asked_again_and_the_rest_in_its_turn(asking: Any) -> None:
    first, second, later = Asked("a"), Asked("b"), Asked("c", cells=(REAL,))
    asking.ahead([first, later, second])
    assert (first.told != [], later.told) == (True, [])
    asking.ahead([first])
    assert len(first.told) == 1
    assert [asking.ask(each) for each in (first, later, second)] == ["ahead A", "C", "ahead B"]
    assert [(question.id, outcome) for question, outcome in asking.outcomes] == [("a", "ahead A"), ("c", "C"), ("b", "ahead B")]
    assert asking.ask(first) == "A", "a second time it is asked in its turn"


def test_the_same_question_twice_has_two_answers(asking: Any) -> None:
    question = Asked("a")
    asking.ahead([question, question])
    assert [asking.ask(question) for _ in range(2)] == ["ahead A"] * 2
    assert len(question.told) == 2


def test_what_a_run_has_already_is_never_asked(asking: Any) -> None:
    question = Asked("a")
    asking.done = {"a": "from before"}
    asking.ahead([question])
    assert (asking.ask(question), question.told) == ("from before", [])


def test_a_crew_answers_everything_ahead_whatever_its_clock(asking: Any) -> None:
    crew = Crew()
    asking.crew, asking.done = crew, {"old": "from before"}
    questions = [Asked("a"), Asked("old"), Asked("b", cells=())]
    asking.ahead(questions)
    assert crew.asked == [["a", "b"]]
    assert [asking.ask(each) for each in questions] == ["a by the crew", "from before", "b by the crew"]
    asking.ahead([questions[1]])
    assert crew.asked == [["a", "b"]], "nobody is asked for nothing"


def test_the_first_problem_besides_skips_is_raised_when_all_are_done(asking: Any) -> None:
    skipped, broken = Asked("a", problem=NotSupported("it cannot")), Asked("b", cells=(), problem=LabFault("broken"))
    last = Asked("c", cells=())
    assert ask_all(asking, [skipped]) == [skipped.problem]
    assert asking.problem is None
    with pytest.raises(LabFault, match="broken"):
        ask_all(asking, [broken, Asked("d", problem=LabFault("too late")), last])
    assert last.told
    assert asking.problem is broken.problem


@pytest.mark.parametrize("cells", [(CELL,), (REAL,)], ids=["ahead", "in its turn"])
def test_a_question_that_cannot_be_asked_is_noted_and_the_run_is_complete(asking: Any, cells: Sequence[Cell]) -> None:
    session, unable = asking.session, Asked("a", cells=cells, problem=NotSupported("a: it cannot"))
    session.begin(["a", "b"])
    asking.ahead([unable])
    assert asking.ask(unable) is unable.problem
    assert session.skipped == {"a": "it cannot"}
    session.note_end(None)
    assert session.ended == "interrupted", "b is missing"
    asking.ask(Asked("b", cells=cells, problem=NotSupported("nor this")))
    session.note_end(None)
    assert session.ended == "complete"


def test_outcomes_are_in_the_order_of_the_questions(asking: Any) -> None:
    found: list[Any] = [*ask_all(asking, [Asked("a", cells=()), Asked("b"), Asked("c", cells=())])]
    assert found == ["A", "ahead B", "C"]


@pytest.mark.parametrize(
    ("answers", "treatment"),
    [("null", (True, False, False)), ("none", (True, True, False)), ("files", (False, False, True))],
)
def test_an_arm_has_its_treatment_of_the_answers(answers: str, treatment: tuple[bool, bool, bool]) -> None:
    other = REAL.model_copy(update={"client": ClientSpec(name="ferry")})
    question = same_work([REAL, other], [answers], 2)
    assert [(arm.transfer.discard, arm.transfer.no_file, arm.transfer.repeat) for arm in question.arms] == [treatment] * 2
    assert (question.rounds, [arm.client.name for arm in question.arms]) == (2, ["curl", "ferry"])
    assert question.cells == question.arms


def test_words_for_a_comparison_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match=r"^answers cannot be 'paper' \(use null, none, files\)$"):
        same_work([REAL], ["null", "paper"], 2)
    with pytest.raises(ValueError, match=r"^rounds=1: an interval needs two or more$"):
        same_work([REAL], ["null", "none"], 1)
    with pytest.raises(ValueError, match=r"^a comparison needs two or more different"):
        same_work([REAL], ["null"], 2)


@pytest.mark.parametrize(("syscalls", "flames"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_cell_is_run_once_more_for_what_was_asked_of_its_program(
    monkeypatch: pytest.MonkeyPatch, syscalls: bool, flames: bool
) -> None:
    told: list[Any] = []
    options: Any = type("Asked", (), {"syscalls": syscalls, "flamegraph": "tools" if flames else None})
    session: Any = type("Session", (), {"options": options, "run_cell": staticmethod(lambda cell: f"result of {cell.id}")})
    monkeypatch.setattr("lab.run.system_calls.record", lambda _, cell: told.append(("calls", cell)))
    monkeypatch.setattr("lab.run.flamegraph.record", lambda _, cell, tools: told.append(("flames", cell, tools)))
    assert CellQuestion(CELL).ask(session) == f"result of {CELL.id}"  # type: ignore[comparison-overlap]
    assert told == [("calls", CELL)] * syscalls + [("flames", CELL, "tools")] * flames


class CalledError(Exception):
    """Carries the id of what an event is about to be asked under."""


@pytest.mark.parametrize(
    "question",
    [
        EventQuestion(CURL, TOPOLOGY, GET, "flap"),
        FaultQuestion(CURL, TOPOLOGY, GET, "fin", 1),
        SendBufferQuestion(CURL, TOPOLOGY, PUT, Size.parse("64 KiB"), 2),
        SendBufferQuestion(ClientSpec(name="ferry"), TOPOLOGY, PUT, "off", 2),
    ],
    ids=lambda question: type(question).__name__,
)
def test_a_question_is_called_as_its_result_is(question: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is complete when everything that was planned has a result, and goes on with what has none: both by this id."""

    def investigate(_: object, request: Any, *__: object) -> None:
        raise CalledError(request.id)

    for place in ("quirks", "faults", "send_buffers"):
        monkeypatch.setattr(f"lab.run.events.{place}.investigate", investigate)
    with pytest.raises(CalledError) as asked:
        question.ask(FakeLab().session(RunDir.create("test", results=tmp_path)))
    assert str(asked.value) == question.id
