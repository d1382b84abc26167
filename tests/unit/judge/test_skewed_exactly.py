"""When samples are skewed and how wide their interval is then, against scipy and by hand."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from lab.judge import skewed
from lab.judge.skewed import LEAST_VALUES, RESAMPLES, SKEWED_P, bootstrap_interval, is_skewed, widened
from lab.model.results import Interval

TAIL = [0.0, 0.1, 0.2, 0.1, 0.0, 0.3, 0.1, 3.0]


@given(st.lists(st.integers(-20, 20), min_size=8, max_size=40), st.booleans())
def test_skewed_is_what_scipys_test_says(values: list[int], mirrored: bool) -> None:
    numbers = [-float(value) if mirrored else float(value) for value in values]
    assume(np.std(numbers) > 0)
    p = float(stats.skewtest(numbers).pvalue)
    assume(abs(p - SKEWED_P) > 1e-6)
    assert is_skewed(numbers) == (p < SKEWED_P)


@pytest.mark.parametrize("n", [8, 9, 13, 20, 80])
def test_the_critical_skewness_is_that_of_scipys_test(n: int) -> None:
    """Two values far below or above the others are moved until the skewness is just under and just over the critical one."""

    def skewness(far: float) -> tuple[float, list[float]]:
        values = [*np.linspace(-1, 1, n - 1).tolist(), far]
        return float(stats.skew(values)), values

    low, high = 1.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if skewness(middle)[0] < skewed._critical_skewness(n) else (low, middle)
    assert float(stats.skewtest(skewness(high)[1]).pvalue) == pytest.approx(SKEWED_P, rel=1e-6)
    assert not is_skewed(skewness(low * 0.999)[1])
    assert is_skewed(skewness(high * 1.001)[1])


def test_too_few_values_and_equal_ones_are_not_skewed() -> None:
    assert is_skewed(TAIL)
    assert len(TAIL) == LEAST_VALUES
    assert not is_skewed([0.0, *TAIL[2:]])
    assert not is_skewed([5.0] * 20)
    tiny = [0.0] * 9 + [1e-170]
    assert not is_skewed(tiny), "their spread is too small for a number"


def student(low: float, high: float, confidence: float = 0.968) -> Interval:
    return Interval(n=8, mean=0.5, low=low, high=high, confidence=confidence)


def test_the_bootstrap_is_scipys_with_that_seed() -> None:
    found = bootstrap_interval(TAIL, 0.9, 7)
    wanted = stats.bootstrap(
        (np.array(TAIL),),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=0.9,
        method="BCa",
        random_state=np.random.default_rng(7),
    ).confidence_interval
    assert found
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))
    assert (found.n, found.mean, found.confidence) == (8, pytest.approx(0.475), 0.9)
    assert bootstrap_interval(TAIL, 0.9, 8) != found
    fewer = bootstrap_interval(TAIL, 0.9, 7, 99)
    assert fewer
    assert fewer != found


def test_two_values_are_enough_and_equal_ones_have_none() -> None:
    assert bootstrap_interval([0.0, 1.0], 0.9, 1) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bootstrap_interval([1.0, 1.0, 1.0], 0.9, 1) is None


@pytest.mark.parametrize(
    ("values", "confidence"), [([], 0.9), ([1.0], 0.9), ([0.0, 1.0], 0.0), ([0.0, 1.0], 1.0), ([0.0, 1.0], -0.5)]
)
def test_a_bootstrap_needs_two_values_and_a_confidence(values: list[float], confidence: float) -> None:
    said = f"a bootstrap needs two values and a confidence between 0 and 1, got {len(values)} and {confidence}"
    with pytest.raises(ValueError, match=said):
        bootstrap_interval(values, confidence, 1)


def test_a_widened_interval_holds_both() -> None:
    own = bootstrap_interval(TAIL, 0.968, 3)
    assert own
    inside, around = student(own.low + 0.01, own.high - 0.01), student(own.low - 1, own.high + 1)
    assert widened(inside, TAIL, 3) == inside.model_copy(update={"low": own.low, "high": own.high})
    assert widened(around, TAIL, 3) == around
    assert widened(student(0.0, own.high + 1), TAIL, 3).low == min(0.0, own.low)
    assert widened(inside, [1.0] * 8, 3) == inside, "where the bootstrap has none"
    narrow = widened(student(0.5, 0.5, 0.5), TAIL, 3)
    half = bootstrap_interval(TAIL, 0.5, 3)
    assert half
    assert (narrow.low, narrow.high) == (min(0.5, half.low), max(0.5, half.high)), "at the same confidence"


def test_the_formula_is_dagostinos() -> None:
    """By hand for n = 8, with the quantile of a table."""
    kurtosis = 3 * 210 * 99 / (6 * 13 * 15 * 17)
    squared = math.sqrt(2 * (kurtosis - 1)) - 1
    delta, alpha = 1 / math.sqrt(math.log(math.sqrt(squared))), math.sqrt(2 / (squared - 1))
    y = alpha * math.sinh(1.959964 / delta)
    assert skewed._critical_skewness(8) == pytest.approx(y / math.sqrt(99 / 36), rel=1e-6)
