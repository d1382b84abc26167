"""The Student interval against scipy's own, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge import student
from lab.judge.interval import mean_interval

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).filter(lambda values: np.std(values) > 1e-3)


@given(VALUES, st.floats(0.5, 0.999))
def test_agrees_with_scipy(values: list[float], confidence: float) -> None:
    found = mean_interval(values, confidence)
    low, high = stats.t.interval(confidence, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert [found.low, found.high] == pytest.approx([low, high], rel=1e-9, abs=1e-6)
    assert found.n == len(values)


@given(VALUES)
def test_more_confidence_is_wider_and_holds_the_mean(values: list[float]) -> None:
    narrow, wide = mean_interval(values, 0.5), mean_interval(values, 0.99)
    assert wide.low < narrow.low <= narrow.mean <= narrow.high < wide.high


@given(st.floats(-1e6, 1e6), st.integers(2, 20))
def test_equal_values_have_no_width(value: float, n: int) -> None:
    found = mean_interval([value] * n, 0.9)
    assert found.low == found.mean == found.high == value


@pytest.mark.parametrize(
    ("values", "confidence"),
    [([], 0.9), ([1.0], 0.9), ([1.0, math.nan], 0.9), ([1.0, math.inf], 0.9), ([1.0, 2.0], 1.0), ([1.0, 2.0], 0.0)],
)
def test_refuses(values: list[float], confidence: float) -> None:
    with pytest.raises(ValueError, match=r"must be|at least two"):
        mean_interval(values, confidence)


def test_the_file_of_quantiles_is_scipys_to_the_last_bit() -> None:
    """`python -m lab.judge.student` writes it."""
    assert student._known() == student.table()


@pytest.mark.parametrize(("probability", "degrees"), [(0.984, 19), (0.984, 19.5), (0.984, 80), (0.9, 19), (0.95, 1)])
def test_a_quantile_is_the_same_in_the_file_and_out_of_it(probability: float, degrees: float) -> None:
    assert student.quantile(probability, degrees) == student.by_scipy(probability, degrees)
    assert student.quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-9)
