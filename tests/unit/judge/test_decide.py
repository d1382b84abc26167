"""The one look loop: edges, looks, what widening may do; and properties of the verdicts that stand on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judge.decide import Decision, LookPlan, decide, place, scaled
from lab.judge.interval import mean_interval
from lab.judge.tolerance import Band, judge_band, judge_tolerance
from lab.judge.tolerance import LookPlan as SamePlan
from lab.model.results import Interval

PLAN = LookPlan()
BAND = Band.within(0.05)
CENTRE = sum(BAND.edges) / 2

logs = st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=20)


def interval(low: float, high: float) -> Interval:
    return Interval(n=5, mean=(low + high) / 2, low=low, high=high, confidence=0.9)


def decided(values: Sequence[float], edges: tuple[float, float]) -> Decision:
    return decide(PLAN, len(values), lambda look: mean_interval(values[:look], PLAN.confidence), edges)


def judged(values: Sequence[float]) -> str:
    return judge_tolerance([math.expm1(value) for value in values], 0.05, PLAN).name


def test_a_plan_is_one_class_wherever_it_is_taken_from() -> None:
    assert SamePlan is LookPlan
    assert PLAN.until(14) == [5, 10]
    assert [PLAN.after(taken) for taken in (0, 5, 19, 20)] == [5, 10, 20, None]


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (-1.0, 1.0, "PASS"),
        (-1.0 - 1e-13, 1.0 + 1e-13, "PASS"),
        (-1.1, 0.0, "INCONCLUSIVE"),
        (0.0, 1.1, "INCONCLUSIVE"),
        (-2.0, 2.0, "INCONCLUSIVE"),
        (1.1, 1.2, "FAIL"),
        (-1.2, -1.1, "FAIL"),
        (1.0, 1.2, "INCONCLUSIVE"),
    ],
)
def test_place(low: float, high: float, name: str) -> None:
    assert place(interval(low, high), (-1.0, 1.0)) == name


def test_an_open_side_has_no_edge() -> None:
    assert place(interval(-9.0, 0.5), (-math.inf, 1.0)) == "PASS"
    assert place(interval(0.5, 99.0), (0.0, math.inf)) == "PASS"


def test_the_first_look_that_decides_is_the_verdict() -> None:
    asked: list[int] = []

    def interval_at(look: int) -> Interval:
        asked.append(look)
        return interval(-2.0, 0.0) if look == 5 else interval(0.0, 0.5)

    found = decide(PLAN, 20, interval_at, (-1.0, 1.0))
    assert (found.used, found.name, found.looks, asked) == (10, "PASS", [5, 10], [5, 10])


def test_before_the_first_look_there_is_only_something_to_read() -> None:
    found = decide(PLAN, 4, lambda n: interval(0.0, float(n)), (-9.0, 9.0))
    assert (found.used, found.name, found.looks, found.interval and found.interval.high) == (4, "INCONCLUSIVE", [], 4.0)
    assert decide(PLAN, 1, lambda n: interval(0.0, float(n)), (-9.0, 9.0)).interval is None


def test_widening_undoes_a_decision_and_is_asked_only_where_it_matters() -> None:
    asked: list[int] = []

    def widen(look: int, narrow: Interval) -> Interval:
        asked.append(look)
        return narrow.model_copy(update={"high": 5.0})

    def inside_at_ten(look: int) -> Interval:
        return interval(0.0, 0.5) if look == 10 else interval(0.0, 1.5)

    found = decide(PLAN, 20, inside_at_ten, (-1.0, 1.0), widen)
    assert (found.name, found.widened, found.interval and found.interval.high, asked) == ("INCONCLUSIVE", True, 5.0, [10, 20])
    asked.clear()
    assert not decide(PLAN, 20, inside_at_ten, (-1.0, 1.0), widen, final=False).widened
    assert asked == [10]


def test_another_unit() -> None:
    assert scaled(interval(-1.0, 1.0), math.exp) == Interval(n=5, mean=1.0, low=math.exp(-1), high=math.e, confidence=0.9)


# --- properties ---------------------------------------------------------------------------------------------------------------


@given(logs, st.floats(0.0, 1.0))
def test_nearer_to_the_centre_never_turns_pass_to_fail(values: list[float], share: float) -> None:
    if judged(values) == "PASS":
        assert judged([CENTRE + share * (value - CENTRE) for value in values]) == "PASS"


@given(st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=5), st.floats(0.0, 1.0))
def test_shifted_towards_the_centre_never_turns_pass_to_fail(values: list[float], share: float) -> None:
    shift = share * (CENTRE - math.fsum(values) / len(values))
    if judged(values) == "PASS":
        assert judged([value + shift for value in values]) == "PASS"


@given(logs, st.floats(0.01, 100.0))
def test_the_scale_does_not_matter(values: list[float], scale: float) -> None:
    low, high = BAND.edges
    one, other = decided(values, (low, high)), decided([value * scale for value in values], (low * scale, high * scale))
    near = min(abs(end - edge) for end in (one.interval.low, one.interval.high) for edge in (low, high)) if one.interval else 1
    if near > 1e-9:
        assert (one.name, one.used) == (other.name, other.used)


@given(logs, st.randoms(use_true_random=False))
def test_order_matters_through_the_looks_only(values: list[float], chance: object) -> None:
    blocks = [values[start : start + 5] for start in range(0, len(values), 5)]
    for block in blocks:
        chance.shuffle(block)  # type: ignore[attr-defined]
    one, other = decided(values, BAND.edges), decided([value for block in blocks for value in block], BAND.edges)
    assert (one.name, one.used) == (other.name, other.used)
    assert one.interval
    assert other.interval
    assert (one.interval.low, one.interval.high) == pytest.approx((other.interval.low, other.interval.high), abs=1e-9)


@pytest.mark.parametrize(("step", "name"), [(0.0323, "PASS"), (0.0324, "INCONCLUSIVE")])
def test_one_look_is_the_textbooks_equivalence_test(step: float, name: str) -> None:
    """By hand: -2, -1, 0, 1, 2 steps have s = 1.5811 steps; with the table's t(.95; 4) = 2.1318 the half width is 1.5074 steps.

    The nearer edge of +-5 % is log 1.05 = .048790, which is 32.366 thousandths of that.
    """
    values = [math.expm1(index * step) for index in (-2, -1, 0, 1, 2)]
    assert judge_band(values, BAND, LookPlan.single(5)).name == name
    half = 2.1318 * 1.5811 * step / math.sqrt(5)
    found = mean_interval(np.log1p(values).tolist(), 0.90)
    assert (found.low, found.high) == pytest.approx((-half, half), rel=1e-4)
