"""Does throughput hold across settings: the interval against textbook bounds, complete samples, and error rates by simulation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.sweep import Arm, common_clock, judge_rates, judge_sweep, ratio_interval, rounds_wanted, turn_order
from lab.judge.tolerance import LookPlan
from lab.model.results import Sample

MakeSample = Callable[..., Sample]

PLAN = LookPlan()
ALPHA = PLAN.alpha_per_look
STEADY = [[100.0, 101.0, 99.0, 100.5, 99.5], [99.0, 100.0, 100.0, 101.0, 99.5], [100.0, 99.5, 100.5, 99.0, 101.0]]

rates = st.integers(2, 6).flatmap(
    lambda arms: st.lists(st.lists(st.floats(50, 150), min_size=5, max_size=5), min_size=arms, max_size=arms)
)


# --- the interval -------------------------------------------------------------------------------------------------------------


@given(rates)
def test_holds_what_was_seen_and_never_more_than_equality(values: list[list[float]]) -> None:
    found = ratio_interval(values, ALPHA)
    means = [math.exp(float(np.mean(np.log(row)))) for row in values]
    assert found.mean == pytest.approx(min(means) / max(means))
    assert 0 < found.low <= found.mean <= found.high <= 1
    assert found.n == 5


@given(rates)
def test_pass_is_the_intersection_of_every_pairs_own_test(values: list[list[float]]) -> None:
    logs = np.log(values)
    tests = [(one, other) for one in range(len(logs)) for other in range(len(logs)) if one != other]
    differences = [logs[one] - logs[other] for one, other in tests]
    if min(float(np.std(each)) for each in differences) < 1e-9:
        return
    p = max(float(stats.ttest_1samp(each, -math.log(0.9), alternative="less").pvalue) for each in differences)
    assert (judge_rates(["-"] * len(logs), values, 0.9, PLAN).name == "PASS") == (p <= ALPHA)


@given(rates, st.permutations(range(5)), st.floats(0.1, 10))
def test_neither_units_nor_rounds_nor_what_a_round_shares_matter(
    values: list[list[float]], order: list[int], unit: float
) -> None:
    found = ratio_interval(values, ALPHA)
    shuffled = [[row[index] * unit * (1 + index) for index in order] for row in reversed(values)]
    again = ratio_interval(shuffled, ALPHA)
    assert (again.low, again.mean, again.high) == pytest.approx((found.low, found.mean, found.high))


def test_two_settings_are_a_paired_comparison() -> None:
    one, other = STEADY[:2]
    bounds = stats.ttest_rel(np.log(other), np.log(one)).confidence_interval(1 - 2 * ALPHA)
    found = ratio_interval([one, other], ALPHA)
    assert math.log(found.low) == pytest.approx(min(bounds.low, -bounds.high))


@pytest.mark.parametrize(
    "values", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 2.0], [1.0]], [[1.0, 0.0], [1.0, 1.0]], [[1.0, math.inf], [1.0, 1.0]]]
)
def test_refuses_what_cannot_be_compared(values: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"at least two|every"):
        ratio_interval(values, ALPHA)


@pytest.mark.parametrize("floor", [0.0, 1.0, math.nan])
def test_refuses_a_floor_outside_0_to_1(floor: float) -> None:
    with pytest.raises(ValueError, match="floor"):
        judge_rates(["a", "b", "c"], STEADY, floor, PLAN)


# --- the verdict --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slowest", "name"), [(1.0, "PASS"), (0.97, "PASS"), (0.9, "INCONCLUSIVE"), (0.93, "PASS"), (0.7, "FAIL"), (0.1, "FAIL")]
)
def test_the_slowest_against_the_floor(slowest: float, name: str) -> None:
    values = [*STEADY, [rate * slowest for rate in STEADY[0]]]
    verdict = judge_rates(["64 KiB", "1 MiB", "4 MiB", "16 KiB"], values, 0.9, PLAN)
    assert (verdict.name, verdict.band_low, verdict.looks) == (name, 0.9, [5])
    assert verdict.interval is not None
    for figure in (f"{verdict.interval.low:.3f}", f"{verdict.interval.high:.3f}", "96.8 %", "n = 5 rounds of 4"):
        assert figure in verdict.reason
    if slowest < 0.95:
        assert "the slowest (16 KiB," in verdict.reason


def test_equal_rates_exactly_at_the_floor_pass() -> None:
    assert judge_rates(["a", "b"], [[1e6] * 5, [0.9e6] * 5], 0.9, PLAN).name == "PASS"
    assert judge_rates(["a", "b"], [[1e6] * 5, [0.8999e6] * 5], 0.9, PLAN).name == "FAIL"


def test_nothing_is_decided_before_the_first_look_nor_changed_after_the_last() -> None:
    early = judge_rates(["a", "b", "c"], [row[:4] for row in STEADY], 0.9, PLAN)
    assert (early.name, early.looks) == ("INCONCLUSIVE", [])
    assert "the next look is after round 5" in early.reason
    assert judge_rates(["a", "b"], [[], []], 0.9, PLAN).name == "INCONCLUSIVE"
    later = judge_rates(["a", "b", "c"], [[*STEADY[0], 1.0], [*STEADY[1], 9.0], [*STEADY[2], 5.0]], 0.9, PLAN)
    assert (later.name, later.looks) == ("PASS", [5])
    assert any("1 taken after that are not used" in warning for warning in later.warnings)


def test_caveats_name_the_setting() -> None:
    odd = [[*row] for row in STEADY]
    odd[1][2] = 60.0
    warnings = judge_rates(["64 KiB", "1 MiB", "4 MiB"], odd, 0.9, PLAN).warnings
    assert any(warning.startswith("outlier: 1 MiB, against the others of its round: sample 3 (-39") for warning in warnings)
    assert any("the plan ends at 20" in warning for warning in warnings)


def test_a_machine_that_slows_down_is_not_drift_of_a_setting() -> None:
    tired = [[rate * 0.9**index for index, rate in enumerate(row)] for row in STEADY]
    verdict = judge_rates(["a", "b", "c"], tired, 0.9, PLAN)
    assert (verdict.name, verdict.warnings) == ("PASS", [])


# --- complete samples ---------------------------------------------------------------------------------------------------------


@pytest.fixture(name="arms")
def make_arms(make_sample: MakeSample) -> Callable[..., list[Arm]]:
    def made(rows: Sequence[Sequence[float | None]], **more: object) -> list[Arm]:
        return [
            Arm(f"{16 << index} KiB", [make_sample(turn, body_byte_s=rate, **more) for turn, rate in enumerate(row)])
            for index, row in enumerate(rows)
        ]

    return made


def test_samples_are_judged_by_their_body_rates(arms: Callable[..., list[Arm]]) -> None:
    verdict = judge_sweep(arms(STEADY), 0.9, PLAN)
    assert verdict == judge_rates(["16 KiB", "32 KiB", "64 KiB"], STEADY, 0.9, PLAN)
    assert rounds_wanted(arms(STEADY), 0.9, PLAN) is None
    assert rounds_wanted(arms([row[:3] for row in STEADY]), 0.9, PLAN) == 5
    assert rounds_wanted(arms([[], []]), 0.9, PLAN) == 5


def test_a_failed_transfer_fails_the_study_and_is_named(arms: Callable[..., list[Arm]], make_sample: MakeSample) -> None:
    first, *others = arms(STEADY)
    bad = Arm("1 MiB", [*others[0].samples[:2], make_sample(2, ok=False, problem="the content is not what was sent")])
    verdict = judge_sweep([first, bad], 0.9, PLAN)
    assert (verdict.name, verdict.interval) == ("FAIL", None)
    assert "transfer 3 with 1 MiB failed: the content is not what was sent" in verdict.reason
    assert rounds_wanted([first, bad], 0.9, PLAN) is None


def test_one_clock_for_all(arms: Callable[..., list[Arm]], make_sample: MakeSample) -> None:
    def clock(*facts: dict[str, object]) -> str | None:
        return common_clock([make_sample(0, **each) for each in facts])

    wire, client = {"body_clock": "wire"}, {"body_clock": "client"}
    assert clock(client, {}) == "client"
    assert clock(wire, wire) == "wire"
    assert clock(wire, client) == "total"
    assert clock({}, {"body_byte_s": None}) == "total"
    assert clock({"body_byte_s": None, "total_byte_s": None}) is None
    slow_body = arms([[1.0, None, 1.0, 1.0, 1.0], [9.0] * 5], total_byte_s=5.0)
    assert judge_sweep(slow_body, 0.9, PLAN).name == "PASS", "all by the whole time, where one body is not known"
    assert judge_sweep(arms([[None] * 5, [1.0] * 5], total_byte_s=None), 0.9, PLAN).name == "INVALID"


# --- the order ----------------------------------------------------------------------------------------------------------------


@given(st.integers(2, 8))
def test_every_round_has_everybody_and_every_two_rounds_favour_no_setting(arms: int) -> None:
    rounds = [turn_order(arms, index) for index in range(2 * arms)]
    assert all(sorted(order) == list(range(arms)) for order in rounds)
    for there, back in zip(rounds[::2], rounds[1::2], strict=True):
        assert {there.index(arm) + back.index(arm) for arm in range(arms)} == {arms - 1}
    assert Counter(order[0] for order in rounds[::2]) == Counter(range(arms)), "everybody begins once"
    assert any(one != other for one, other in pairwise(rounds))


# --- error rates --------------------------------------------------------------------------------------------------------------


def verdicts(
    true: Sequence[float], spread: Sequence[float] | float = 0.02, *, plan: LookPlan = PLAN, runs: int = 500
) -> Counter[str]:
    """Shares of verdicts on settings whose true rates are `true`, with a spread from run to run, each round off by 1 %."""
    random = np.random.default_rng(20260101)
    shape = (runs, len(true), plan.cap)
    spreads = np.broadcast_to(np.asarray(spread), len(true))[:, None]
    logs = np.log(true)[:, None] + random.normal(0, 1, shape) * spreads + random.normal(0, 0.01, (runs, 1, plan.cap))
    names = [str(index) for index in range(len(true))]
    found = Counter(judge_rates(names, np.exp(each).tolist(), 0.9, plan).name for each in logs)
    return Counter({name: count / runs for name, count in found.items()})  # type: ignore[misc]


def with_one(rate: float) -> list[float]:
    return [1.0, 1.0, rate, 1.0, 1.0, 1.0]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("n", [5, 10])
def test_six_equal_settings_pass_at_once(n: int) -> None:
    assert verdicts([1.0] * 6, plan=LookPlan((n,), ALPHA))["PASS"] > 0.95


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("n", [5, 10])
def test_one_setting_that_is_clearly_slower_never_passes(n: int) -> None:
    assert verdicts(with_one(0.85), plan=LookPlan((n,), ALPHA))["PASS"] == 0


@pytest.mark.usefixtures("quick")
def test_with_all_looks_it_fails() -> None:
    found = verdicts(with_one(0.85))
    assert found["FAIL"] > 0.95
    assert found["PASS"] == 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("true", "spread", "runs"),
    [
        ([1.0, 0.9], 0.02, 2000),  # the least favourable: nothing else could stop a PASS
        (with_one(0.9), 0.02, 300),
        (with_one(0.9), [0.002, 0.002, 0.05, 0.002, 0.002, 0.002], 300),  # what pooled variances would get wrong
        (np.geomspace(1.0, 0.9, 4).tolist(), 0.02, 500),
    ],
)
def test_exactly_at_the_floor_either_error_is_seldom(true: list[float], spread: list[float] | float, runs: int) -> None:
    found = verdicts(true, spread, runs=runs)
    assert found["PASS"] < 0.065
    assert found["FAIL"] < 0.065


@pytest.mark.usefixtures("quick")
def test_more_noise_asks_for_more_rounds_and_not_for_another_verdict() -> None:
    found = verdicts([1.0] * 6, 0.04, runs=100)
    assert found["PASS"] > 0.95
    assert found["FAIL"] == 0


@pytest.mark.usefixtures("quick")
def test_the_observed_ratio_alone_is_biased_and_the_interval_knows() -> None:
    random = np.random.default_rng(1)
    found = [ratio_interval(np.exp(random.normal(0, 0.02, (6, 5))).tolist(), 0.05) for _ in range(300)]
    assert np.mean([each.mean for each in found]) == pytest.approx(0.978, abs=0.002)
    assert np.mean([each.high >= 1 for each in found]) >= 0.95
