"""The search for a threshold, against clients whose threshold is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judge.threshold import PROBES, Conclusion, Goal, Next, Trial, decide
from lab.model.results import VerdictName

GOAL = Goal(1, 600, 0.02, 15)


def search(truth: Callable[[float], VerdictName], goal: Goal = GOAL) -> tuple[Conclusion, list[Trial]]:
    trials: list[Trial] = []
    while isinstance(due := decide(goal, trials), Next):
        trials.append(Trial(due.value, truth(due.value), due.probe))
        assert len(trials) <= goal.budget
    return due, trials


def upto(limit: float) -> Callable[[float], VerdictName]:
    return lambda value: "PASS" if value <= limit else "FAIL"


@given(st.floats(math.log(1.001), math.log(599)))
def test_a_planted_threshold_is_found_within_the_width_and_the_budget(log: float) -> None:
    limit = math.exp(log)
    found, trials = search(upto(limit))
    assert (found.kind, found.verdict) == ("found", "PASS")
    assert found.passed is not None
    assert found.failed is not None
    assert found.passed <= limit < found.failed <= found.passed * 1.02
    assert len(trials) <= 15


def test_values_are_multiples_of_the_step() -> None:
    _, trials = search(upto(0.0052), Goal(0.001, 0.6, 0.02, 15, 2e-6))
    assert all(abs(trial.value / 2e-6 - round(trial.value / 2e-6)) < 1e-6 for trial in trials)


def test_a_step_that_leaves_nothing_between_ends_the_search() -> None:
    found, trials = search(upto(11), Goal(10, 12, 0.02, 15, 4))
    assert (found.passed, found.failed) == (10, 12)
    assert [trial.value for trial in trials] == [10, 12]


def test_ends_that_answer_are_answers() -> None:
    assert search(upto(1000))[0].kind == "above"
    assert search(upto(0.5))[0].kind == "below"
    found, trials = search(upto(1000))
    assert found.probes == PROBES == len(trials) - 2


def test_a_pass_above_a_fail_is_not_one_threshold() -> None:
    found, _ = search(lambda value: "FAIL" if 20 < value < 30 or value > 300 else "PASS")
    assert found.kind in ("several", "found")
    island, _ = search(lambda value: "FAIL" if value > 10 and not 50 < value < 200 else "PASS")
    assert (island.kind, island.verdict) == ("several", "INCONCLUSIVE")
    start, trials = search(lambda value: "FAIL" if value < 5 else "PASS")
    assert (start.kind, len(trials)) == ("several", 2)


def test_an_open_verdict_moves_no_bound_and_is_gone_round() -> None:
    first = math.sqrt(600)
    found, trials = search(lambda value: "INCONCLUSIVE" if abs(value / first - 1) < 0.01 else upto(80)(value))
    assert found.kind == "found"
    assert [trial.verdict for trial in trials].count("INCONCLUSIVE") == 1
    edge, _ = search(lambda value: "INVALID" if 70 < value < 90 else upto(80)(value))
    assert (edge.kind, edge.verdict) == ("range", "INVALID")
    assert edge.passed is not None
    assert edge.failed is not None
    assert edge.passed <= 70
    assert edge.failed >= 90


@pytest.mark.parametrize("verdict", ["INVALID", "INCONCLUSIVE"])
def test_an_end_without_a_verdict_ends_the_search(verdict: VerdictName) -> None:
    found, trials = search(lambda value: verdict if value == 600 else "PASS")
    assert (found.kind, found.verdict, len(trials)) == ("unknown", verdict, 2)


def test_a_small_budget_ends_in_a_range() -> None:
    found, trials = search(upto(80), Goal(1, 600, 0.02, 5))
    assert (found.kind, found.verdict, len(trials)) == ("range", "INCONCLUSIVE", 5)


@pytest.mark.parametrize(
    ("goal", "trials"),
    [
        (Goal(0, 1, 0.02, 15), []),
        (Goal(2, 1, 0.02, 15), []),
        (Goal(1, 2, 0.0, 15), []),
        (Goal(1, 2, 1.0, 15), []),
        (Goal(1, 2, 0.02, 1), []),
        (GOAL, [Trial(1, "PASS"), Trial(1, "PASS")]),
    ],
)
def test_a_goal_that_cannot_be_is_refused(goal: Goal, trials: list[Trial]) -> None:
    with pytest.raises(ValueError, match=r"range|goal|twice"):
        decide(goal, trials)
