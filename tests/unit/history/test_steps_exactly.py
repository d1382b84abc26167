"""The parts of the search for steps by hand: the noise, the outliers, the penalty, and the interval of each step."""

from __future__ import annotations

import math
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.store.history import steps
from lab.store.history.steps import ALPHA, Step, find_steps, levels, noise

LEAST = 0.01
WAVE = [0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, 0.0]


def around(*heights: float) -> list[float]:
    """Eight runs around each height."""
    return [height + each for height in heights for each in WAVE]


def test_noise_is_the_median_difference_scaled_to_a_standard_deviation() -> None:
    assert noise([]) == noise([5.0]) == 0
    assert noise([1.0, 4.0]) == pytest.approx(1.4826 * 3 / math.sqrt(2))
    assert noise([1.0, 4.0, 3.5, 3.0, 13.0]) == pytest.approx(1.4826 * 1.75 / math.sqrt(2))


# --- outliers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "kept"), [(8.0, 8.0), (-8.0, -8.0), (8.001, 0.0), (-8.001, 0.0)])
def test_an_outlier_is_more_than_four_times_the_spread_away(size: float, kept: float) -> None:
    assert steps._without_outliers([0.0, 0.0, size, 0.0, 0.0], 2.0) == [0.0, 0.0, kept, 0.0, 0.0]


@given(st.lists(st.integers(-9, 9), max_size=12))
def test_an_outlier_becomes_the_median_of_the_five_around_it(values: list[int]) -> None:
    found = steps._without_outliers(values, 1.0)
    for at, value in enumerate(values):
        middle = median(each for place, each in enumerate(values) if abs(place - at) <= 2)
        assert found[at] == (value if abs(value - middle) <= 4 else middle)


# --- candidates ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_a_candidate_takes_off_more_than_four_variances_times_the_logarithm(spread: float) -> None:
    """A step d in the middle of n equal values takes n / 4 times d squared off the cost."""
    least = spread * math.sqrt(4 * 4 * math.log(20) / 20)
    assert steps._candidates([0.0] * 10 + [least * 1.02] * 10, spread) == [10]
    assert steps._candidates([0.0] * 10 + [least * 0.98] * 10, spread) == []


def test_where_the_values_lie_does_not_matter() -> None:
    values = [15e6 + each for each in [0.0] * 10 + [1.0] * 10]
    assert steps._candidates(values, 0.1) == [10]


def test_levels_have_three_runs_and_more() -> None:
    assert [step.index for step in find_steps([0.0] * 3 + [1.0] * 3, LEAST)] == [3]
    assert find_steps([0.0] * 2 + [1.0] * 3, LEAST) == []
    assert find_steps([0.0] * 2 + [1.0] * 2, LEAST) == []
    assert find_steps([], LEAST) == []


def test_noise_is_not_taken_for_less_than_a_fifth_of_the_least_step() -> None:
    """Without it, equal values with one step below the least would have a candidate, and the next a wider interval."""
    values = [0.0] * 10 + [0.003] * 10 + [0.053] * 10
    (step,) = find_steps(values, LEAST)
    assert (step.index, step.confidence) == (20, 1 - 2 * ALPHA)


# --- what counts --------------------------------------------------------------------------------------------------------------


def welch(before: list[float], after: list[float], confidence: float) -> tuple[float, float]:
    found = stats.ttest_ind(after, before, equal_var=False).confidence_interval(confidence)
    return float(found.low), float(found.high)


def test_a_step_has_welchs_interval_of_the_two_levels_next_to_it() -> None:
    (step,) = find_steps(around(0, 0.05), LEAST)
    assert (step.index, step.confidence) == (8, pytest.approx(0.99))
    assert step.change == pytest.approx(0.05)
    assert (step.low, step.high) == pytest.approx(welch(around(0), around(0.05), 0.99))


def test_two_steps_share_the_error_and_each_is_between_its_own_levels() -> None:
    values = around(0, 0.05, 0.02)
    first, second = find_steps(values, LEAST)
    assert [first.index, second.index] == [8, 16]
    assert [first.confidence, second.confidence] == pytest.approx([0.995, 0.995])
    assert [first.change, second.change] == pytest.approx([0.05, -0.03])
    assert (first.low, first.high) == pytest.approx(welch(values[:8], values[8:16], 0.995))
    assert (second.low, second.high) == pytest.approx(welch(values[8:16], values[16:], 0.995))


def test_the_weakest_goes_first_and_its_two_levels_become_one() -> None:
    """Two candidates: the first is below the least and is dropped, the second is then measured against both levels."""
    low, high = around(0, 0.006), around(0.06)
    (step,) = find_steps(low + high, LEAST)
    assert step.index == 16
    assert step.change == pytest.approx(0.06 - fmean(low))
    assert step.confidence == pytest.approx(1 - ALPHA), "of two candidates"
    assert (step.low, step.high) == pytest.approx(welch(low, high, 1 - ALPHA))
    (other,) = find_steps([-value for value in (*high, *reversed(low))], LEAST)
    assert (other.index, other.change) == (8, pytest.approx(step.change))


def test_a_change_of_exactly_the_least_counts() -> None:
    values = [0.0] * 10 + [0.25] * 10
    assert [step.index for step in find_steps(values, 0.25)] == [10]
    assert find_steps(values, 0.2500001) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_that_holds_zero_makes_no_step(sign: int) -> None:
    """The search does not see the one odd run, and finds a place; the runs as they are say nothing for certain."""
    values = [0.0] * 7 + [0.02] * 3 + [5.0] + [0.02] * 3
    assert steps._candidates([sign * value for value in values], 0.002) == [7]
    assert find_steps([sign * value for value in values], LEAST) == []


# --- levels and errors --------------------------------------------------------------------------------------------------------


def test_levels_are_means_between_the_steps() -> None:
    def step(index: int) -> Step:
        return Step(index, 0, 0, 0, 0.9)

    values = [1.0, 2.0, 6.0, 10.0, 20.0]
    assert levels(values, []) == [7.8]
    assert levels(values, [step(2), step(3)]) == [1.5, 6.0, 15.0]


@pytest.mark.parametrize("least", [0.0, -1.0, math.nan])
def test_a_least_step_is_above_zero(least: float) -> None:
    with pytest.raises(ValueError, match="the least step must be above zero, got"):
        find_steps([], least)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_every_value_is_finite(odd: float) -> None:
    with pytest.raises(ValueError, match="every value must be finite"):
        find_steps([0.0, odd], LEAST)
