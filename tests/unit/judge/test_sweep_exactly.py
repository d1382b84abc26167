"""A sweep's interval by the slow formula, its sentences, and the order of its rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.judge.decide import LookPlan
from lab.judge.sweep import Arm, byte_rates, common_clock, judge_rates, judge_sweep, ratio_interval, rounds_wanted, turn_order
from lab.model.results import Sample

MakeSample = Callable[..., Sample]
PLAN = LookPlan()
NAMES = ["a", "b", "c"]


# --- the interval -------------------------------------------------------------------------------------------------------------


def slowly(values: list[list[float]], alpha: float) -> tuple[float, float, float]:
    """The interval from every ordered pair's own one-sided bounds."""
    logs = np.log(values)
    pairs = [logs[one] - logs[other] for one, other in permutations(range(len(logs)), 2)]

    def bound(differences: Any, error: float) -> float:
        n = len(differences)
        return float(differences.mean() + stats.t.ppf(1 - error, n - 1) * differences.std(ddof=1) / math.sqrt(n))

    upper = max(bound(each, alpha) for each in pairs)
    lower = max(0.0, *(-bound(-each, alpha / len(pairs)) for each in pairs))
    means = logs.mean(axis=1)
    return math.exp(-upper), math.exp(means.min() - means.max()), math.exp(-lower)


@given(st.integers(2, 4), st.integers(2, 7), st.randoms(use_true_random=False), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_is_that_of_all_pairs(arms: int, rounds: int, dice: Any, alpha: float) -> None:
    values = [[dice.uniform(1, 1.2) * (1 + arm) for _ in range(rounds)] for arm in range(arms)]
    found = ratio_interval(values, alpha)
    assert (found.low, found.mean, found.high) == pytest.approx(slowly(values, alpha))
    assert (found.n, found.confidence) == (rounds, pytest.approx(1 - 2 * alpha))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1.0, 2.0]], "a comparison needs at least two settings, got 1"),
        ([[1.0, 2.0], [1.0]], r"every setting needs a rate in every round, got \[2, 1\]"),
        ([[1.0, 2.0], [1.0, 0.0]], "every rate must be finite and above zero"),
        ([[1.0, 2.0], [1.0, math.nan]], "every rate must be finite and above zero"),
    ],
)
def test_what_cannot_be_compared_is_said_so(values: list[list[float]], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        ratio_interval(values, 0.05)


# --- the verdict --------------------------------------------------------------------------------------------------------------


def told(*rows: list[float], floor: float = 0.9, plan: LookPlan = PLAN) -> tuple[str, str]:
    verdict = judge_rates(NAMES[: len(rows)], rows, floor, plan)
    return verdict.name, verdict.reason


def test_before_two_rounds_there_is_no_figure_and_before_the_first_look_no_verdict() -> None:
    wait = "; the next look is after round 5"
    assert told([], []) == ("INCONCLUSIVE", f"0 of the 5 rounds that a first look needs{wait}")
    assert told([1e6], [1e6]) == ("INCONCLUSIVE", f"1 of the 5 rounds that a first look needs{wait}")
    assert told([2e6] * 2, [1.9e6] * 2) == (
        "INCONCLUSIVE",
        "the slowest (b, 1.90 MB/s) reaches 0.950 of the fastest (a, 2.00 MB/s), 96.8 % interval 0.950 to 0.950, "
        f"too few rounds to be judged against 0.9, n = 2 rounds of 2{wait}",
    )


@pytest.mark.parametrize(("slowest", "name", "place"), [(0.9e6, "PASS", "not below"), (0.85e6, "FAIL", "below")])
def test_the_slowest_is_named_with_the_fastest(slowest: float, name: str, place: str) -> None:
    figure = f"{slowest / 1.25e6:.3f}"
    assert told([1e6] * 5, [slowest] * 5, [1.25e6] * 5, floor=0.72) == (
        name,
        f"the slowest (b, {slowest / 1e6:.2f} MB/s) reaches {figure} of the fastest (c, 1.25 MB/s), "
        f"96.8 % interval {figure} to {figure}, {place} 0.72, n = 5 rounds of 3",
    )


def test_an_interval_across_the_floor_waits_for_the_next_look() -> None:
    rows = [1e6] * 5, [0.8e6, 1e6, 0.85e6, 0.95e6, 0.9e6]
    verdict = judge_rates(NAMES[:2], rows, 0.9, PLAN)
    low, mean, high = slowly([*rows], 0.016)
    words = f"reaches {mean:.3f} of the fastest (a, 1.00 MB/s), 96.8 % interval {low:.3f} to {high:.3f}"
    assert verdict.reason == f"the slowest (b, 0.90 MB/s) {words}, across 0.9, n = 5 rounds of 2; the next look is after round 10"
    assert (verdict.name, verdict.looks, verdict.method, verdict.band_low, verdict.alpha_per_look) == (
        *("INCONCLUSIVE", [5], "pairs"),
        *(0.9, 0.016),
    )
    (size,) = verdict.warnings
    assert size.startswith("n too small for this band: with a spread of 8.82 % from run to run this needs ")
    assert size.endswith(" samples; the plan ends at 20")
    last = judge_rates(NAMES[:2], rows, 0.9, LookPlan((5,), 0.016))
    assert last.reason.endswith(", across 0.9, n = 5 rounds of 2")


def test_rounds_after_the_deciding_look_are_counted_and_not_used() -> None:
    rows = [[1e6] * 5 + [9e6] * 3, [1e6] * 8]
    verdict = judge_rates(NAMES[:2], rows, 0.9, PLAN)
    assert verdict.warnings == ["decided after 5 rounds; 3 taken after that are not used"]
    assert verdict.interval
    assert (verdict.interval.n, verdict.interval.mean) == (5, 1.0)
    uneven = judge_rates(NAMES[:2], [rows[0], rows[1][:5]], 0.9, PLAN)
    assert uneven.warnings == [], "a round is one that every setting has"


def test_a_setting_is_measured_against_the_median_of_its_round() -> None:
    rising = [1e6 * 1.02**index for index in range(5)]
    verdict = judge_rates(NAMES, [[1e6] * 5, rising, [1e6] * 5], 0.5, PLAN)
    assert verdict.warnings == [], "a sixteenth of what the floor allows"
    verdict = judge_rates(NAMES, [[1e6] * 5, rising, [1e6] * 5], 0.8, PLAN)
    said = "drift over the run: b, against the others of its round: the samples drift by +8.24 %"
    assert [warning[: len(said)] for warning in verdict.warnings] == [said]


@pytest.mark.parametrize("floor", [0.0, 1.0, -0.5, 1.5])
def test_a_floor_is_a_ratio(floor: float) -> None:
    with pytest.raises(ValueError, match=f"^a floor is a ratio between 0 and 1, got {floor}$"):
        judge_rates(NAMES[:2], [[1.0] * 5] * 2, floor, PLAN)


# --- samples ------------------------------------------------------------------------------------------------------------------


def test_a_failed_transfer_is_named_with_its_setting(make_sample: MakeSample) -> None:
    good = Arm("a", [make_sample(0), make_sample(1)])
    failed = Arm("b", [make_sample(0), make_sample(1, ok=False, problem="cut off"), make_sample(2, ok=False)])
    verdict = judge_sweep([good, failed], 0.9, PLAN)
    assert (verdict.name, verdict.reason) == ("FAIL", "transfer 2 with b failed: cut off")
    verdict = judge_sweep([good, Arm("c", failed.samples[2:])], 0.9, PLAN)
    assert verdict.reason == "transfer 3 with c failed: exit code 18"
    blind = Arm("a", [make_sample(0, body_byte_s=None, total_byte_s=None)])
    verdict = judge_sweep([blind, good], 0.9, PLAN)
    assert (verdict.name, verdict.reason) == ("INVALID", "the lab did not measure a speed for every transfer")


def test_rates_are_those_of_the_clock_and_of_what_arrived(make_sample: MakeSample) -> None:
    arms = [
        Arm("a", [make_sample(0, body_byte_s=1.0, total_byte_s=2.0), make_sample(1, ok=False, body_byte_s=9.0)]),
        Arm("b", [make_sample(0, body_byte_s=3.0, total_byte_s=4.0)]),
    ]
    assert byte_rates(arms, "total") == [[2.0], [4.0]]
    assert byte_rates(arms, "client") == byte_rates(arms, "wire") == [[1.0], [3.0]]


def test_one_clock_timed_every_transfer(make_sample: MakeSample) -> None:
    def clock(*facts: dict[str, Any]) -> str | None:
        return common_clock([make_sample(0, **each) for each in facts])

    wire, own, none = {"body_clock": "wire"}, {"body_clock": None}, {"body_byte_s": None}
    assert [clock(wire, wire), clock(own, own), clock(wire, own), clock(wire, none)] == ["wire", "client", "total", "total"]
    assert clock(wire, {**none, "total_byte_s": None}) is None
    assert clock(wire, {"body_clock": "client", "total_byte_s": None}) is None


def test_a_sweep_goes_on_while_it_is_open(make_sample: MakeSample) -> None:
    def wanted(*counts: int, rate: float = 5.0) -> int | None:
        arms = [
            Arm(NAMES[arm], [make_sample(index, body_byte_s=rate if index % 2 else 5.0) for index in range(count)])
            for arm, count in enumerate(counts)
        ]
        return rounds_wanted(arms, 0.9, PLAN)

    assert [wanted(0, 0), wanted(4, 5), wanted(5, 5), wanted(6, 5)] == [5, 5, None, None]
    one = [make_sample(index, body_byte_s=5.0) for index in range(7)]
    other = [make_sample(index, body_byte_s=5.0 if index % 2 else 4.0) for index in range(7)]
    assert rounds_wanted([Arm("a", one), Arm("b", other)], 0.9, PLAN) == 10
    assert rounds_wanted([Arm("a", one), Arm("b", other)], 0.9, LookPlan((5,), 0.016)) is None


def test_every_two_rounds_begin_one_further_and_come_back() -> None:
    assert [turn_order(3, index) for index in range(8)] == [
        *([0, 1, 2], [2, 1, 0]),
        *([1, 2, 0], [0, 2, 1]),
        *([2, 0, 1], [1, 0, 2]),
        *([0, 1, 2], [2, 1, 0]),
    ]
    assert [turn_order(2, index) for index in range(4)] == [[0, 1], [1, 0], [1, 0], [0, 1]]
