"""The sentence of every verdict on a speed or a figure, the band behind it, and what travels with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from lab.judge.tolerance import (
    Band,
    LookPlan,
    decide_values,
    judge_band,
    judge_samples,
    judge_tolerance,
    next_look,
    samples_wanted,
    with_invalid,
)
from lab.model.numbers import percent_interval
from lab.model.results import Sample, Verdict
from lab.model.transfer import Expectation

MakeSample = Callable[..., Sample]
PLAN = LookPlan()
GOOD = [0.001, -0.002, 0.0, 0.002, -0.001]
SLOW = [value - 0.2 for value in GOOD]
WIDE = [-0.04, 0.04, -0.045, 0.05, 0.0]


def figures(values: Sequence[float], confidence: float = 0.968) -> str:
    """The mean with its interval, by scipy."""
    logs = np.log1p(values)
    ends = stats.t.interval(confidence, len(values) - 1, loc=logs.mean(), scale=stats.sem(logs))
    mean, span = percent_interval(math.expm1(logs.mean()), *(math.expm1(end) for end in ends))
    return f"mean {mean}, {confidence * 100:.4g} % interval {span}"


# --- bands --------------------------------------------------------------------------------------------------------------------


def test_a_band_has_two_edges_one_or_one_at_zero() -> None:
    assert Band.within(0.05).edges == pytest.approx((math.log(0.95), math.log(1.05)))
    assert Band.at_most(0.05).edges == (-math.inf, pytest.approx(math.log(1.05)))
    assert Band.up_to_bound().edges == (-math.inf, 0.0)
    assert [str(band) for band in (Band.within(0.05), Band.at_most(0.025), Band.up_to_bound())] == ["±5 %", "+2.5 %", "+0 %"]


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.5, 1.5])
def test_a_tolerance_is_a_fraction(tolerance: float) -> None:
    for make in (Band.within, Band.at_most):
        with pytest.raises(ValueError, match=f"a tolerance is a fraction between 0 and 1, got {tolerance}"):
            make(tolerance)


def test_a_deviation_is_above_minus_one() -> None:
    with pytest.raises(ValueError, match=r"a deviation is above -1 \(a speed above zero\), got \[0.0, -1.0\]"):
        judge_tolerance([0.0, -1.0], 0.05, PLAN)
    assert judge_tolerance([-0.999] * 5, 0.05, PLAN).name == "FAIL"


# --- the words of a verdict ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "0 of the 5 samples that a first look at ±5 % needs; the next look is at 5"),
        ([0.1], "1 of the 5 samples that a first look at ±5 % needs; the next look is at 5"),
        (GOOD[:2], f"{figures(GOOD[:2])}, too few samples to be judged against ±5 %, n = 2; the next look is at 5"),
        (GOOD, f"{figures(GOOD)}, inside ±5 %, n = 5"),
        (SLOW, f"{figures(SLOW)}, outside ±5 %, n = 5"),
        (WIDE, f"{figures(WIDE)}, across an edge of ±5 %, n = 5; the next look is at 10"),
        ([*WIDE, 0.3], f"{figures(WIDE)}, across an edge of ±5 %, n = 5; the next look is at 10"),
        ([*WIDE, *GOOD], f"{figures([*WIDE, *GOOD])}, inside ±5 %, n = 10"),
    ],
)
def test_a_reason_has_the_figures_and_the_next_look(values: list[float], reason: str) -> None:
    assert judge_tolerance(values, 0.05, PLAN).reason == reason


@pytest.mark.parametrize(("values", "place"), [(SLOW, "not above"), ([-value for value in SLOW], "above"), (WIDE, "across")])
def test_a_band_with_one_edge_is_kept_or_exceeded(values: list[float], place: str) -> None:
    verdict = judge_band(values, Band.at_most(0.02), LookPlan((5,), 0.016))
    assert verdict.reason == f"{figures(values)}, {place} +2 %, n = 5"
    assert (verdict.band_low, verdict.band_high) == (None, 0.02)


def test_the_end_of_the_plan_names_no_further_look() -> None:
    verdict = judge_tolerance(WIDE, 0.05, LookPlan((5,), 0.016))
    assert verdict.reason == f"{figures(WIDE)}, across an edge of ±5 %, n = 5"


def test_most_transfers_outside_are_counted() -> None:
    swinging = [0.3, -0.3] * 5
    verdict = judge_tolerance([*swinging, 0.0], 0.05, PLAN)
    assert verdict.reason == f"10 of 10 transfers outside ±5 %; {figures(swinging)}, n = 10"
    assert (verdict.name, verdict.looks) == ("FAIL", [5, 10])


def test_only_a_final_decision_is_widened_where_it_is_open() -> None:
    tail = [0.0, 0.001, 0.002, 0.001, 0.0, 0.003, 0.001, 0.002, 0.0, 0.5]
    for final in (True, False):
        found = decide_values(values=tail, edges=Band.within(0.05).edges, plan=LookPlan((10,), 0.016), final=final)
        assert (found.name, found.widened) == ("INCONCLUSIVE", final)


def test_a_verdict_has_its_plan_and_its_interval() -> None:
    verdict = judge_tolerance(WIDE, 0.05, LookPlan((3, 5), 0.03))
    assert (verdict.looks, verdict.alpha_per_look, verdict.method, verdict.cause) == ([3, 5], 0.03, "student", None)
    assert verdict.interval
    assert (verdict.interval.n, verdict.interval.confidence) == (5, 0.94)
    early = judge_tolerance([0.0], 0.05, PLAN)
    assert (early.interval, early.method, early.looks) == (None, None, [])


def test_a_tail_widens_the_interval_and_is_named_in_the_method() -> None:
    tail = [0.0, 0.001, 0.002, 0.001, 0.0, 0.003, 0.001, 0.002, 0.0, 0.04]
    verdict = judge_tolerance(tail, 0.05, LookPlan((10,), 0.016))
    assert verdict.method == "student and bootstrap"
    assert judge_tolerance(tail, 0.05, LookPlan((10,), 0.016)) == verdict, "the seed is always the same"


# --- what travels with it -----------------------------------------------------------------------------------------------------


def test_samples_after_the_deciding_look_are_counted() -> None:
    for decided in (GOOD, SLOW):
        warnings = judge_tolerance([*decided, 0.5, 0.5, 0.5], 0.05, PLAN).warnings
        assert warnings == ["decided at 5 samples; 3 taken after that are not used"]
    assert judge_tolerance(GOOD, 0.05, PLAN).warnings == []


def test_the_size_comes_first_and_only_where_it_is_open() -> None:
    odd = [0.001, -0.002, 0.0, 0.5, -0.001]
    first, second = judge_tolerance(odd, 0.05, PLAN).warnings
    assert first.startswith("n too small for this band: with a spread of ")
    assert first.endswith("the plan ends at 20")
    assert second == "outlier: sample 4 (+50.00 %) lies far from the others (median +0.00 %)"
    (only,) = judge_tolerance([-0.4, -0.41, -0.4, -0.41, -0.3], 0.05, PLAN).warnings
    assert only.startswith("outlier: sample 5")


def test_a_drift_is_in_the_direction_of_the_figure(make_sample: MakeSample) -> None:
    def told(kind: str, **numbers: list[float]) -> list[str]:
        samples = [make_sample(index, **{name: values[index] for name, values in numbers.items()}) for index in range(5)]
        verdict = judge_samples(samples, Expectation.model_validate({"kind": kind}), PLAN)
        return [warning.split(" from ")[0] for warning in verdict.warnings]

    rising = [0.90, 0.92, 0.94, 0.96, 0.98]
    assert told("fill", goodput_ratio=rising) == ["drift over the run: the samples drift by +8.89 %"]
    assert told("fill", goodput_ratio=rising[::-1]) == ["drift over the run: the samples drift by -8.16 %"]
    assert told("burst", burst_ratio=rising) == ["drift over the run: the samples drift by +8.89 %"]


def test_a_caveat_on_a_bounded_figure_has_the_figure(make_sample: MakeSample) -> None:
    samples = [make_sample(index, burst_ratio=0.6 if index == 2 else 0.9) for index in range(5)]
    verdict = judge_samples(samples, Expectation.model_validate({"kind": "burst"}), PLAN)
    assert verdict.warnings == ["outlier: sample 3 (0.60) lies far from the others (median 0.90)"]
    modes = [make_sample(index, burst_ratio=0.6 if index % 2 else 0.9) for index in range(10)]
    verdict = judge_samples(modes, Expectation.model_validate({"kind": "burst"}), LookPlan((10,), 0.05))
    said = "bimodal: 5 samples around 0.60 and 5 samples around 0.90, nothing between: a mean describes neither"
    assert verdict.warnings == [said]


# --- cells --------------------------------------------------------------------------------------------------------------------


def expected(kind: str) -> Expectation:
    return Expectation.model_validate({"kind": kind, "tolerance": "5 %"})


def told(samples: Sequence[Sample], kind: str) -> tuple[str, str]:
    verdict = judge_samples(samples, expected(kind), PLAN)
    return verdict.name, verdict.reason


def test_a_failed_transfer_is_named_among_all(make_sample: MakeSample) -> None:
    good = [make_sample(index, 0.0) for index in range(2)]
    failed = [make_sample(2, ok=False, problem="cut off"), make_sample(3, ok=False)]
    for kind in ("limit", "none", "steady", "memory"):
        assert told([*good, *failed], kind) == ("FAIL", "transfer 3 of 4 failed: cut off")
    assert told([*good, failed[1]], "limit") == ("FAIL", "transfer 4 of 3 failed: exit code 18")


def test_what_was_not_measured_is_named_with_its_transfers(make_sample: MakeSample) -> None:
    samples = [make_sample(0, 0.0), make_sample(1), make_sample(2, 0.0), make_sample(3)]
    assert told(samples, "limit") == ("INVALID", "the lab did not measure the speed of transfer 2, 4")
    assert told(samples, "memory") == ("INVALID", "the lab did not measure the peak memory of transfer 1, 2, 3, 4")
    assert told(samples[:2], "steady") == (
        "INCONCLUSIVE",
        "no times of the first and the last hundred files to compare in transfer 1, 2; all arrived intact",
    )


def test_where_no_speed_is_expected_arrival_is_all(make_sample: MakeSample) -> None:
    samples = [make_sample(index) for index in range(3)]
    assert told(samples, "none") == ("PASS", "every transfer arrived intact; no speed was expected, n = 3")
    assert told([], "none") == ("INCONCLUSIVE", "no transfer was made")
    assert [samples_wanted(samples[:n], expected("none"), LookPlan((2, 4), 0.05)) for n in (0, 1, 2, 3)] == [2, 2, None, None]


def test_sets_of_files_say_what_is_compared(make_sample: MakeSample) -> None:
    samples = [make_sample(n, first_hundred_s_per_file=1.0, last_hundred_s_per_file=1 + value) for n, value in enumerate(GOOD)]
    words = f"the last hundred files against the first, time per file: {figures(GOOD)}, not above +5 %, n = 5"
    assert told(samples, "steady") == ("PASS", words)


def test_samples_go_on_to_the_next_look_while_it_is_open(make_sample: MakeSample) -> None:
    def wanted(values: Sequence[float | None], *, ok: bool = True) -> int | None:
        samples = [make_sample(index, value) for index, value in enumerate(values)]
        more = [] if ok else [make_sample(9, ok=False)]
        return samples_wanted([*samples, *more], expected("limit"), PLAN)

    assert [wanted([]), wanted(GOOD[:4]), wanted(GOOD), wanted(WIDE), wanted([*WIDE, 0.0])] == [5, 5, None, 10, 10]
    assert [wanted([0.0, None]), wanted([], ok=False), wanted(WIDE * 4)] == [None, None, None]
    assert [next_look(WIDE, 0.05, PLAN), next_look(WIDE, 0.5, PLAN)] == [10, None]


def test_a_fault_of_the_lab_keeps_the_figures() -> None:
    verdict = judge_tolerance(GOOD, 0.05, PLAN)
    assert with_invalid(verdict, []) == verdict
    found = with_invalid(verdict, ["no link", "no host"])
    assert found.reason == f"the lab, not the client: no link; no host (would have been PASS: {verdict.reason})"
    assert (found.name, found.interval, found.looks) == ("INVALID", verdict.interval, verdict.looks)
    assert with_invalid(None, ["no link", "no host"]) == Verdict(
        name="INVALID", reason="the lab, not the client: no link; no host"
    )
    assert with_invalid(None, []).reason == "the lab, not the client: nothing was measured"


def test_a_bounded_figure_is_given_with_its_bound(make_sample: MakeSample) -> None:
    def told(count: int, *values: float) -> str:
        samples = [make_sample(index, burst_ratio=values[index % len(values)]) for index in range(count)]
        return judge_samples(samples, Expectation.model_validate({"kind": "burst"}), PLAN).reason

    title = "mean fastest 100 ms, once begun, over what the limit allows"
    assert told(0) == "0 of the 5 samples that a first look at at most 1.5 needs; the next look is at 5"
    early = f"{title} 0.90, 96.8 % interval 0.90 to 0.90, at most 1.5 asked, n = 3"
    assert told(3, 0.9) == f"{early}; too few samples to be judged; the next look is at 5"
    assert told(5, 0.9) == f"{title} 0.90, 96.8 % interval 0.90 to 0.90, at most 1.5 asked, n = 5"
    assert told(5, 1.2, 1.9).endswith(" asked, n = 5; the next look is at 10")


@pytest.mark.parametrize(("tolerance", "told"), [(0.01, True), (0.02, False), (0.05, False)])
def test_how_far_a_sample_may_lie_from_the_others_follows_from_the_tolerance(tolerance: float, told: bool) -> None:
    """A quarter of it: what lies nearer changes no verdict."""
    deviations = [0.0, 0.0001, 0.0, -0.0001, 0.0, 0.0, 0.0, 0.004]
    found = judge_tolerance(deviations, tolerance, LookPlan(looks=(8,)))
    assert any(warning.startswith("outlier") for warning in found.warnings) == told
