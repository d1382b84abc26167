"""What a run comes to: which verdicts it has, which of them count, by which clocks it ran, and what it left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.model.answer import Answer, Arm, answer_of
from lab.model.results import Verdict
from lab.store.stored_run import StoredRun
from tests.support.virtual import in_virtual_time
from tests.unit.store.conftest import AT, make_cell, make_record

FIRST, SECOND = make_cell(cell_id="a--b--c"), make_cell((0.2,) * 5, cell_id="d--e--f")


def make_answer(question: str, identity: str, **more: Any) -> Answer:
    facts = {"id": identity, "question": question, "run": "r", "lab_version": "0.1.0", "clocks": ["real"]}
    verdict = Verdict(name="INVALID", reason="-")
    return Answer.model_validate({**facts, "verdict": verdict, "started_at": AT, "ended_at": AT, **more})


PAIR = make_answer("no-slower", "pair", arms=[Arm(name="candidate", cell="a--b--c"), Arm(name="baseline", cell="d--e--f")])
SEARCH = make_answer("threshold", "search", arms=[Arm(name="1", cell="t--1"), Arm(name="2", cell="d--e--f")])
RELEASE = make_answer("qualification", "release")
BARE = StoredRun(Path("/r"))


def test_a_run_of_nothing_comes_to_nothing() -> None:
    assert (BARE.cells, BARE.answers, BARE.record, BARE.problems) == ([], [], None, [])
    assert (BARE.qualification, BARE.baselines, BARE.everything, BARE.verdicts) == (None, {}, [], {})
    assert (BARE.clocks, BARE.skipped) == ([], {})


def test_the_qualification_is_the_first_answer_that_is_one() -> None:
    other = RELEASE.model_copy(update={"id": "other"})
    assert StoredRun(Path("/r"), [], [PAIR, RELEASE, other]).qualification == RELEASE
    assert StoredRun(Path("/r"), [], [PAIR]).qualification is None


def test_everything_is_the_cells_own_answers_and_then_the_others() -> None:
    found = StoredRun(Path("/r"), [FIRST, SECOND], [PAIR, RELEASE])
    assert found.everything == [answer_of(FIRST), answer_of(SECOND), PAIR, RELEASE]


def test_verdicts_are_those_of_cells_and_of_answers_that_are_judged_and_count() -> None:
    open_one = make_answer("no-slower", "open", verdict=None)
    found = StoredRun(Path("/r"), [FIRST, SECOND], [PAIR, RELEASE, open_one])
    assert found.verdicts == {"a--b--c": "PASS", "d--e--f": "FAIL", "pair": "INVALID"}


def test_a_clock_is_listed_once_in_the_order_of_its_first_use() -> None:
    virtual = in_virtual_time(SECOND)
    assert StoredRun(Path("/r"), [FIRST, FIRST], [PAIR]).clocks == ["real"]
    assert StoredRun(Path("/r"), [virtual, FIRST], [PAIR]).clocks == ["virtual", "real"]
    both = make_answer("equal", "both", clocks=["real", "virtual"])
    assert StoredRun(Path("/r"), [], [both]).clocks == ["real", "virtual"]


def test_baselines_are_those_of_the_record_and_of_the_answers() -> None:
    record = make_record().model_copy(update={"baselines": ["t--1", "x"], "skipped": {"y": "not built in"}})
    assert StoredRun(Path("/r"), [], [], record).baselines == {"t--1": "baseline", "x": "baseline"}
    assert StoredRun(Path("/r"), [], [PAIR, SEARCH]).baselines == {"t--1": "trial", "d--e--f": "baseline"}
    assert StoredRun(Path("/r"), [], [SEARCH], record).baselines == {"t--1": "trial", "x": "baseline", "d--e--f": "trial"}
    assert StoredRun(Path("/r"), [], [], record).skipped == {"y": "not built in"}


@pytest.mark.parametrize("name", ["cells", "answers", "problems"])
def test_two_runs_share_no_list(name: str) -> None:
    getattr(StoredRun(Path("/r")), name).append("x")
    assert getattr(StoredRun(Path("/r")), name) == []
