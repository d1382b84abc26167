"""The results that a run has already, question by question, and the words that refuse another run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import UsageProblem
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec
from lab.model.units import Size
from lab.run.options import Options
from lab.run.questions import CellQuestion, PlatformQuestion
from lab.run.release import ReleaseRow
from lab.run.resume import Resumed
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeLab

CELLS = [ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(ClientSpec(name="new")) for size in (1, 2)]


@pytest.fixture
def options(fake_lab: FakeLab) -> Options:
    return fake_lab.options()


@pytest.fixture
def result(options: Options, tmp_path: Path) -> CellResult:
    return Session(RunDir.create("first", results=tmp_path), options).run_cell(CELLS[0])


def resumed(tmp_path: Path, *cells: CellResult, answers: tuple[Any, ...] = (), skipped: Any = None) -> Resumed:
    stored: Any = SimpleNamespace(cells=list(cells), answers=list(answers), skipped=skipped or {}, record=None)
    return Resumed(RunDir.create("old", results=tmp_path), stored)


def test_a_question_has_its_own_result_and_another_none(result: CellResult, options: Options, tmp_path: Path) -> None:
    platform = PlatformQuestion(CELLS[0])
    answer: Any = SimpleNamespace(id=platform.id)
    questions: list[Any] = [CellQuestion(CELLS[1]), CellQuestion(CELLS[0]), platform, PlatformQuestion(CELLS[1])]
    found = resumed(tmp_path, result, answers=(answer,)).answered(questions, options)
    assert found == {CELLS[0].id: result, platform.id: answer}
    assert resumed(tmp_path).answered(questions, options) == {}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"topology": CELLS[0].topology.model_copy(update={"name": "other"})}, "network"),
        ({"transfer": CELLS[0].transfer.model_copy(update={"size": Size(5)})}, "transfer"),
        ({"expectation": CELLS[0].expectation.model_copy(update={"kind": "none"})}, "expectation"),
        ({"plan": [9]}, "number of samples"),
    ],
)
def test_the_result_of_another_question_is_refused_by_what_differs(
    result: CellResult, options: Options, tmp_path: Path, change: dict[str, Any], what: str
) -> None:
    old = resumed(tmp_path, result.model_copy(update=change))
    with pytest.raises(UsageProblem) as caught:
        old.answered([CellQuestion(CELLS[0])], options)
    assert caught.value.message == f"{old.run.name}: {CELLS[0].id} has another {what} there"


@pytest.mark.parametrize(("clock", "refused"), [("real", False), ("auto", False), ("virtual", True)])
def test_a_result_must_be_of_the_clock_that_was_asked_for(
    result: CellResult, options: Options, tmp_path: Path, clock: Any, refused: bool
) -> None:
    old, asked = resumed(tmp_path, result), replace(options, clock=clock)
    if refused:
        with pytest.raises(UsageProblem, match="has another clock there"):
            old.answered([CellQuestion(CELLS[0])], asked)
    else:
        assert len(old.answered([CellQuestion(CELLS[0])], asked)) == 1


@pytest.mark.parametrize(("session_seed", "charge_ns", "what"), [(1, 10, ""), (2, 10, "seed"), (1, 11, "price of a system call")])
def test_in_virtual_time_the_seed_and_the_price_must_be_the_same(
    result: CellResult, options: Options, tmp_path: Path, session_seed: int, charge_ns: int, what: str
) -> None:
    asked = replace(options, clock="virtual", seed=1, charge_ns=10)
    guest: Any = SimpleNamespace(session_seed=session_seed, charge_ns=charge_ns)
    changed = {"clock": "virtual", "virtual": guest, "plan": list(options.virtual_looks.looks)}
    stored = result.model_copy(update={**changed, "topology": CELLS[0].topology.in_virtual_time()})
    old = resumed(tmp_path, stored)
    if what:
        with pytest.raises(UsageProblem, match=f"has another {what} there"):
            old.answered([CellQuestion(CELLS[0])], asked)
    else:
        assert old.answered([CellQuestion(CELLS[0])], asked) == {CELLS[0].id: stored}


def test_a_session_takes_up_results_skips_and_the_earliest_beginning(
    result: CellResult, options: Options, tmp_path: Path
) -> None:
    answer: Any = SimpleNamespace(id="a", started_at=result.started_at - timedelta(hours=1))
    session = Session(RunDir.create("new", results=tmp_path), options)
    session.skipped = {"x": "1"}
    resumed(tmp_path, result, answers=(answer,), skipped={"y": "2"}).take_up(session)
    assert (session.results, session.answers) == ([result], [answer])
    assert (session.skipped, session.started_at) == ({"x": "1", "y": "2"}, answer.started_at)
    fresh = Session(RunDir.create("new", results=tmp_path), options)
    began = fresh.started_at
    resumed(tmp_path).take_up(fresh)
    assert fresh.started_at == began
