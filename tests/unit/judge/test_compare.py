"""The ratio of two runs: Welch's interval against scipy's own, the band's edges, and the error rates by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lab.judge.ratio import ALPHA, Tolerance, judge_ratio, paired_ratio, welch_ratio
from lab.judge.tolerance import LookPlan, next_look
from lab.model.results import Interval

RATES = st.lists(st.floats(1e3, 1e9), min_size=2, max_size=20).filter(lambda rates: np.std(np.log(rates)) > 1e-4)
WITHIN = Tolerance(0.01)
REPEATS = 2000


def welch(a: Sequence[float], b: Sequence[float], alpha: float = ALPHA) -> Interval:
    return welch_ratio(a, b).interval(alpha)


def interval(low: float, high: float) -> Interval:
    return Interval(n=5, mean=math.sqrt(low * high), low=low, high=high, confidence=0.9)


@given(RATES, RATES, st.floats(0.01, 0.4))
def test_agrees_with_scipy(a: list[float], b: list[float], alpha: float) -> None:
    found = welch(a, b, alpha)
    textbook = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(1 - 2 * alpha)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([textbook.low, textbook.high], rel=1e-6, abs=1e-9)
    assert found.mean == pytest.approx(stats.gmean(b) / stats.gmean(a), rel=1e-9)
    assert found.n == min(len(a), len(b))


@given(RATES, RATES)
def test_exchanged_sides_give_the_reciprocal(a: list[float], b: list[float]) -> None:
    there, back = welch(a, b), welch(b, a)
    assert [1 / back.high, 1 / back.mean, 1 / back.low] == pytest.approx([there.low, there.mean, there.high], rel=1e-9)


@given(RATES, RATES, st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(a: list[float], b: list[float], factor: float) -> None:
    one, other = welch(a, b), welch([x * factor for x in a], [x * factor for x in b])
    assert [other.low, other.mean, other.high] == pytest.approx([one.low, one.mean, one.high], rel=1e-6)


@given(RATES)
def test_a_run_against_itself_is_one(rates: list[float]) -> None:
    found = welch(rates, rates)
    assert found.mean == 1
    assert found.low < 1 < found.high


@given(RATES, RATES, st.floats(0.002, 0.5))
def test_pass_is_two_one_sided_tests(a: list[float], b: list[float], tolerance: float) -> None:
    # The band's edges as shifts of A: then each side is a plain one-sided Welch test.
    log_a, log_b = np.log(a), np.log(b)
    above_low = stats.ttest_ind(log_b, log_a + math.log1p(-tolerance), equal_var=False, alternative="greater").pvalue
    below_high = stats.ttest_ind(log_b, log_a + math.log1p(tolerance), equal_var=False, alternative="less").pvalue
    p = max(above_low, below_high)
    if min(abs(p - ALPHA), abs(p - 1 + ALPHA)) < 1e-9:
        return
    name = judge_ratio(welch(a, b), Tolerance(tolerance))
    assert name == ("PASS" if p < ALPHA else "FAIL" if p > 1 - ALPHA else "INCONCLUSIVE")


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (0.99, 1.01, "PASS"),
        (0.999, 1.0, "PASS"),
        (0.9899, 1.0, "INCONCLUSIVE"),
        (1.0, 1.0101, "INCONCLUSIVE"),
        (0.9, 1.1, "INCONCLUSIVE"),
        (1.0101, 1.2, "FAIL"),
        (0.8, 0.9899, "FAIL"),
    ],
)
def test_edges(low: float, high: float, name: str) -> None:
    assert judge_ratio(interval(low, high), WITHIN) == name


def test_a_tolerance_says_which_side_is_outside() -> None:
    assert [str(Tolerance(0.015)), str(Tolerance(0.015, one_sided=True))] == ["±1.5 %", "1.5 % slower"]


@given(st.floats(1e3, 1e9), st.integers(2, 9), st.integers(2, 9))
def test_equal_values_exactly_on_an_edge_are_inside(rate: float, n: int, m: int) -> None:
    found = welch([rate] * n, [rate * 1.01] * m)
    assert found.low == found.mean == found.high
    assert judge_ratio(found, WITHIN) == "PASS"
    assert judge_ratio(welch([rate] * n, [rate * 1.0101] * m), WITHIN) == "FAIL"


def test_one_side_may_be_without_spread() -> None:
    found = welch([1.0, 1.0, 1.0], [1.0, 1.01, 1.02, 0.99])
    plain = stats.t.interval(1 - 2 * ALPHA, 3, loc=np.mean(logs := np.log([1.0, 1.01, 1.02, 0.99])), scale=stats.sem(logs))
    assert [found.low, found.high] == pytest.approx(np.exp(plain))


@pytest.mark.parametrize("bad", [[], [1.0], [1.0, 0.0], [1.0, -1.0], [1.0, math.inf], [1.0, math.nan]])
def test_refuses(bad: list[float]) -> None:
    for sides in ((bad, [1.0, 2.0]), ([1.0, 2.0], bad)):
        with pytest.raises(ValueError, match=r"at least two|finite and above zero"):
            welch(*sides)


def counts(make: Callable[[np.random.Generator], tuple[NDArray[np.float64], NDArray[np.float64]]]) -> dict[str, float]:
    dice = np.random.default_rng(6)
    seen = {"PASS": 0, "FAIL": 0, "INCONCLUSIVE": 0}
    for _ in range(REPEATS):
        a, b = make(dice)
        seen[judge_ratio(welch(a.tolist(), b.tolist()), WITHIN)] += 1
    return {name: count / REPEATS for name, count in seen.items()}


def as_a_run(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is left of 20 rates around 1 when a run stops them by its own plan, judging within 1 %."""
    deviations = (values - 1).tolist()
    n = 5
    while (look := next_look(deviations[:n], 0.01, LookPlan())) is not None:
        n = look
    return values[:n]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("cv", [0.002, 0.005, 0.01])
@pytest.mark.parametrize("edge", [0.99, 1.01])
def test_a_ratio_on_the_edge_rarely_passes_though_each_run_chose_when_to_stop(cv: float, edge: float) -> None:
    share = counts(lambda dice: (as_a_run(dice.normal(1, cv, 20)), edge * as_a_run(dice.normal(1, cv, 20))))
    assert share["PASS"] <= 0.05
    assert share["FAIL"] <= 0.05


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("ratio", "name", "least"), [(1.0, "PASS", 0.99), (1.003, "PASS", 0.95), (1.017, "FAIL", 0.95)])
def test_five_quiet_samples_a_side_decide(ratio: float, name: str, least: float) -> None:
    share = counts(lambda dice: (dice.normal(1, 0.002, 5), ratio * dice.normal(1, 0.002, 5)))
    assert share[name] >= least


@pytest.mark.usefixtures("quick")
def test_unequal_noise_does_not_break_the_promise() -> None:
    share = counts(lambda dice: (dice.normal(1, 0.001, 20), 1.01 * dice.normal(1, 0.01, 5)))
    assert share["PASS"] <= ALPHA + 0.012, "four standard errors of 2000 repeats"


@given(st.lists(st.tuples(st.floats(1e3, 1e9), st.floats(0.5, 2)), min_size=2, max_size=20))
def test_pairs_agree_with_scipy(pairs: list[tuple[float, float]]) -> None:
    a, b = [rate for rate, _ in pairs], [rate * ratio for rate, ratio in pairs]
    logs = np.log(b) - np.log(a)
    if np.std(logs) < 1e-4:
        return
    found = paired_ratio(a, b).interval(0.025)
    textbook = stats.ttest_rel(np.log(b), np.log(a)).confidence_interval(0.95)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([textbook.low, textbook.high], rel=1e-6, abs=1e-9)
    assert found.n == len(pairs)


def test_what_befell_both_of_a_pair_cancels() -> None:
    dice = np.random.default_rng(3)
    common = np.exp(np.cumsum(dice.normal(0, 0.05, 10)))
    a, b = (common * np.exp(dice.normal(0, 0.001, 10)) for _ in range(2))
    assert judge_ratio(paired_ratio(a.tolist(), b.tolist()).interval(), WITHIN) == "PASS"
    assert judge_ratio(welch(a.tolist(), b.tolist()), WITHIN) == "INCONCLUSIVE"


@pytest.mark.usefixtures("quick")
def test_three_percent_drift_with_interleaving_gives_few_false_changes() -> None:
    dice = np.random.default_rng(9)
    false = 0
    for _ in range(REPEATS):
        # The places of a and b in a run of ten pairs (ABBA...), and a drift of 3 % over the run.
        drift = np.linspace(0, math.log(1.03), 20)
        places = np.array([[2 * i, 2 * i + 1] if i % 2 == 0 else [2 * i + 1, 2 * i] for i in range(10)])
        a, b = (np.exp(drift[places[:, side]] + dice.normal(0, 0.01, 10)) for side in (0, 1))
        found = paired_ratio(a.tolist(), b.tolist()).interval()
        false += found.low > 1 or found.high < 1
    assert false / REPEATS < 0.05


@given(RATES, RATES, st.floats(0.002, 0.5), st.booleans())
def test_the_p_value_says_what_the_interval_says(a: list[float], b: list[float], within: float, one_sided: bool) -> None:
    ratio, tolerance = welch_ratio(a, b), Tolerance(within, one_sided)
    p = ratio.p_outside(tolerance)
    if abs(p - ALPHA) < 1e-9:
        return
    assert (judge_ratio(ratio.interval(), tolerance) == "FAIL") == (p < ALPHA)


def test_faster_is_never_outside_of_one_side() -> None:
    assert judge_ratio(interval(1.2, 1.4), Tolerance(0.01, one_sided=True)) == "PASS"
    assert judge_ratio(interval(0.8, 0.9), Tolerance(0.01, one_sided=True)) == "FAIL"
    assert judge_ratio(interval(0.8, 1.4), Tolerance(0.01, one_sided=True)) == "INCONCLUSIVE"
