"""The equivalence verdict: its looks, its edges, its words, and its error rates by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.tolerance import (
    Band,
    LookPlan,
    judge_band,
    judge_samples,
    judge_tolerance,
    next_look,
    samples_wanted,
    with_invalid,
)
from lab.model.results import Sample
from lab.model.transfer import Expectation

MakeSample = Callable[..., Sample]

PLAN = LookPlan()
LIMIT = Expectation.model_validate({"kind": "limit", "tolerance": "5 %"})
STEADY = Expectation.model_validate({"kind": "steady", "tolerance": "5 %"})
NOTHING = Expectation.model_validate({"kind": "none", "tolerance": "5 %"})
GOOD = [0.001, -0.002, 0.0, 0.002, -0.001]

deviations = st.lists(st.floats(-0.5, 1.0), min_size=0, max_size=25)
tolerances = st.floats(0.005, 0.5)
full_looks = st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=5).filter(lambda values: np.std(values) > 1e-6)


def tost_p_values(values: list[float], tolerance: float) -> tuple[float, float]:
    """Two one-sided t tests, the way a textbook does it: p of "below the lower edge", p of "above the upper edge"."""
    ratios = np.log1p(values)
    above_low = stats.ttest_1samp(ratios, math.log1p(-tolerance), alternative="greater").pvalue
    below_high = stats.ttest_1samp(ratios, math.log1p(tolerance), alternative="less").pvalue
    return float(above_low), float(below_high)


@given(full_looks, tolerances)
def test_pass_is_two_one_sided_tests(values: list[float], tolerance: float) -> None:
    p = tost_p_values(values, tolerance)
    verdict = judge_tolerance(values, tolerance, PLAN)
    assert (verdict.name == "PASS") == (max(p) <= PLAN.alpha_per_look)
    assert (verdict.name == "FAIL") == (max(p) > 1 - PLAN.alpha_per_look)


@given(deviations, tolerances)
def test_verdict_and_next_look_agree(values: list[float], tolerance: float) -> None:
    verdict, goal = judge_tolerance(values, tolerance, PLAN), next_look(values, tolerance, PLAN)
    if goal is None:
        assert verdict.name in ("PASS", "FAIL") or len(values) >= PLAN.cap
    else:
        assert verdict.name == "INCONCLUSIVE"
        assert goal in PLAN.looks
        assert goal > len(values)


@given(deviations, tolerances)
@example([0.0, *[1.0] * 8, -0.5], 0.25)
def test_what_follows_the_deciding_look_changes_nothing(values: list[float], tolerance: float) -> None:
    decided = judge_tolerance(values, tolerance, PLAN)
    later = judge_tolerance([*values, 0.9, -0.4, 0.9, -0.4, 0.9], tolerance, PLAN)
    if decided.name != "INCONCLUSIVE":
        assert (later.name, later.interval, later.looks) == (decided.name, decided.interval, decided.looks)


@given(st.floats(-0.9, 0.9), st.integers(0, 4))
def test_never_before_the_first_look(value: float, n: int) -> None:
    assert judge_tolerance([value] * n, 0.05, PLAN).name == "INCONCLUSIVE"
    assert next_look([value] * n, 0.05, PLAN) == 5


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (GOOD, "PASS"),
        ([-0.05] * 5, "PASS"),
        ([0.05] * 5, "PASS"),
        ([-0.0501] * 5, "FAIL"),
        ([0.06, 0.061, 0.059, 0.06, 0.062], "FAIL"),
        ([-0.08, -0.081, -0.079, -0.08, -0.08], "FAIL"),
        ([0.05, 0.049, 0.051, 0.05, 0.052], "INCONCLUSIVE"),
        ([-0.4, 0.4, -0.3, 0.5, 0.0], "INCONCLUSIVE"),
    ],
)
def test_band(values: list[float], name: str) -> None:
    verdict = judge_tolerance(values, 0.05, PLAN)
    assert verdict.name == name
    assert (verdict.band_low, verdict.band_high, verdict.looks) == (-0.05, 0.05, [5])


def test_interval_is_in_fractions_of_the_ratio() -> None:
    verdict = judge_tolerance([-0.5, 1.0, -0.5, 1.0, 0.0], 0.05, PLAN)
    assert verdict.interval is not None
    assert verdict.interval.mean == pytest.approx(0.0), "half and double cancel only as ratios"
    assert (1 + verdict.interval.low) * (1 + verdict.interval.high) == pytest.approx(1.0)
    assert verdict.interval.confidence == pytest.approx(0.968)


def test_an_undecided_look_is_followed_by_the_next() -> None:
    wide = [-0.04, 0.04, -0.045, 0.05, 0.0]
    assert next_look(wide, 0.05, PLAN) == 10
    assert next_look([*wide, 0.0], 0.05, PLAN) == 10
    verdict = judge_tolerance([*wide, *GOOD], 0.05, PLAN)
    assert (verdict.name, verdict.looks) == ("PASS", [5, 10])
    assert judge_tolerance([*wide, *GOOD[:4]], 0.05, PLAN).looks == [5], "nine samples are no look"


def test_the_plan_ends_at_its_cap() -> None:
    edge = [0.045, 0.055] * 10
    assert next_look(edge, 0.05, PLAN) is None
    verdict = judge_tolerance(edge, 0.05, PLAN)
    assert (verdict.name, verdict.looks) == ("INCONCLUSIVE", [5, 10, 15, 20])


def test_reason_has_the_figures() -> None:
    verdict = judge_tolerance(GOOD, 0.05, PLAN)
    assert verdict.interval is not None
    for figure in (f"{verdict.interval.low * 100:+.2f}", f"{verdict.interval.high * 100:+.2f}", "±5 %", "n = 5", "96.8 %"):
        assert figure in verdict.reason


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.03, -0.03, 0.06, 0.1, 0.045], "samples; the plan ends at 20"),
        ([0.0, 0.001, -0.04, 0.001, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], "sample 3 (-4.00 %) lies far"),
        ([0.0, 0.005, 0.01, 0.016, 0.02], "drift by +2"),
        ([*GOOD, *GOOD], "5 taken after that are not used"),
    ],
)
def test_caveats_name_what_is_odd(values: list[float], expected: str) -> None:
    assert any(expected in warning for warning in judge_tolerance(values, 0.05, PLAN).warnings)


@pytest.mark.parametrize(
    "values",
    [
        GOOD,
        [0.0] * 5,
        [1e-9, 2e-9, 3e-9, 4e-9, 5e-9],  # strictly rising, but what is a billionth to a band of 5 %?
        [0.0, 0.0, 0.0, 0.0, 0.001],
    ],
)
def test_no_caveat_where_nothing_is_odd(values: list[float]) -> None:
    assert judge_tolerance(values, 0.05, PLAN).warnings == []


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.1, math.nan])
def test_refuses_an_impossible_band(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        judge_tolerance(GOOD, tolerance, PLAN)


@pytest.mark.parametrize("value", [-1.0, -2.0, math.nan])
def test_refuses_an_impossible_speed(value: float) -> None:
    with pytest.raises(ValueError, match="deviation"):
        judge_tolerance([*GOOD, value], 0.05, PLAN)


@pytest.mark.parametrize(
    ("looks", "alpha"), [((), 0.05), ((1, 5), 0.05), ((5, 5), 0.05), ((10, 5), 0.05), ((5,), 0.0), ((5,), 0.5)]
)
def test_refuses_an_impossible_plan(looks: tuple[int, ...], alpha: float) -> None:
    with pytest.raises(ValueError, match=r"looks|alpha"):
        LookPlan(looks, alpha)


# --- complete samples ---------------------------------------------------------------------------------------------------------


@pytest.fixture(name="samples")
def good_samples(make_sample: MakeSample) -> list[Sample]:
    return [make_sample(index, deviation) for index, deviation in enumerate(GOOD)]


@pytest.fixture
def failed(make_sample: MakeSample) -> Sample:
    return make_sample(5, ok=False, problem="3 of 5 bytes arrived")


def test_samples_are_judged_by_their_deviations(samples: list[Sample]) -> None:
    assert judge_samples(samples, LIMIT, PLAN) == judge_tolerance(GOOD, 0.05, PLAN)
    assert samples_wanted(samples[:3], LIMIT, PLAN) == 5
    assert samples_wanted(samples, LIMIT, PLAN) is None


def test_where_no_speed_is_expected_the_first_look_is_enough(samples: list[Sample]) -> None:
    assert samples_wanted(samples[:4], NOTHING, PLAN) == 5
    assert samples_wanted(samples, NOTHING, PLAN) is None
    assert samples_wanted([*samples, *samples], NOTHING, PLAN) is None


@pytest.mark.parametrize("expectation", [LIMIT, STEADY, NOTHING])
def test_a_failed_transfer_fails_the_cell(samples: list[Sample], failed: Sample, expectation: Expectation) -> None:
    verdict = judge_samples([*samples, failed], expectation, PLAN)
    assert verdict.name == "FAIL"
    assert "transfer 6 of 6 failed: 3 of 5 bytes arrived" in verdict.reason
    assert samples_wanted([failed], expectation, PLAN) is None


def test_a_failure_without_words_gives_its_exit_code(make_sample: MakeSample) -> None:
    assert "exit code 18" in judge_samples([make_sample(0, ok=False)], LIMIT, PLAN).reason


def test_a_speed_the_lab_did_not_measure_is_the_labs_fault(samples: list[Sample], make_sample: MakeSample) -> None:
    blind = [*samples, make_sample(5)]
    assert judge_samples(blind, LIMIT, PLAN).name == "INVALID"
    assert samples_wanted(blind, LIMIT, PLAN) is None


def test_nothing_expected_of_the_speed(samples: list[Sample], make_sample: MakeSample) -> None:
    verdict = judge_samples([make_sample(index) for index in range(5)], NOTHING, PLAN)
    assert (verdict.name, verdict.interval) == ("PASS", None)
    assert judge_samples([], NOTHING, PLAN).name == "INCONCLUSIVE"
    assert samples_wanted([], NOTHING, PLAN) == 5
    assert samples_wanted(samples, NOTHING, PLAN) is None


# --- sets of files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(name="sets")
def make_sets(make_sample: MakeSample) -> Callable[..., list[Sample]]:
    """Sets whose last hundred files took as many times the first hundred's time."""

    def made(*ratios: float) -> list[Sample]:
        times = [{"first_hundred_s_per_file": 0.002, "last_hundred_s_per_file": 0.002 * ratio} for ratio in ratios]
        return [make_sample(index, **each) for index, each in enumerate(times)]

    return made


@pytest.mark.parametrize(
    ("ratios", "name"),
    [
        ((1.0, 1.01, 0.99, 1.0, 1.02), "PASS"),
        ((0.5, 0.52, 0.49, 0.5, 0.51), "PASS"),
        ((1.0, 1.05, 1.1, 0.98, 1.04), "INCONCLUSIVE"),
        ((1.3, 1.31, 1.29, 1.3, 1.28), "FAIL"),
    ],
)
def test_the_last_hundred_files_against_the_first(sets: Callable[..., list[Sample]], ratios: list[float], name: str) -> None:
    verdict = judge_samples(sets(*ratios), STEADY, PLAN)
    assert (verdict.name, verdict.band_low, verdict.band_high) == (name, None, 0.05)
    assert verdict.interval is not None
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) - 1
    assert verdict.interval.mean == pytest.approx(mean), "the geometric mean of the ratios, told as a fraction above 1"
    assert "+5 %" in verdict.reason
    assert "last hundred files" in verdict.reason


@given(st.lists(st.floats(0.5, 2.0), min_size=5, max_size=5).filter(lambda values: np.std(np.log(values)) > 1e-6))
def test_steady_is_one_one_sided_test(values: list[float]) -> None:
    p = float(stats.ttest_1samp(np.log(values), math.log(1.05), alternative="less").pvalue)
    verdict = judge_band([value - 1 for value in values], Band.at_most(0.05), PLAN)
    assert (verdict.name == "PASS") == (p <= PLAN.alpha_per_look)
    assert (verdict.name == "FAIL") == (p > 1 - PLAN.alpha_per_look)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("plan", [PLAN, VIRTUAL_PLAN])
@pytest.mark.parametrize(
    ("deviation", "name"),
    [(0.0, "PASS"), (0.05, "PASS"), (-1 / 21, "PASS"), (-0.05, "PASS"), (0.050001, "FAIL"), (-0.050001, "FAIL"), (0.9, "FAIL")],
)
def test_samples_that_are_all_equal_decide_at_the_first_look(plan: LookPlan, deviation: float, name: str) -> None:
    """Virtual time may give them; the band's very edge belongs to the band."""
    for n in plan.looks:
        verdict = judge_tolerance([deviation] * n, 0.05, plan)
        assert (verdict.name, verdict.looks, verdict.method) == (name, [5], "student")
        assert verdict.interval
        assert verdict.interval.low == verdict.interval.high == verdict.interval.mean == pytest.approx(deviation, abs=1e-15)
    assert next_look([deviation] * 5, 0.05, plan) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("others", [math.nextafter(0.05, 1), 0.04, 0.06])
def test_all_samples_but_one_equal_are_judged_without_a_warning_or_nan(others: float) -> None:
    for n in VIRTUAL_PLAN.looks:
        verdict = judge_tolerance([others, *[0.05] * (n - 1)], 0.05, VIRTUAL_PLAN)
        assert verdict.interval
        assert math.isfinite(verdict.interval.low)
        assert verdict.interval.low <= verdict.interval.mean <= verdict.interval.high


def test_an_undecided_set_goes_on_to_the_next_look(sets: Callable[..., list[Sample]]) -> None:
    assert samples_wanted(sets(1.0), STEADY, PLAN) == 5
    assert samples_wanted(sets(1.0, 1.05, 1.1, 0.98, 1.04), STEADY, PLAN) == 10
    assert samples_wanted(sets(1.0, 1.01, 0.99, 1.0, 1.02), STEADY, PLAN) is None


def test_files_that_came_within_one_tick_give_no_verdict(make_sample: MakeSample) -> None:
    at_once = [make_sample(0, first_hundred_s_per_file=0.0, last_hundred_s_per_file=0.002)]
    assert judge_samples(at_once, STEADY, PLAN).name == "INCONCLUSIVE"


def test_files_that_nothing_timed_give_no_verdict(samples: list[Sample]) -> None:
    verdict = judge_samples(samples, STEADY, PLAN)
    assert verdict.name == "INCONCLUSIVE"
    assert "all arrived intact" in verdict.reason
    assert samples_wanted(samples, STEADY, PLAN) is None


def test_invalid_keeps_the_figures_and_names_the_lab() -> None:
    verdict = judge_tolerance([-0.08] * 5, 0.05, PLAN)
    invalid = with_invalid(verdict, ["goodput is 3 % low", "RTT is 4 ms high"])
    assert (invalid.name, invalid.interval, invalid.looks) == ("INVALID", verdict.interval, verdict.looks)
    assert "goodput is 3 % low; RTT is 4 ms high" in invalid.reason
    assert with_invalid(verdict, []) is verdict
    assert with_invalid(None, ["no network"]).reason.endswith("no network")


# --- error rates --------------------------------------------------------------------------------------------------------------


def error_rate(judge: Callable[[NDArray[np.float64]], str], wrong: str, offset: float, runs: int = 3000) -> float:
    """How often clients whose true mean is `offset` get the `wrong` verdict; 2 % spread from run to run."""
    draws = np.random.default_rng(20260101).normal(math.log1p(offset), 0.02, (runs, PLAN.cap))
    return sum(judge(np.expm1(row)) == wrong for row in draws) / runs


def under(plan: LookPlan) -> Callable[[NDArray[np.float64]], str]:
    return lambda row: judge_tolerance(row.tolist(), 0.05, plan).name


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("edge", [-0.05, 0.05])
def test_a_client_at_the_edge_seldom_passes(edge: float) -> None:
    assert error_rate(under(PLAN), "PASS", edge) < 0.06


@pytest.mark.usefixtures("quick")
def test_peeking_without_correction_would_pass_it_twice_as_often() -> None:
    assert error_rate(under(LookPlan(alpha_per_look=0.05)), "PASS", -0.05) > 0.10


@pytest.mark.usefixtures("quick")
def test_a_client_out_of_tolerance_hardly_ever_passes_and_a_good_one_never_fails() -> None:
    assert error_rate(under(PLAN), "PASS", -0.06, 1000) < 0.01
    assert error_rate(under(PLAN), "FAIL", 0.0, 1000) == 0.0
    assert error_rate(under(PLAN), "PASS", 0.0, 1000) > 0.95


@settings(max_examples=20)
@given(st.integers(2, 40))
def test_a_single_look_needs_no_correction(n: int) -> None:
    plan = LookPlan.single(n)
    assert plan.confidence == pytest.approx(0.90)
    assert judge_tolerance([0.0] * n, 0.05, plan).name == "PASS"


@pytest.mark.usefixtures("quick")
def test_a_set_that_slows_down_by_just_the_tolerance_seldom_passes() -> None:
    def judge(row: NDArray[np.float64]) -> str:
        return judge_band(row.tolist(), Band.at_most(0.05), PLAN).name

    assert error_rate(judge, "PASS", 0.05) < 0.06
    assert error_rate(judge, "FAIL", 0.05) < 0.06
    assert error_rate(judge, "PASS", 0.0, 1000) > 0.95


def test_the_overall_rate_counts_the_time_before_and_after_the_body(make_sample: MakeSample) -> None:
    """The body keeps its limit exactly; connecting makes the transfer 6 % longer in one cell and 4 % in the other."""
    expectation = Expectation.model_validate({"kind": "overall"})
    for slower, name in ((1.06, "FAIL"), (1.04, "PASS")):
        samples = [make_sample(index, 0.0, body_byte_s=1e6, total_byte_s=1e6 / (slower + index * 1e-4)) for index in range(5)]
        assert judge_samples(samples, expectation, PLAN).name == name
    several = make_sample(0, 0.0, slowest_stream_byte_s=1e6)
    assert judge_samples([several], expectation, PLAN).name == "INVALID"
