"""Each caveat by hand: from which value on it is due, and its words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.caveats import (
    DRIFT_P,
    _kendall_normal_p,
    bimodal_caveat,
    drift_caveat,
    outlier_caveat,
    predict_samples,
    size_caveat,
)

ALPHA = 0.016
EDGES = (-0.05, 0.05)


# --- how many samples ---------------------------------------------------------------------------------------------------------


def spread_for(n: int, room: float) -> float:
    """The largest spread at which n samples decide with a chance of 90 %."""
    return float(room * math.sqrt(n) / (stats.t.ppf(1 - ALPHA, n - 1) + stats.norm.ppf(0.9)))


@pytest.mark.parametrize("n", [2, 3, 7, 50, 999, 1000])
def test_a_prediction_is_the_number_whose_spread_it_is(n: int) -> None:
    for mean, edges in ((0.02, EDGES), (-0.02, EDGES), (0.02, (-math.inf, 0.05)), (0.08, EDGES), (-0.08, EDGES)):
        assert predict_samples(mean, spread_for(n, 0.03) * (1 - 1e-9), edges, ALPHA) == n
        more = n + 1 if n < 1000 else None
        assert predict_samples(mean, spread_for(n, 0.03) * (1 + 1e-9), edges, ALPHA) == more


def test_without_a_spread_two_will_do_and_on_an_edge_no_number_does() -> None:
    assert predict_samples(0.0, 0.0, EDGES, ALPHA) == predict_samples(0.05, 0.0, EDGES, ALPHA) == 2
    assert predict_samples(0.05, 0.001, EDGES, ALPHA) is None


def test_a_plan_that_will_not_decide_is_reported_with_the_number_that_will() -> None:
    values = [-0.03, 0.0, 0.03]
    needed = predict_samples(0.0, 0.03, EDGES, ALPHA)
    assert needed
    assert size_caveat(values, EDGES, ALPHA, needed) is size_caveat(values, EDGES, ALPHA, needed + 9) is None
    assert size_caveat(values, EDGES, ALPHA, needed - 1) == (
        f"n too small for this band: with a spread of 3.00 % from run to run this needs about {needed} samples; "
        f"the plan ends at {needed - 1}"
    )
    assert size_caveat([0.02, 0.05, 0.08], EDGES, ALPHA, 20) == (
        "n too small for this band: with a spread of 3.00 % from run to run this needs more than 1000 samples; "
        "the plan ends at 20"
    )


def test_two_samples_say_nothing_about_the_spread() -> None:
    assert size_caveat([-0.5, 0.5], EDGES, ALPHA, 20) is None
    assert size_caveat([-0.5, 0.5, 0.0], EDGES, ALPHA, 20) is not None


# --- outliers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "due"), [(0.0125, False), (-0.0125, False), (0.01251, True), (-0.01251, True)])
def test_an_outlier_is_more_than_a_quarter_of_the_tolerance_away(value: float, due: bool) -> None:
    assert (outlier_caveat([0.0, 0.0, value, 0.0, 0.0], 0.05) is not None) == due


@pytest.mark.parametrize(("value", "due"), [(15.8, False), (15.9, True)])
def test_an_outlier_is_more_than_five_deviations_away(value: float, due: bool) -> None:
    """The median of these is 1, that of their distances 2: 1 + 5 * 1.4826 * 2 = 15.826."""
    values = [each / 1000 for each in (-1.0, 1.0, -1.0, 1.0, value)]
    assert (outlier_caveat(values, 0.001) is not None) == due


def test_the_farthest_is_named_with_its_place() -> None:
    values = [0.01, 0.01, -0.04, 0.01, 0.06, 0.01]
    words = f"lies far from the others (median {math.expm1(0.01) * 100:+.2f} %)"
    assert outlier_caveat(values, 0.05) == f"outlier: sample 3 ({math.expm1(-0.04) * 100:+.2f} %) {words}"
    assert outlier_caveat([0.0, 0.0, 0.0, 1.0], 0.05) is None, "four samples are too few"
    assert outlier_caveat([0.0, 0.0, 0.0, 0.0, 1.0], 0.05) is not None
    assert outlier_caveat([*values[3:], 0.01, 0.01], 0.05, lambda each: f"<{each:.3f}>") == (
        "outlier: sample 2 (<0.062>) lies far from the others (median <0.010>)"
    )


# --- two groups ---------------------------------------------------------------------------------------------------------------


def groups(values: Sequence[float], tolerance: float) -> tuple[int, int] | None:
    """The sizes of two groups, the slow way."""
    n, ordered = len(values), sorted(values)
    splits = [(ordered[at] - ordered[at - 1], -at) for at in range(1, n) if at >= n / 5 and n - at >= n / 5]
    if n < 8 or not splits:
        return None
    gap, at = max(splits)
    low, high = np.array(ordered[:-at]), np.array(ordered[-at:])
    pooled = math.sqrt((low.var() * len(low) + high.var() * len(high)) / (n - 2))
    apart = float(high.mean() - low.mean())
    return (len(low), len(high)) if gap > max(40 / n, 2) * pooled * (1 + 1e-9) and apart >= tolerance / 4 else None


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=5, max_size=26), st.sampled_from([5, 8, 12, 20, 40]))
def test_two_groups_are_those_of_the_widest_gap(values: list[tuple[bool, int]], apart: int) -> None:
    rates = [(apart * high + wave) / 1000 for high, wave in values]
    found, wanted = bimodal_caveat(rates, 0.04), groups(rates, 0.04)
    assert (found is not None) == (wanted is not None)
    if found and wanted:
        first, second = found.split(" and ")
        assert first.startswith(f"bimodal: {wanted[0]} samples around ")
        assert second.startswith(f"{wanted[1]} samples around ")


def test_two_groups_are_reported_with_their_means() -> None:
    values = [0.0, 0.03, 0.0, 0.03, 0.0, 0.03, 0.0, 0.0]
    assert bimodal_caveat(values, 0.05, lambda each: f"<{each:.4f}>") == (
        "bimodal: 5 samples around <0.0000> and 3 samples around <0.0305>, nothing between: a mean describes neither"
    )


@pytest.mark.parametrize(("apart", "due"), [(0.0125, True), (0.0124, False)])
def test_two_groups_are_a_quarter_of_the_tolerance_apart(apart: float, due: bool) -> None:
    assert (bimodal_caveat([0.0] * 4 + [apart] * 4, 0.05) is not None) == due


# --- a drift ------------------------------------------------------------------------------------------------------------------


def test_a_drift_is_measured_by_the_median_of_all_slopes() -> None:
    """Six of the ten slopes are .01: four steps come to .04, and the jump at the end does not count."""
    assert drift_caveat([0.0, 0.01, 0.02, 0.03, 0.08], 0.05) == (
        "drift over the run: the samples drift by +4.08 % from the first to the last: they may not be independent"
    )
    falling = drift_caveat([0.08, 0.03, 0.02, 0.01, 0.0], 0.05)
    assert falling is not None
    assert "drift by -3.92 %" in falling


@pytest.mark.parametrize(("step", "due"), [(2**-8, True), (2**-8 - 1e-6, False)])
def test_a_drift_is_a_quarter_of_the_tolerance(step: float, due: bool) -> None:
    assert (drift_caveat([step * index for index in range(5)], 2**-4) is not None) == due
    assert (drift_caveat([-step * index for index in range(5)], 2**-4) is not None) == due


@pytest.mark.parametrize(
    ("order", "due"),
    [
        ((0, 1, 2, 3, 4), True),
        ((0, 1, 2, 4, 3), False),
        ((0, 1, 2, 3, 5, 4), True),
        ((0, 1, 3, 2, 5, 4), False),
        ((0, 1, 2, 3), False),
        ((1, 1, 1, 1, 1), False),
    ],
)
def test_a_drift_is_rare_among_samples_in_any_order(order: tuple[int, ...], due: bool) -> None:
    assert (drift_caveat([index / 10 for index in order], 0.05) is not None) == due


def _order(n: int, inversions: int) -> list[int]:
    """The first n numbers in an order with that many pairs the wrong way round."""
    left, found = [*range(n)], []
    for _ in range(n):
        found.append(left.pop(min(inversions, len(left) - 1)))
        inversions -= min(inversions, len(left))
    return found


@pytest.mark.parametrize("n", [*range(5, 16), 33])
def test_the_quick_look_at_an_order_passes_over_no_drift(n: int) -> None:
    """For every score; scipy's p is exact up to 33 values."""
    orders = [_order(n, inversions) for inversions in range(n * (n - 1) // 2 + 1)]
    exact = [float(stats.kendalltau(range(n), order).pvalue) for order in orders]
    drifts = [order for order, p in zip(orders, exact, strict=True) if p <= DRIFT_P]
    assert len(drifts) >= 2
    assert all(_kendall_normal_p(order) <= DRIFT_P for order in drifts)


@given(st.lists(st.integers(0, 4), min_size=5, max_size=40).filter(lambda values: len(set(values)) > 1))
def test_with_ties_the_quick_look_is_the_test(values: list[int]) -> None:
    found = stats.kendalltau(range(len(values)), values, method="asymptotic").pvalue
    assert _kendall_normal_p([float(value) for value in values]) == pytest.approx(float(found), rel=1e-9)
