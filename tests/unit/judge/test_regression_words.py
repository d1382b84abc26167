"""The sentences of a verdict on a candidate and its baseline, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from lab.judge.decide import LookPlan
from lab.judge.regression import judge_ratios, judge_regression, pair_rates, pairs_wanted, ratio_interval
from lab.model.results import Sample

MakeSample = Callable[..., Sample]
PLAN = LookPlan()
WIDE = [-0.1, 0.1, -0.1, 0.1, 0.0]


def interval(logs: list[float]) -> tuple[float, float]:
    low, high = stats.t.interval(0.968, len(logs) - 1, loc=np.mean(logs), scale=stats.sem(logs))
    return math.exp(low), math.exp(high)


@pytest.mark.parametrize(
    ("ratio", "name", "place"), [(0.95, "PASS", "not below"), (0.9, "FAIL", "below"), (2.0, "PASS", "not below")]
)
def test_a_decided_ratio_is_given_with_its_pairs(ratio: float, name: str, place: str) -> None:
    verdict = judge_ratios([math.log(ratio)] * 8, 0.05, PLAN)
    figures = f"{ratio:.3f}, 96.8 % interval {ratio:.3f} to {ratio:.3f}"
    assert (verdict.name, verdict.reason) == (name, f"candidate / baseline {figures}, {place} 0.95, n = 5 pairs")
    assert verdict.warnings == ["decided after 5 pairs; 3 taken after that are not used"]
    assert (verdict.band_low, verdict.method, verdict.looks, verdict.alpha_per_look) == (0.95, "pairs", [5], 0.016)


def test_an_open_ratio_waits_for_the_next_look() -> None:
    low, high = interval(WIDE)
    figures = f"candidate / baseline 1.000, 96.8 % interval {low:.3f} to {high:.3f}, across 0.95, n = 5 pairs"
    assert judge_ratios(WIDE, 0.05, PLAN).reason == f"{figures}; the next look is after pair 10"
    assert judge_ratios(WIDE, 0.05, LookPlan((5,), 0.016)).reason == figures
    (size,) = judge_ratios(WIDE, 0.05, PLAN).warnings
    assert size.startswith("n too small for this band: candidate / baseline: with a spread of 10.00 % from run to run")
    assert size.endswith("the plan ends at 20")


@pytest.mark.parametrize(("taken", "known"), [(0, False), (1, False), (2, True), (4, True)])
def test_before_the_first_look_there_is_only_something_to_read(taken: int, known: bool) -> None:
    verdict = judge_ratios(WIDE[:taken], 0.05, PLAN)
    assert verdict.reason == f"{taken} of the 5 pairs needed for the first look; the next look is after pair 5"
    assert (verdict.name, verdict.interval is not None, verdict.method) == ("INCONCLUSIVE", known, "pairs" if known else None)
    assert (verdict.band_low, verdict.looks, verdict.warnings) == (0.95, [], [])
    shown = ratio_interval(WIDE[:taken], PLAN)
    assert shown == verdict.interval


def test_caveats_are_about_the_ratio() -> None:
    odd = judge_ratios([0.0, 0.0, 0.2, 0.0, 0.0], 0.05, PLAN)
    assert any(warning.startswith("outlier: candidate / baseline: sample 3 (+22.14 %)") for warning in odd.warnings)
    rising = judge_ratios([0.1, 0.11, 0.12, 0.13, 0.14], 0.05, PLAN)
    assert [warning.split(" from ")[0] for warning in rising.warnings] == [
        "drift over the run: candidate / baseline: the samples drift by +4.08 %"
    ]
    modes = judge_ratios([0.0, 0.1] * 5, 0.05, LookPlan((10,), 0.016))
    assert [warning.split(" samples")[0] for warning in modes.warnings] == ["bimodal: candidate / baseline: 5"]


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.5, 1.5])
def test_a_margin_is_a_fraction(margin: float) -> None:
    with pytest.raises(ValueError, match=f"^a margin is a fraction between 0 and 1, got {margin}$"):
        judge_ratios(WIDE, margin, PLAN)


def test_only_transfers_before_the_first_failure_are_pairs(make_sample: MakeSample) -> None:
    def take(*rates: float | None) -> list[Sample]:
        return [make_sample(index, ok=rate is not None, body_byte_s=rate) for index, rate in enumerate(rates)]

    found = pair_rates(take(2.0, 4.0, None, 8.0), take(1.0, 1.0, 1.0, 1.0))
    assert (found.clock, found.candidate, found.baseline) == ("client", [2.0, 4.0], [1.0, 1.0, 1.0, 1.0])
    assert found.ratios == pytest.approx([math.log(2), math.log(4)])
    for other in (take(0.0, 1.0), take(1.0, math.inf)):
        empty = pair_rates(take(1.0, 1.0), other)
        assert (empty.clock, empty.candidate, empty.baseline, empty.ratios) == (None, [], [], [])
    assert pair_rates([], []).clock is None
    one_sided = pair_rates(take(2.0), [])
    assert (one_sided.clock, one_sided.candidate, one_sided.baseline) == ("client", [2.0], [])


def test_a_transfer_that_failed_is_named(make_sample: MakeSample) -> None:
    good = [make_sample(index) for index in range(5)]
    failed = [*good[:2], make_sample(2, ok=False, problem="cut off"), make_sample(3, ok=False)]
    verdict = judge_regression(failed, good, 0.05, PLAN)
    words = "failed with the candidate, but not with the baseline"
    assert verdict
    assert (verdict.name, verdict.reason) == ("FAIL", f"transfer 3 {words}: cut off")
    verdict = judge_regression(failed[3:], good, 0.05, PLAN)
    assert verdict
    assert verdict.reason == f"transfer 4 {words}: exit code 18"
    assert judge_regression(failed, failed, 0.05, PLAN) is None
    assert judge_regression(good, failed, 0.05, PLAN) is None


def test_without_a_clock_the_lab_is_at_fault_and_without_samples_nothing_is_decided(make_sample: MakeSample) -> None:
    blind = [make_sample(0, body_byte_s=None, total_byte_s=None)]
    verdict = judge_regression(blind, blind, 0.05, PLAN)
    assert verdict
    assert (verdict.name, verdict.reason) == ("INVALID", "the lab did not measure a speed for every transfer")
    for sides in ((blind, []), ([], blind), ([], [])):
        verdict = judge_regression(*sides, 0.05, PLAN)
        assert verdict
        assert verdict.name == "INCONCLUSIVE"
    assert pairs_wanted(blind, blind, 0.05, PLAN) is None
    assert pairs_wanted([make_sample(0)] * 6, [make_sample(0)] * 3, 0.05, PLAN) == 5


def test_while_it_is_open_no_pair_was_taken_in_vain() -> None:
    assert not any("not used" in warning for warning in judge_ratios([*WIDE, 0.0], 0.05, PLAN).warnings)
