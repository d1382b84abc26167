"""A plan's looks and what each may decide, with a share of transfers outside and a wider interval."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from lab.judge.decide import VIRTUAL_PLAN, Decision, LookPlan, decide, place
from lab.model.results import Interval

PLAN = LookPlan()
EDGES = (-1.0, 1.0)
INSIDE, ACROSS, OUTSIDE = (-0.5, 0.5), (0.5, 1.5), (1.5, 2.0)


def interval(ends: tuple[float, float]) -> Interval:
    return Interval(n=5, mean=sum(ends) / 2, low=ends[0], high=ends[1], confidence=0.9)


# --- a plan -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("looks", "alpha"), [((2,), 0.499), ((2, 3), 0.001), ((5, 6, 7), 0.25)])
def test_a_plan_may_begin_at_two_and_look_after_every_sample(looks: tuple[int, ...], alpha: float) -> None:
    plan = LookPlan(looks, alpha)
    assert (plan.cap, plan.confidence) == (looks[-1], pytest.approx(1 - 2 * alpha))


@pytest.mark.parametrize("looks", [(), (1,), (0, 5), (5, 5), (5, 4), (5, 6, 6)])
def test_looks_rise_from_two(looks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="looks must rise") as caught:
        LookPlan(looks)
    assert str(caught.value) == f"looks must rise and start at 2 or more, got {looks}"


@pytest.mark.parametrize("alpha", [0.0, -0.1, 0.5, 0.9])
def test_an_error_is_below_one_half(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha_per_look") as caught:
        LookPlan((5,), alpha)
    assert str(caught.value) == f"alpha_per_look must be between 0 and 0.5, got {alpha}"


def test_one_look_needs_no_correction() -> None:
    assert LookPlan.single(7) == LookPlan((7,), 0.05)
    assert LookPlan.single(7, 0.1) == LookPlan((7,), 0.1)


def test_looks_before_and_after_a_number_of_samples() -> None:
    plan = LookPlan((3, 6, 9))
    assert [plan.until(taken) for taken in (0, 2, 3, 8, 9, 99)] == [[], [], [3], [3, 6], [3, 6, 9], [3, 6, 9]]
    assert [plan.after(taken) for taken in (0, 2, 3, 8, 9, 99)] == [3, 3, 6, 9, None, None]


def test_in_virtual_time_each_look_doubles_the_samples_and_the_first_is_the_same() -> None:
    looks = VIRTUAL_PLAN.looks
    assert [later / earlier for earlier, later in pairwise(looks)] == [2] * 4
    assert (looks[0], VIRTUAL_PLAN.cap) == (PLAN.looks[0], 4 * PLAN.cap)
    assert VIRTUAL_PLAN.alpha_per_look * len(looks) < PLAN.alpha_per_look * len(PLAN.looks)


# --- a place ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        (-1.0, 1.0, "PASS"),
        (-1.0 - 1e-13, 1.0 + 1e-13, "PASS"),
        (-1.0 - 1e-11, 1.0, "INCONCLUSIVE"),
        (-1.0, 1.0 + 1e-11, "INCONCLUSIVE"),
        (-2.0, -1.0, "INCONCLUSIVE"),
        (-2.0, -1.0 - 1e-13, "INCONCLUSIVE"),
        (-2.0, -1.0 - 1e-11, "FAIL"),
        (1.0, 2.0, "INCONCLUSIVE"),
        (1.0 + 1e-13, 2.0, "INCONCLUSIVE"),
        (1.0 + 1e-11, 2.0, "FAIL"),
        (-2.0, 0.0, "INCONCLUSIVE"),
        (0.0, 2.0, "INCONCLUSIVE"),
    ],
)
def test_an_edge_belongs_to_the_band_up_to_rounding(low: float, high: float, name: str) -> None:
    assert place(interval((low, high)), EDGES) == name


# --- a decision ---------------------------------------------------------------------------------------------------------------


def at(*ends: tuple[float, float]) -> Callable[[int], Interval]:
    """The interval at each look of the plan."""
    return lambda look: interval(ends[PLAN.looks.index(look)])


def test_the_last_look_leaves_it_open() -> None:
    found = decide(plan=PLAN, taken=12, interval_at=at(ACROSS, ACROSS), edges=EDGES)
    assert found == Decision(10, "INCONCLUSIVE", interval(ACROSS), [5, 10])
    assert decide(PLAN, 12, at(ACROSS, OUTSIDE), EDGES) == Decision(10, "FAIL", interval(OUTSIDE), [5, 10])


@pytest.mark.parametrize("taken", [0, 1, 2, 4])
def test_before_the_first_look_two_samples_have_an_interval(taken: int) -> None:
    found = decide(PLAN, taken, lambda _: interval(INSIDE), EDGES)
    assert found == Decision(taken, "INCONCLUSIVE", interval(INSIDE) if taken >= 2 else None, [])


def test_most_transfers_outside_fail_whatever_their_mean() -> None:
    for ends in (INSIDE, ACROSS):
        found = decide(PLAN, 20, at(ends), EDGES, most_outside=lambda _: True)
        assert found == Decision(5, "FAIL", interval(ends), [5], most_outside=True)
    found = decide(PLAN, 20, at(OUTSIDE), EDGES, most_outside=lambda _: True)
    assert found == Decision(5, "FAIL", interval(OUTSIDE), [5], most_outside=False), "its mean has failed it"


def test_a_later_look_may_show_that_most_are_outside() -> None:
    found = decide(PLAN, 20, at(ACROSS, ACROSS, ACROSS), EDGES, most_outside=lambda look: look == 15)
    assert found == Decision(15, "FAIL", interval(ACROSS), [5, 10, 15], most_outside=True)
    found = decide(PLAN, 20, at(INSIDE), EDGES, most_outside=lambda _: False)
    assert found == Decision(5, "PASS", interval(INSIDE), [5])


class Widen:
    """Widens each interval to the same ends, and remembers the looks."""

    def __init__(self, ends: tuple[float, float]) -> None:
        self.ends, self.asked = ends, list[int]()

    def __call__(self, look: int, narrow: Interval) -> Interval:
        self.asked.append(look)
        return narrow.model_copy(update={"low": self.ends[0], "high": self.ends[1], "mean": sum(self.ends) / 2})


def test_a_wider_interval_may_undo_a_pass_and_a_fail() -> None:
    for decided in (INSIDE, OUTSIDE):
        widen = Widen(ACROSS)
        found = decide(PLAN, 10, at(decided, decided), EDGES, widen)
        assert found == Decision(10, "INCONCLUSIVE", interval(ACROSS), [5, 10], widened=True)
        assert widen.asked == [5, 10]


def test_a_wider_interval_is_shown_where_most_are_outside() -> None:
    widen = Widen((-3.0, 3.0))
    found = decide(PLAN, 20, at(ACROSS), EDGES, widen, most_outside=lambda _: True)
    assert found == Decision(5, "FAIL", interval((-3.0, 3.0)), [5], widened=True, most_outside=True)
    widen = Widen((-3.0, 3.0))
    found = decide(PLAN, 20, at(ACROSS), EDGES, widen, most_outside=lambda _: True, final=False)
    assert (found.interval, found.widened, widen.asked) == (interval(ACROSS), False, [])


def test_only_the_last_look_of_a_final_result_is_widened_where_it_is_open() -> None:
    for final, asked in ((True, [10]), (False, [])):
        widen = Widen((-3.0, 3.0))
        found = decide(PLAN, 10, at(ACROSS, ACROSS), EDGES, widen, final=final)
        assert (found.widened, widen.asked, found.name) == (final, asked, "INCONCLUSIVE")


def test_an_interval_that_stays_as_it_is_was_not_widened() -> None:
    found = decide(PLAN, 5, at(INSIDE), EDGES, lambda _, narrow: narrow)
    assert (found.name, found.widened) == ("PASS", False)
