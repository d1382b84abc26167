"""Most transfers outside the band: a sign test, and what the judge makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.share import most_outside, outside
from lab.judge.tolerance import Band, judge_band, judge_tolerance, next_look

EDGES = Band.within(0.05).edges


@given(st.lists(st.sampled_from([0.0, 0.2, -0.2]), min_size=1, max_size=80), st.floats(0.001, 0.2))
def test_it_is_the_exact_binomial_test(values: list[float], alpha: float) -> None:
    beyond = outside(values, EDGES)
    p = float(binomtest(beyond, len(values), 0.5, alternative="greater").pvalue)
    assert beyond == sum(value != 0 for value in values)
    if not math.isclose(p, alpha, rel_tol=1e-9):
        assert most_outside(values, EDGES, alpha) == (p < alpha)


def test_an_edge_belongs_to_the_band() -> None:
    assert outside(EDGES, EDGES) == 0
    assert not most_outside([], EDGES, 0.05)


def test_an_open_band_makes_no_claim_about_single_transfers() -> None:
    high = Band.at_most(0.05)
    assert not most_outside([1.0] * 80, high.edges, 0.05)
    swinging = [0.3, -0.3] * 5
    assert judge_band(swinging, high, LookPlan()).name == "INCONCLUSIVE"
    assert judge_band(swinging, Band.within(0.05), LookPlan()).name == "FAIL"


def test_a_client_with_two_speeds_around_its_limit_is_decided_at_the_second_look() -> None:
    """curl 7.88.1 takes 14 % off its limit in a third of its h2 downloads and adds 12 % in the others: within 5 % on average."""
    speeds = [-0.14, 0.12, 0.10, -0.14, 0.09]
    assert next_look(speeds, 0.05, VIRTUAL_PLAN) == 10, "five of five may be chance"
    assert next_look(speeds * 2, 0.05, VIRTUAL_PLAN) is None
    verdict = judge_tolerance(speeds * 2, 0.05, VIRTUAL_PLAN)
    assert (verdict.name, verdict.looks) == ("FAIL", [5, 10])
    assert verdict.reason.startswith("10 of 10 transfers outside ±5 %; mean -")
    assert verdict.interval
    assert verdict.interval.low < 0 < verdict.interval.high


def test_it_overrules_a_mean_that_is_inside() -> None:
    swinging = [0.055, -0.055] * 40
    assert judge_tolerance(swinging, 0.05, LookPlan.single(80)).name == "FAIL"
    assert judge_tolerance([value * 0.8 for value in swinging], 0.05, LookPlan.single(80)).name == "PASS"


@pytest.mark.parametrize("plan", [LookPlan(), VIRTUAL_PLAN], ids=["real", "virtual"])
def test_a_client_half_of_whose_transfers_are_outside_seldom_fails(plan: LookPlan) -> None:
    """The promise of a sign test at every look: in less than 5 of 100 cells."""
    random = np.random.default_rng(20261122)
    wrong = sum(
        any(most_outside(row[:look], EDGES, plan.alpha_per_look) for look in plan.looks)
        for row in np.where(random.random((4000, plan.cap)) < 0.5, 0.2, 0.0).tolist()
    )
    assert wrong / 4000 < 0.05
