"""Steps of a series: error rates by simulation with fixed seeds, where they are placed, and what does not count as a step."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.store.history.steps import MIN_RUNS, find_steps, levels, noise

REPEATS = 400
LEAST = 0.01


def series(dice: random.Random, cv: float, runs: int = 30, step_at: int | None = None, change: float = -0.05) -> list[float]:
    return [dice.gauss(15, cv) + (math.log1p(change) if step_at is not None and i >= step_at else 0) for i in range(runs)]


@pytest.mark.parametrize("cv", [0.01, 0.02])
@pytest.mark.parametrize("runs", [6, 10, 30, 100])
def test_stationary_runs_rarely_have_a_step(cv: float, runs: int) -> None:
    dice = random.Random(1)
    assert sum(bool(find_steps(series(dice, cv, runs), LEAST)) for _ in range(REPEATS)) / REPEATS <= 0.05


@pytest.mark.parametrize(("cv", "near"), [(0.01, 0.98), (0.02, 0.85)])
def test_five_percent_in_the_middle_of_thirty_runs_is_seen(cv: float, near: float) -> None:
    dice = random.Random(2)
    found = [[step.index for step in find_steps(series(dice, cv, step_at=15), LEAST)] for _ in range(REPEATS)]
    assert sum(bool(each) for each in found) / REPEATS >= 0.95
    # At 2.5 times the spread the best place itself is two and more runs off in one series of eleven: no method knows better.
    assert sum(any(abs(index - 15) <= 1 for index in each) for each in found) / REPEATS >= near


def test_a_step_has_its_change_and_an_interval_around_it() -> None:
    dice = random.Random(3)
    values = series(dice, 0.005, step_at=20)
    (step,) = find_steps(values, LEAST)
    assert step.index == 20
    assert math.expm1(step.change) == pytest.approx(-0.05, abs=0.01)
    assert step.low < step.change < step.high < 0
    before, after = levels(values, [step])
    assert after - before == pytest.approx(step.change)


def test_there_and_back_are_two_steps() -> None:
    values = [0.0] * 10 + [-0.05] * 10 + [0.0] * 10
    assert [(step.index, round(step.change, 3)) for step in find_steps(values, LEAST)] == [(10, -0.05), (20, 0.05)]


@pytest.mark.parametrize("place", [0, 5, 14, 28, 29])
@pytest.mark.parametrize("size", [-0.4, 0.3])
def test_one_odd_run_makes_no_step(place: int, size: float) -> None:
    dice = random.Random(4)
    values = series(dice, 0.01)
    values[place] += size
    assert find_steps(values, LEAST) == []


def test_a_change_below_the_least_makes_no_step_however_certain() -> None:
    values = [0.0, 1e-5] * 10 + [-0.006, -0.00601] * 10
    assert find_steps(values, 0.01) == []
    assert [step.index for step in find_steps(values, 0.005)] == [20]


def test_a_step_needs_three_runs_behind_it() -> None:
    values = [0.0, 0.001, -0.001] * 5
    assert find_steps([*values, -0.1, -0.1], LEAST) == []
    assert [step.index for step in find_steps([*values, -0.1, -0.1, -0.1], LEAST)] == [15]
    assert find_steps([0.0, 0.0, -1.0, -1.0, -1.0], LEAST) == []


@given(st.lists(st.floats(-1, 1), max_size=40), st.floats(-20, 20))
def test_the_level_does_not_matter_and_levels_have_their_least_length(values: list[float], shift: float) -> None:
    found = find_steps(values, LEAST)
    edges = [0, *(step.index for step in found), len(values)]
    assert all(after - before >= MIN_RUNS for before, after in pairwise(edges)) or not found
    assert all(abs(step.change) >= LEAST for step in found)
    assert all(step.low > 0 or step.high < 0 for step in found)
    assert noise([value + shift for value in values]) == pytest.approx(noise(values), abs=1e-9)


@pytest.mark.parametrize(("values", "least"), [([math.nan] * 8, 0.01), ([math.inf] * 8, 0.01), ([0.0] * 8, 0.0)])
def test_refuses(values: list[float], least: float) -> None:
    with pytest.raises(ValueError, match=r"finite|above zero"):
        find_steps(values, least)
