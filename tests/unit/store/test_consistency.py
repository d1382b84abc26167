"""Each contradiction is found at its place, in its words and once; what may be so is not reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.model.answer import Answer, Arm, Part
from lab.model.results import CellResult, Interval, RunRecord, SetAside, Verdict, VerdictName
from lab.store.consistency import answer_faults, cell_faults, record_faults
from lab.store.stored_run import StoredRun
from tests.support.virtual import GUEST, in_virtual_time
from tests.unit.store.conftest import AT, make_record

MakeCell = Callable[..., CellResult]
CELL = "curl--dsl-50--http1-get-5MiB-at-1MBps"
RUN = "20260102T030405-throttle-ab12"


def interval(mean: float, low: float, high: float, n: int = 5) -> Interval:
    return Interval(n=n, mean=mean, low=low, high=high, confidence=0.9)


def judged(cell: CellResult, **verdict: object) -> CellResult:
    return cell.model_copy(update={"verdict": cell.verdict.model_copy(update=verdict)})


def timed(cell: CellResult, *seconds: float) -> CellResult:
    """The cell with one sample at each of these times after its start; it takes a minute."""
    first = cell.samples[0]
    samples = [
        first.model_copy(update={"index": index, "started_at": AT + timedelta(seconds=each)})
        for index, each in enumerate(seconds)
    ]
    return judged(cell.model_copy(update={"samples": samples}), interval=None, looks=[])


# --- a cell -------------------------------------------------------------------------------------------------------------------


def test_a_correct_cell_has_no_fault(cell: CellResult) -> None:
    assert list(cell_faults(cell)) == []
    assert list(cell_faults(in_virtual_time(cell))) == []


@pytest.mark.parametrize("index", [0, 2, 7])
def test_a_sample_has_the_index_of_its_place(cell: CellResult, index: int) -> None:
    wrong = cell.samples[1].model_copy(update={"index": index})
    found = cell.model_copy(update={"samples": [cell.samples[0], wrong, *cell.samples[2:]]})
    assert list(cell_faults(found)) == [("$.samples[1].index", f"is {index} in place 1")]


def test_a_cell_in_real_time_has_no_virtual_machine(cell: CellResult) -> None:
    found = cell.model_copy(update={"virtual": GUEST})
    assert list(cell_faults(found)) == [("$.virtual", "is there, and the clock is real")]


def test_an_end_before_the_start_is_a_fault_and_an_end_at_the_start_is_not(cell: CellResult) -> None:
    empty = timed(cell)
    assert list(cell_faults(empty.model_copy(update={"ended_at": AT}))) == []
    early = empty.model_copy(update={"ended_at": AT - timedelta(microseconds=1)})
    assert list(cell_faults(early)) == [("$.ended_at", f"is before started_at, {AT.isoformat()}")]


def test_samples_may_start_with_the_cell_with_each_other_and_at_its_end(cell: CellResult) -> None:
    assert list(cell_faults(timed(cell, 0, 0, 10, 10, 60))) == []


def test_a_sample_that_starts_before_the_previous_one_is_named(cell: CellResult) -> None:
    assert list(cell_faults(timed(cell, 0, 20, 10))) == [("$.samples[2].started_at", "is before the previous one")]
    assert list(cell_faults(timed(cell, 20, 10, 30))) == [("$.samples[1].started_at", "is before the previous one")]


@pytest.mark.parametrize(("seconds", "place"), [((-0.001, 10), 0), ((10, 60.001), 1)])
def test_a_sample_starts_while_the_cell_runs(cell: CellResult, seconds: tuple[float, ...], place: int) -> None:
    found = list(cell_faults(timed(cell, *seconds)))
    assert found == [(f"$.samples[{place}].started_at", "is not between the cell's start and end")]


def test_samples_set_aside_start_in_their_own_order(cell: CellResult) -> None:
    late, early = timed(cell, 50, 20).samples
    aside = [SetAside(reason="the host was busy", sample=each) for each in (early, late)]
    assert list(cell_faults(cell.model_copy(update={"set_aside": aside}))) == []
    found = list(cell_faults(cell.model_copy(update={"set_aside": aside[::-1]})))
    assert found == [("$.set_aside[1].sample.started_at", "is before the previous one")]


def test_by_the_virtual_clock_samples_start_when_they_like(cell: CellResult) -> None:
    assert list(cell_faults(in_virtual_time(timed(cell, 90, 20, -5)))) == []


@pytest.mark.parametrize(("n", "faults"), [(4, 0), (5, 0), (6, 1)])
def test_an_interval_rests_on_no_more_samples_than_there_are(cell: CellResult, n: int, faults: int) -> None:
    found = list(cell_faults(judged(cell, interval=interval(0, -0.01, 0.01, n))))
    assert found == [("$.verdict.interval.n", f"is {n}, there are 5 samples")][:faults]


def test_a_mean_lies_in_its_interval(cell: CellResult) -> None:
    for mean in (-0.5, 0.5, 0.0):
        assert list(cell_faults(judged(cell, interval=interval(mean, -0.5, 0.5)))) == []
    for mean in (-0.6, 0.6):
        found = list(cell_faults(judged(cell, interval=interval(mean, -0.5, 0.5))))
        assert found == [("$.verdict.interval", f"its mean {mean:g} is not between -0.5 and 0.5")]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1000.0, 1000.0), (0.0, 1000.0), (-0.001, 1000.0)])
def test_a_mean_may_miss_an_end_by_the_rounding_of_the_larger_end(cell: CellResult, low: float, high: float) -> None:
    for sign in (1, -1):
        for off in (5e-10, 2e-9):
            ends = sorted((sign * low, sign * high))
            found = interval(sign * high * (1 + off), *ends)
            answer = Answer.model_validate({**answer_words(), "ratio": found, "arms": [Arm(name="A", byte_s=[1.0] * 5)]})
            assert len(list(answer_faults(answer, None))) == (off > 1e-9)


def test_a_mean_is_never_below_minus_one(cell: CellResult) -> None:
    assert list(cell_faults(judged(cell, interval=interval(-1, -1.5, -0.5)))) == []
    found = list(cell_faults(judged(cell, interval=interval(-1.25, -1.5, -0.5))))
    assert found == [("$.verdict.interval.mean", "is -1.25: a mean cannot be below -1")]


def test_a_look_is_at_samples_that_there_are(cell: CellResult) -> None:
    found = list(cell_faults(judged(cell, looks=[4, 5, 6, 10])))
    assert found == [
        ("$.verdict.looks[2]", "looked at 6 of 5 samples"),
        ("$.verdict.looks[3]", "looked at 10 of 5 samples"),
    ]


@pytest.mark.parametrize(("low", "high"), [(None, 0.1), (0.5, None), (None, None), (0.1, 0.1), (-0.1, 0.1)])
def test_a_band_may_be_open_or_a_point(cell: CellResult, low: float | None, high: float | None) -> None:
    assert list(cell_faults(judged(cell, band_low=low, band_high=high))) == []


def test_a_band_is_not_upside_down(cell: CellResult) -> None:
    found = list(cell_faults(judged(cell, band_low=0.25, band_high=0.1)))
    assert found == [("$.verdict.band_low", "0.25 is above band_high 0.1")]


# --- an answer ----------------------------------------------------------------------------------------------------------------


def answer_words(**more: object) -> dict[str, Any]:
    plain = {"id": "a", "question": "no-slower", "run": RUN, "lab_version": "0.1.0", "clocks": ["real"], "verdict": None}
    return {**plain, "started_at": AT, "ended_at": AT, **more}


def make_answer(**more: object) -> Answer:
    return Answer.model_validate(answer_words(**more))


def verdict(name: VerdictName) -> Verdict:
    return Verdict(name=name, reason="-")


def test_an_answer_ends_after_its_start() -> None:
    found = list(answer_faults(make_answer(ended_at=AT - timedelta(seconds=1)), None))
    assert found == [("$.ended_at", f"is before started_at, {AT.isoformat()}")]


def test_a_ratio_rests_on_no_more_values_than_the_shorter_arm_has() -> None:
    arms = [Arm(name="candidate", byte_s=[1.0] * 6), Arm(name="baseline", byte_s=[1.0] * 5)]
    assert list(answer_faults(make_answer(arms=arms, ratio=interval(1, 0.9, 1.1, 5)), None)) == []
    found = list(answer_faults(make_answer(arms=arms, ratio=interval(1, 0.9, 1.1, 6)), None))
    assert found == [("$.ratio.n", "is 6, there are 5 values of each arm")]


@pytest.mark.parametrize("arms", [[], [Arm(name="A", byte_s=[1.0]), Arm(name="B")]])
def test_a_ratio_whose_values_are_elsewhere_is_not_counted(arms: list[Arm]) -> None:
    assert list(answer_faults(make_answer(arms=arms, ratio=interval(1, 0.9, 1.1, 6)), None)) == []


KNOWN: dict[str, VerdictName | None] = {"one": "PASS", "two": "FAIL", "open": None}


def test_an_arm_refers_to_a_cell_that_is_there_with_its_verdict() -> None:
    def faults(**arm: object) -> list[tuple[str, str]]:
        first = Arm(name="A", cell="one", verdict="PASS")
        return list(answer_faults(make_answer(arms=[first, Arm.model_validate({"name": "B", **arm})]), KNOWN))

    for right in (
        {},
        {"cell": "two", "verdict": "FAIL"},
        {"cell": "two"},
        {"cell": "open", "verdict": "FAIL"},
        {"verdict": "PASS"},
    ):
        assert faults(**right) == []
    assert faults(cell="three", verdict="PASS") == [("$.arms[1].cell", "there is no cell or answer three")]
    assert faults(cell="two", verdict="PASS") == [("$.arms[1].verdict", "is PASS, its file says FAIL")]


def test_a_part_refers_to_what_is_there_with_its_verdicts() -> None:
    def faults(**part: object) -> list[tuple[str, str]]:
        words = {"id": "one", "why": "-", "verdict": "PASS", **part}
        return list(answer_faults(make_answer(question="qualification", parts=[Part.model_validate(words)]), KNOWN))

    assert faults() == []
    assert faults(comparison="two", regression="FAIL") == []
    assert faults(comparison="two") == [], "not judged there"
    assert faults(id="three") == [("$.parts[0].id", "there is no cell or answer three")]
    assert faults(id="two") == [("$.parts[0].verdict", "is PASS, its file says FAIL")]
    assert faults(comparison="three") == [("$.parts[0].comparison", "there is no cell or answer three")]
    assert faults(comparison="two", regression="PASS") == [("$.parts[0].regression", "is PASS, its file says FAIL")]


def test_references_are_not_checked_where_the_run_is_not_known() -> None:
    arms = [Arm(name="A", cell="nowhere", verdict="PASS")]
    parts = [Part(id="nowhere", why="-", verdict="PASS", comparison="nowhere", regression="FAIL")]
    assert list(answer_faults(make_answer(arms=arms, parts=parts), None)) == []


def test_a_qualification_is_as_bad_as_its_worst_part() -> None:
    def faults(name: VerdictName | None, *parts: Part) -> list[tuple[str, str]]:
        answer = make_answer(question="qualification", parts=list(parts), verdict=verdict(name) if name else None)
        return list(answer_faults(answer, None))

    good = Part(id="one", why="-", verdict="PASS")
    slower = Part(id="two", why="-", verdict="PASS", comparison="c", regression="FAIL")
    assert faults("PASS", good) == faults("FAIL", good, slower) == faults(None, slower) == []
    assert faults("FAIL") == [], "an answer without parts says what it says"
    assert faults("PASS", good, slower) == [("$.verdict.name", "is PASS, its parts say FAIL")]
    assert faults("INVALID", good) == [("$.verdict.name", "is INVALID, its parts say PASS")]


# --- a run --------------------------------------------------------------------------------------------------------------------


def faults_of(
    found: list[CellResult], others: list[Answer] | None = None, *, unread: tuple[str, ...] = (), **record: object
) -> list[tuple[str, str]]:
    told: RunRecord = make_record().model_copy(update=record)
    return list(record_faults(told, StoredRun(Path("-"), found, others or []), frozenset(unread)))


def test_a_correct_record_has_no_fault(cell: CellResult) -> None:
    assert faults_of([cell]) == []


def test_a_run_ends_after_its_start(cell: CellResult) -> None:
    assert faults_of([cell], ended_at=AT - timedelta(seconds=1)) == [("$.ended_at", f"is before started_at, {AT.isoformat()}")]


def test_what_is_listed_has_a_file_and_is_listed_once(cell: CellResult) -> None:
    assert faults_of([cell], cells=[CELL, "x", CELL, CELL]) == [
        ("$.cells[1]", "there is no file of x"),
        ("$.cells[2]", f"{CELL} is listed twice"),
        ("$.cells[3]", f"{CELL} is listed twice"),
    ]
    assert faults_of([cell], answers=["x", "y"], unread=("y",)) == [("$.answers[0]", "there is no file of x")]
    assert faults_of([cell], cells=[CELL, "x"], unread=("x",)) == [], "its file was reported already"


def test_what_has_a_file_is_listed(cell: CellResult, make_cell: MakeCell) -> None:
    others = [make_cell(cell_id=name) for name in ("z--b--c", "a--b--c")]
    verdicts: dict[str, VerdictName] = {CELL: "PASS", "a--b--c": "PASS", "z--b--c": "PASS"}
    assert faults_of([cell, *others], verdicts=verdicts) == [
        ("$.cells", "a--b--c has a file and is not listed"),
        ("$.cells", "z--b--c has a file and is not listed"),
    ]
    assert faults_of([cell], [make_answer()]) == [("$.answers", "a has a file and is not listed")]


def test_a_qualification_of_an_older_lab_is_not_listed(cell: CellResult) -> None:
    found = make_answer(question="qualification", verdict=verdict("PASS"))
    assert faults_of([cell], [found]) == faults_of([cell], [found], answers=["a"]) == []
    moved = found.model_copy(update={"run": "another"})
    assert faults_of([cell], [moved]) == []
    assert faults_of([cell], [moved], answers=["a"]) == [("$.answers", "a says it is of run another")]


def test_files_are_of_the_run(cell: CellResult) -> None:
    assert faults_of([cell.model_copy(update={"run": "another"})]) == [("$.cells", f"{CELL} says it is of run another")]
    found = faults_of([cell], [make_answer(run="another")], answers=["a"])
    assert found == [("$.answers", "a says it is of run another")]


def test_every_clock_is_listed(cell: CellResult) -> None:
    assert faults_of([cell], clocks=["real", "virtual"]) == []
    assert faults_of([cell], clocks=["virtual"]) == [("$.clocks", f"real is missing, {CELL} ran by it")]
    both = make_answer(clocks=["real", "virtual"])
    assert faults_of([cell], [both], answers=["a"]) == [("$.clocks", "virtual is missing, a ran by it")]


def test_a_baseline_is_one_of_the_cells(cell: CellResult) -> None:
    assert faults_of([cell], baselines=[CELL]) == []
    assert faults_of([cell], baselines=["x"]) == [("$.baselines", "x is not one of its cells or answers")]


def test_every_verdict_is_that_of_its_file(cell: CellResult) -> None:
    assert faults_of([cell], verdicts={}) == [("$.verdicts", f"{CELL} is missing, its file says PASS")]
    wrong = faults_of([cell], verdicts={CELL: "INVALID"}, exit_code=4)
    assert wrong == [(f"$.verdicts['{CELL}']", "is INVALID, its file says PASS")]
    more: dict[str, VerdictName] = {CELL: "PASS", "x": "PASS"}
    assert faults_of([cell], verdicts=more) == [("$.verdicts['x']", "no file has this verdict")]
    assert faults_of([cell], verdicts=more, unread=("x",)) == []


def test_the_exit_code_is_that_of_the_verdicts_that_count(cell: CellResult, make_cell: MakeCell) -> None:
    slow = make_cell((0.2,) * 5, cell_id="a--b--c")
    both: dict[str, Any] = {"cells": [CELL, "a--b--c"], "verdicts": {CELL: "PASS", "a--b--c": "FAIL"}}
    assert faults_of([cell, slow], **both, exit_code=1) == []
    assert faults_of([cell, slow], **both) == [("$.exit_code", "is 0, its verdicts say 1")]
    assert faults_of([cell, slow], **both, baselines=["a--b--c"]) == [], "a baseline does not count"
