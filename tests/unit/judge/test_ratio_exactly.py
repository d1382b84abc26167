"""The estimate behind a comparison, by textbook formulas and by hand; also quantiles and costs, which are as short."""

from __future__ import annotations

import math
from statistics import variance
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge import ratio
from lab.judge.cost import SCORE_FACT, cost_note, cost_ratio, score_of
from lab.judge.quantile import quantile
from lab.judge.ratio import ALPHA, LogRatio, Tolerance, is_rate, paired_ratio, welch_ratio

A, B = [1.0, 1.1, 0.9, 1.05], [2.0, 2.1, 1.7]


def test_welch_has_the_means_errors_and_degrees_of_the_logarithms() -> None:
    logs_a, logs_b = np.log(A), np.log(B)
    share_a, share_b = variance(logs_a.tolist()) / 4, variance(logs_b.tolist()) / 3
    found = welch_ratio(A, B)
    assert found.mean == pytest.approx(logs_b.mean() - logs_a.mean())
    assert found.error == pytest.approx(math.sqrt(share_a + share_b))
    assert found.degrees == pytest.approx((share_a + share_b) ** 2 / (share_a**2 / 3 + share_b**2 / 2))
    assert (found.n, welch_ratio(B, A).n) == (3, 3)


def test_equal_values_have_no_error_and_one_spread_is_enough() -> None:
    assert welch_ratio([2.0] * 2, [3.0] * 5) == LogRatio(math.log(3) - math.log(2), 0.0, math.inf, 2)
    half = welch_ratio(A, [2.0, 2.0])
    assert (half.error, half.degrees) == pytest.approx((math.sqrt(variance(np.log(A).tolist()) / 4), 3))


def test_pairs_have_the_mean_and_the_error_of_their_own_ratios() -> None:
    logs = np.log([2.0, 2.2, 1.7]) - np.log([1.0, 1.05, 0.9])
    found = paired_ratio([1.0, 1.05, 0.9], [2.0, 2.2, 1.7])
    assert (found.mean, found.error) == pytest.approx((logs.mean(), stats.sem(logs)))
    assert (found.degrees, found.n) == (2, 3)
    assert paired_ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]) == LogRatio(math.log(2), 0.0, 2, 3)
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0, 3.0], [1.0, 2.0])


def test_an_interval_is_students_on_the_logarithms() -> None:
    found = LogRatio(math.log(1.5), 0.1, 7, 8).interval(0.025)
    low, high = stats.t.interval(0.95, 7, loc=math.log(1.5), scale=0.1)
    assert (found.low, found.mean, found.high) == pytest.approx((math.exp(low), 1.5, math.exp(high)))
    assert (found.n, found.confidence) == (8, 0.95)
    assert LogRatio(0.0, 0.1, 7, 8).interval().confidence == 1 - 2 * ALPHA
    sharp = LogRatio(math.log(1.5), 0.0, math.inf, 2).interval()
    assert sharp.low == sharp.mean == sharp.high == pytest.approx(1.5)


@pytest.mark.parametrize("mean", [-0.2, -0.05, 0.0, 0.05, 0.2])
def test_a_p_value_is_that_of_the_nearer_edge(mean: float) -> None:
    found = LogRatio(mean, 0.03, 6, 7)
    low, high = math.log(0.9), math.log(1.1)
    below, above = stats.t.cdf((mean - low) / 0.03, 6), stats.t.sf((mean - high) / 0.03, 6)
    assert found.p_outside(Tolerance(0.1)) == pytest.approx(min(below, above))
    assert found.p_outside(Tolerance(0.1, one_sided=True)) == pytest.approx(below)


def test_without_an_error_a_ratio_is_outside_or_not() -> None:
    def p(mean: float, *, one_sided: bool = False) -> float:
        return LogRatio(mean, 0.0, math.inf, 2).p_outside(Tolerance(0.1, one_sided))

    high, low = math.log(1.1), math.log(0.9)
    assert [p(high), p(high + 1e-13), p(high + 1e-11), p(low), p(low - 1e-11), p(0.0)] == [1, 1, 0, 1, 0, 1]
    assert [p(high + 1, one_sided=True), p(low - 1e-11, one_sided=True)] == [1, 0]


def test_far_beyond_every_quantile_there_is_nothing() -> None:
    assert (ratio._student_tail(math.inf, 3), ratio._student_tail(-math.inf, 3)) == (0, 1)
    assert ratio._student_tail(1.5, 3) == pytest.approx(stats.t.sf(1.5, 3))


def test_a_tolerance_has_two_edges_or_one() -> None:
    both, slower = Tolerance(0.2), Tolerance(0.2, one_sided=True)
    assert both.edges == pytest.approx((math.log(0.8), math.log(1.2)))
    assert slower.edges == (both.edges[0], math.inf)
    assert (both.highest, slower.highest) == (1.2, None)
    assert (str(both), str(slower)) == ("±20 %", "20 % slower")
    assert not Tolerance(0.1).one_sided


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ([], "an interval needs at least two values, got 0"),
        ([1.0], "an interval needs at least two values, got 1"),
        ([1.0, 0.0], r"every rate must be finite and above zero, got \[1.0, 0.0\]"),
        ([1.0, math.inf, 2.0], r"every rate must be finite and above zero, got \[1.0, inf, 2.0\]"),
    ],
)
def test_a_side_has_two_rates_above_zero(bad: list[float], said: str) -> None:
    for sides in ((bad, A), (A, bad)):
        for make in (welch_ratio, paired_ratio):
            with pytest.raises(ValueError, match=f"^{said}$"):
                make(*sides)


def test_a_rate_is_finite_and_above_zero() -> None:
    assert [is_rate(each) for each in (1e-300, 1.0, 0.0, -1.0, math.inf, math.nan)] == [True, True, False, False, False, False]


# --- quantiles ----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-9, 9), max_size=12), st.integers(0, 20))
def test_a_quantile_is_the_smallest_value_that_is_large_enough(values: list[int], twentieths: int) -> None:
    wanted = [each for each in sorted(values) if 20 * sum(other <= each for other in values) >= twentieths * len(values)]
    assert quantile(values, twentieths / 20) == (wanted[0] if wanted else None)


# --- costs --------------------------------------------------------------------------------------------------------------------


def measured(*cpu_s: float, score: object = None) -> Any:
    samples = [SimpleNamespace(cpu_user_s=each, cpu_system_s=0.0, expected_bytes=10**9, ok=True) for each in cpu_s]
    hosts = {"client": {SCORE_FACT: score}} if score is not None else {}
    return SimpleNamespace(id="c--t--x", clock="real", samples=samples, before=SimpleNamespace(hosts=hosts))


@pytest.mark.parametrize(("score", "found"), [(300, 300.0), (0.5, 0.5), (0, None), (-1, None), ("300", None), (None, None)])
def test_a_score_is_a_number_above_zero(score: object, found: float | None) -> None:
    assert score_of(measured(score=score)) == found


def test_a_ratio_of_costs_is_that_of_two_rates() -> None:
    assert cost_ratio(measured(*A), measured(*B)) == welch_ratio(A, B).interval()
    for other in ((), (1.0,), (1.0, 0.0)):
        assert cost_ratio(measured(*A), measured(*other)) is None
        assert cost_ratio(measured(*other), measured(*A)) is None


def test_costs_are_printed_side_by_side_under_their_names() -> None:
    one, other = measured(0.5, score=100), measured(0.25, score=400)
    assert cost_note(one, other, ("old", "new")) == (
        "c--t--x: old 0.50 CPU s per GB x 100 MB/s = 50 MB hashed per GB; new 0.25 CPU s per GB x 400 MB/s = 100 MB hashed per GB"
    )
    assert cost_note(one, measured(score=400)) == cost_note(measured(0.5), other) == ""
