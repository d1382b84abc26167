"""No worse than a baseline: the one-edged band, what failed, and error rates by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.regression import judge_ratios, judge_regression, pair_rates, pairs_wanted
from lab.judge.tolerance import LookPlan
from lab.model.results import Sample

MakeSample = Callable[..., Sample]
Take = Callable[..., list[Sample]]

PLAN = LookPlan()
ratios = st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=5).filter(lambda values: float(np.std(values)) > 1e-6)


@pytest.fixture(name="take")
def taker(make_sample: MakeSample) -> Take:
    """Samples of these rates (MB/s); None is a transfer that failed."""

    def take(rates: Sequence[float | None], **more: object) -> list[Sample]:
        return [
            make_sample(index, ok=rate is not None, problem="" if rate else "cut off", body_byte_s=rate and rate * 1e6, **more)
            for index, rate in enumerate(rates)
        ]

    return take


@given(ratios, st.floats(0.01, 0.5))
def test_pass_is_one_one_sided_test(values: list[float], margin: float) -> None:
    p = float(stats.ttest_1samp(values, math.log1p(-margin), alternative="greater").pvalue)
    assert (judge_ratios(values, margin, PLAN).name == "PASS") == (p <= PLAN.alpha_per_look)


@pytest.mark.parametrize(("ratio", "name"), [(1.0, "PASS"), (2.0, "PASS"), (0.95, "PASS"), (0.949, "FAIL"), (0.5, "FAIL")])
def test_only_slower_by_more_than_the_margin_is_a_fault(ratio: float, name: str) -> None:
    verdict = judge_ratios([math.log(ratio)] * 5, 0.05, PLAN)
    assert (verdict.name, verdict.band_low, verdict.band_high, verdict.looks) == (name, 0.95, None, [5])
    assert verdict.interval
    assert verdict.interval.mean == pytest.approx(ratio)


def test_no_verdict_before_the_first_look_and_the_next_look_is_named() -> None:
    too_few = judge_ratios([0.0] * 4, 0.05, PLAN)
    assert too_few.reason == "4 of the 5 pairs needed for the first look; the next look is after pair 5"
    open_still = judge_ratios([-0.1, 0.1, -0.1, 0.1, 0.0], 0.05, PLAN)
    assert open_still.name == "INCONCLUSIVE"
    assert open_still.reason.endswith("across 0.95, n = 5 pairs; the next look is after pair 10")


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, math.nan])
def test_refuses_a_margin_outside_0_to_1(margin: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        judge_ratios([0.0] * 5, margin, PLAN)


def test_what_drifts_for_both_cancels(take: Take) -> None:
    falling = [10.0, 8.0, 6.0, 4.0, 2.0]
    verdict = judge_regression(take(falling), take([rate * 1.01 for rate in falling]), 0.05, PLAN)
    assert verdict
    assert (verdict.name, verdict.interval and round(verdict.interval.mean, 3)) == ("PASS", 0.99)


def test_a_transfer_that_only_the_candidate_failed_is_a_regression(take: Take) -> None:
    verdict = judge_regression(take([5, 5, None]), take([5, 5]), 0.05, PLAN)
    assert verdict
    assert verdict.name == "FAIL"
    assert "transfer 3 failed with the candidate" in verdict.reason
    assert "cut off" in verdict.reason
    assert pairs_wanted(take([5, 5, None]), take([5, 5]), 0.05, PLAN) is None


def test_a_baseline_that_failed_is_nothing_to_compare_with(take: Take) -> None:
    assert judge_regression(take([5] * 5), take([5, None]), 0.05, PLAN) is None
    assert judge_regression(take([5, None]), take([5, None]), 0.05, PLAN) is None
    assert pairs_wanted(take([5] * 2), take([5, None]), 0.05, PLAN) is None
    assert pair_rates(take([5] * 5), take([6, None])).ratios == pytest.approx([math.log(5 / 6)])


def test_one_clock_for_both(take: Take) -> None:
    wire, exact = take([5] * 5, body_clock="wire"), take([9] * 5, body_clock="client")
    assert pair_rates(wire, exact).clock == "total"
    assert pair_rates(wire, exact).ratios == [0.0] * 5
    blind = take([5] * 5, body_clock="wire", total_byte_s=None)
    verdict = judge_regression(blind, exact, 0.05, PLAN)
    assert verdict
    assert (verdict.name, pair_rates(blind, exact).clock) == ("INVALID", None)


def test_goes_on_while_it_is_open(take: Take) -> None:
    assert pairs_wanted([], [], 0.05, PLAN) == 5
    assert pairs_wanted(take([5] * 5), take([5] * 5), 0.05, PLAN) is None
    assert pairs_wanted(take([5, 6] * 3), take([6, 5] * 3), 0.05, PLAN) == 10
    assert pairs_wanted(take([5, 6] * 10), take([6, 5] * 10), 0.05, PLAN) is None


# --- error rates --------------------------------------------------------------------------------------------------------------


def share(name: str, ratio: float, runs: int, plan: LookPlan = PLAN) -> float:
    """How often a candidate of that true ratio gets that verdict; clients spread by 2 %, the machine drifts by 10 %."""
    rng = np.random.default_rng(20260102)
    machine = rng.normal(0, 0.1, (runs, plan.cap)).cumsum(axis=1)
    ours = machine + rng.normal(math.log(ratio), 0.02, (runs, plan.cap))
    theirs = machine + rng.normal(0, 0.02, (runs, plan.cap))
    return sum(judge_ratios(row.tolist(), 0.05, plan).name == name for row in ours - theirs) / runs


@pytest.mark.usefixtures("quick")
def test_exactly_at_the_margin_either_error_is_seldom() -> None:
    """Pocock's alpha makes it .0505 (200,000 draws); two standard errors of 4000 are .007."""
    assert share("PASS", 0.95, 4000) < 0.058
    assert share("FAIL", 0.95, 4000) < 0.058


@pytest.mark.usefixtures("quick")
def test_peeking_without_correction_would_err_more_often() -> None:
    assert share("PASS", 0.95, 2000, LookPlan(alpha_per_look=0.05)) > 0.08


@pytest.mark.usefixtures("quick")
def test_equals_pass_and_what_is_much_slower_fails() -> None:
    assert share("PASS", 1.0, 500) > 0.95
    assert share("FAIL", 0.88, 500) > 0.95
