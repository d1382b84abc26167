"""Skewed samples: scipy's own test, a bootstrap that repeats, a union that only widens, and what it is worth by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lab.judge.decide import LookPlan, decide
from lab.judge.interval import mean_interval
from lab.judge.skewed import LEAST_VALUES, SKEWED_P, bootstrap_interval, is_skewed, widened
from lab.judge.tolerance import judge_tolerance, next_look

PLAN = LookPlan()
STALLS = [0.0, 0.002, 0.001, -0.001, 0.003, 0.001, 0.0, -0.15, 0.002, -0.09]
GAUSSIAN = [-0.012, -0.008, -0.005, -0.002, 0.0, 0.001, 0.003, 0.005, 0.008, 0.011]


@given(st.lists(st.floats(-1, 1), min_size=LEAST_VALUES, max_size=40).filter(lambda values: np.std(values) > 1e-3))
def test_skewed_is_what_scipy_calls_so(values: list[float]) -> None:
    p = float(stats.skewtest(values).pvalue)
    if abs(p - SKEWED_P) > 1e-9:
        assert is_skewed(values) == (p < SKEWED_P)


@pytest.mark.parametrize("values", [[], [1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0], [3.0] * 20])
def test_few_or_equal_values_are_never_skewed(values: list[float]) -> None:
    assert not is_skewed(values)


def test_about_one_normal_sample_in_twenty_is_called_skewed() -> None:
    draws = np.random.default_rng(3).normal(size=(4000, 10)).tolist()
    assert sum(map(is_skewed, draws)) / len(draws) == pytest.approx(SKEWED_P, abs=0.015)


def test_the_bootstrap_repeats_with_its_seed_and_agrees_with_scipy() -> None:
    one = bootstrap_interval(STALLS, 0.9, seed=1)
    assert one
    assert one == bootstrap_interval(STALLS, 0.9, seed=1)
    assert one != bootstrap_interval(STALLS, 0.9, seed=2)
    fine = stats.bootstrap((STALLS,), np.mean, confidence_level=0.9, n_resamples=20000, random_state=5).confidence_interval
    assert (one.low, one.high) == pytest.approx((fine.low, fine.high), abs=0.15 * (fine.high - fine.low))


@pytest.mark.parametrize(("values", "confidence"), [([1.0], 0.9), ([1.0, 2.0], 1.0), ([1.0, 2.0], 0.0)])
def test_refuses(values: list[float], confidence: float) -> None:
    with pytest.raises(ValueError, match="bootstrap"):
        bootstrap_interval(values, confidence, seed=1)


def test_equal_values_have_no_bootstrap_and_leave_students() -> None:
    assert bootstrap_interval([2.0] * 9, 0.9, seed=1) is None
    student = mean_interval([2.0] * 9, 0.9)
    assert widened(student, [2.0] * 9, seed=1) is student


@settings(max_examples=25)
@given(st.lists(st.floats(-1, 1), min_size=8, max_size=20).filter(lambda values: np.std(values) > 1e-3))
def test_the_union_only_widens(values: list[float]) -> None:
    student = mean_interval(values, 0.968)
    both = widened(student, values, seed=7)
    assert both.low <= student.low < student.high <= both.high
    assert both.mean == student.mean


def test_the_verdict_says_how_its_interval_was_made() -> None:
    # Outliers so wide that five samples give no verdict and all ten are judged.
    skewed = judge_tolerance([math.expm1(value) for value in sorted(STALLS)], 0.05, PLAN)
    assert (skewed.looks, skewed.method) == ([5, 10], "student and bootstrap")
    student = mean_interval(sorted(STALLS), PLAN.confidence)
    assert skewed.interval
    assert math.log1p(skewed.interval.low) < student.low, "the tail is on the slow side"
    assert judge_tolerance(GAUSSIAN, 0.05, PLAN).method == "student"
    assert judge_tolerance([0.01], 0.05, PLAN).method is None
    again = judge_tolerance([math.expm1(value) for value in sorted(STALLS)], 0.05, PLAN)
    assert again == skewed, "the same samples give the same verdict"


@pytest.mark.parametrize("kind", ["lognormal", "gamma"])
def test_a_skewed_client_at_the_edge_passes_less_often_than_by_student_alone(kind: str) -> None:
    """The same cells by both: the union refuses whatever Student's alone refuses, and more."""
    random = np.random.default_rng(8)
    shape = (2500, PLAN.cap)
    tail = random.lognormal(0, 0.5, shape) / 0.6 if kind == "lognormal" else random.gamma(1, 1, shape)
    mean = math.exp(0.125) / 0.6 if kind == "lognormal" else 1.0
    rows = math.log1p(-0.05) - 0.02 * (tail - mean)
    plain: list[bool] = []
    joined: list[bool] = []
    for row in rows.tolist():
        edges = (math.log1p(-0.05), math.log1p(0.05))
        found = decide(PLAN, PLAN.cap, lambda look, row=row: mean_interval(row[:look], PLAN.confidence), edges)  # type: ignore[misc]
        plain.append(found.name == "PASS")
        # Only what Student's passes can be passed by both together.
        deviations = [math.expm1(value) for value in row]
        joined.append(plain[-1] and _passes(deviations))
    assert sum(joined) < sum(plain)
    assert sum(plain) / len(rows) > 0.10, "the samples are skewed enough to matter"


def _passes(deviations: list[float]) -> bool:
    look = 0
    while (goal := next_look(deviations[:look], 0.05, PLAN)) is not None:
        look = goal
    return judge_tolerance(deviations[:look], 0.05, PLAN).name == "PASS"
