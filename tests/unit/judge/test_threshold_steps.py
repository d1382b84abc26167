"""The search for a threshold, step by step: each value that is tried, why, and where exactly it ends."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lab.judge.threshold import LEAST_WIDTH, Conclusion, Goal, Next, Trial, decide, rounded
from lab.model.results import VerdictName

GOAL = Goal(100, 1000, 0.02, 15)
BETWEEN = "between the highest PASS and the lowest FAIL"


def tried(**verdicts: VerdictName) -> list[Trial]:
    """`_100="PASS"`: the value, with `_` before it, and `p_` before a probe."""
    return [
        Trial(float(name.removeprefix("p").removeprefix("_").replace("_", ".")), verdict, name.startswith("p"))
        for name, verdict in verdicts.items()
    ]


# --- values -------------------------------------------------------------------------------------------------------------------


def test_a_value_has_four_digits() -> None:
    assert [rounded(value) for value in (123456, 12.3456, 0.00123456, 2.0)] == [123500, 12.35, 0.001235, 2]


def test_the_middle_is_by_ratio_and_a_multiple_of_the_step() -> None:
    assert GOAL.middle(1, 100) == 10
    assert GOAL.middle(1, 600) == 24.49
    assert Goal(1, 2, 0.02, 9, 4).middle(10, 12) == 12
    assert Goal(1, 2, 0.02, 9, 0.0001).middle(0.001, 0.003) == 0.0017, "as it is written"
    assert Goal(1, 2, 0.02, 9, 1e-12).middle(1e-12, 9e-12) == 3e-12


# --- the goal -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (1, 1), (2, 1), (1, math.inf)])
def test_a_range_has_two_ends(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=f"a range runs from a value above 0 to a larger one, not from {low:g} to {high:g}"):
        decide(Goal(low, high, 0.02, 15), [])


@pytest.mark.parametrize(
    ("width", "budget", "fits"), [(LEAST_WIDTH, 2, True), (0.999, 2, True), (0.0049, 2, False), (1, 2, False)]
)
def test_a_width_and_a_budget_have_their_ends(width: float, budget: int, fits: bool) -> None:
    if fits:
        assert isinstance(decide(Goal(1, 2, width, budget), []), Next)
        return
    with pytest.raises(ValueError, match=f"no goal can have a width of {width:g} and {budget} trials"):
        decide(Goal(1, 2, width, budget), [])


def test_a_budget_is_more_than_one_trial_and_a_value_is_tried_only_once() -> None:
    with pytest.raises(ValueError, match=r"a width of 0.02 and 1 trials"):
        decide(Goal(1, 2, 0.02, 1), [])
    with pytest.raises(ValueError, match="a value was tried twice"):
        decide(GOAL, [Trial(100, "PASS"), Trial(100, "FAIL")])


# --- the way ------------------------------------------------------------------------------------------------------------------


def test_the_ends_come_first_and_then_the_middle() -> None:
    assert decide(GOAL, []) == Next(100, "the start of the range")
    assert decide(GOAL, tried(_100="PASS")) == Next(1000, "the end of the range")
    assert decide(GOAL, tried(_100="PASS", _1000="FAIL")) == Next(316.2, BETWEEN)
    assert decide(GOAL, tried(_100="PASS", _1000="FAIL", _316_2="PASS")) == Next(562.3, BETWEEN)
    assert decide(GOAL, tried(_100="PASS", _1000="FAIL", _316_2="FAIL")) == Next(177.8, BETWEEN)


def test_the_widest_gap_around_an_open_value_is_next() -> None:
    trials = tried(_100="PASS", _1000="FAIL", _316_2="INCONCLUSIVE", _500="FAIL")
    assert decide(GOAL, trials) == Next(177.8, BETWEEN)
    trials = tried(_100="PASS", _1000="FAIL", _316_2="INCONCLUSIVE", _150="PASS")
    assert decide(GOAL, trials) == Next(562.3, BETWEEN)


def test_an_end_without_a_verdict_is_named_with_both() -> None:
    assert decide(GOAL, tried(_100="INVALID", _1000="FAIL")) == Conclusion("unknown", open=("INVALID",))
    assert decide(GOAL, tried(_100="PASS", _1000="INCONCLUSIVE")) == Conclusion("unknown", open=("INCONCLUSIVE",))
    both = decide(GOAL, tried(_100="INCONCLUSIVE", _1000="INVALID"))
    assert both == Conclusion("unknown", open=("INCONCLUSIVE", "INVALID"))


def test_an_interval_of_exactly_the_width_is_found() -> None:
    assert decide(Goal(100, 102, 0.02, 15), tried(_100="PASS", _102="FAIL")) == Conclusion("found", 100, 102)
    assert decide(Goal(100, 103, 0.02, 15), tried(_100="PASS", _103="FAIL")) == Next(101.5, BETWEEN)


@pytest.mark.parametrize(("step", "goes_on"), [(0.24, False), (0.27, True)])
def test_around_open_values_the_search_goes_down_to_an_eighth_of_the_width(step: float, goes_on: bool) -> None:
    values = [100 + step * index for index in range(1, math.floor(3 / step) + 1)]
    trials = [Trial(100, "PASS"), Trial(103, "FAIL"), *(Trial(value, "INCONCLUSIVE") for value in values if value < 103)]
    found = decide(Goal(100, 103, 0.02, 99), trials)
    if goes_on:
        assert found == Next(100.1, BETWEEN)
    else:
        assert found == Conclusion("range", 100, 103, ("INCONCLUSIVE",) * (len(trials) - 2))


def test_a_budget_that_is_used_up_ends_in_a_range_with_what_is_open_in_it() -> None:
    trials = tried(_100="PASS", _1000="FAIL", _150="PASS", _300="INVALID", _200="INCONCLUSIVE", _120="INVALID")
    assert decide(Goal(100, 1000, 0.02, 6), trials) == Conclusion("range", 150, 1000, ("INCONCLUSIVE", "INVALID"))
    assert decide(Goal(100, 1000, 0.02, 5), trials) == decide(Goal(100, 1000, 0.02, 6), trials)
    assert decide(Goal(100, 1000, 0.02, 7), trials) == Next(547.7, BETWEEN)


# --- probes -------------------------------------------------------------------------------------------------------------------


def test_two_probes_look_above_and_below_what_was_found() -> None:
    trials = tried(_100="PASS", _1000="FAIL", _300="PASS", _303="FAIL")
    above = decide(GOAL, trials)
    assert above == Next(550.5, "a probe above the interval: is there one threshold?", probe=True)
    trials += tried(p550_5="FAIL")
    below = decide(GOAL, trials)
    assert below == Next(173.2, "a probe below the interval: is there one threshold?", probe=True)
    for budget in (4, 5):
        assert decide(Goal(100, 1000, 0.02, budget), trials) == Conclusion("found", 300, 303, (), 1)
    trials += tried(p173_2="PASS")
    assert decide(GOAL, trials) == Conclusion("found", 300, 303, (), 2)


def test_a_probe_is_made_where_there_is_room() -> None:
    high = tried(_100="PASS", _1000="FAIL", _985="PASS")
    assert decide(GOAL, high) == Next(313.8, "a probe below the interval: is there one threshold?", probe=True)
    low = tried(_100="PASS", _1000="FAIL", _101="FAIL")
    assert decide(GOAL, low) == Next(317.8, "a probe above the interval: is there one threshold?", probe=True)
    assert decide(GOAL, [*low, *tried(p317_8="FAIL")]) == Next(
        563.7, "a probe above the interval: is there one threshold?", probe=True
    ), "there is no room below the interval"


def test_without_an_interval_a_probe_is_in_the_range() -> None:
    words = "a probe in the range: is there one threshold?"
    for verdict, kind, ends in (("PASS", "above", (1000, None)), ("FAIL", "below", (None, 100))):
        same: Any = verdict
        trials = [Trial(100, same), Trial(1000, same)]
        assert decide(GOAL, trials) == Next(316.2, words, probe=True)
        trials.append(Trial(316.2, same, probe=True))
        assert decide(GOAL, trials) == Next(562.3, words, probe=True)
        trials.append(Trial(562.3, same, probe=True))
        assert decide(GOAL, trials) == Conclusion(kind, *ends, (), 2)  # type: ignore[arg-type]
        assert decide(Goal(100, 1000, 0.02, 2), trials[:2]) == Conclusion(kind, *ends, (), 0)  # type: ignore[arg-type]


def test_a_gap_of_the_width_has_no_room_for_a_probe() -> None:
    assert decide(Goal(100, 102, 0.02, 15), tried(_100="PASS", _102="PASS")) == Conclusion("above", 102)
    assert isinstance(decide(Goal(100, 103, 0.02, 15), tried(_100="PASS", _103="PASS")), Next)


def test_what_stayed_open_inside_is_given_with_what_was_found() -> None:
    trials = tried(_100="PASS", _1000="FAIL", _300="PASS", _303="FAIL", _301="INVALID", _302="INCONCLUSIVE", _500="INVALID")
    assert decide(Goal(100, 1000, 0.02, 7), trials) == Conclusion("found", 300, 303, ("INVALID", "INCONCLUSIVE"))


# --- several ------------------------------------------------------------------------------------------------------------------


def test_a_pass_above_a_fail_is_given_with_the_lowest_fail_and_what_passes_below_it() -> None:
    trials = tried(_100="PASS", _1000="FAIL", _200="PASS", _300="FAIL", _500="PASS", _400="FAIL")
    assert decide(GOAL, trials) == Conclusion("several", 200, 300)
    assert decide(GOAL, tried(_100="FAIL", _1000="PASS")) == Conclusion("several", None, 100)


# --- conclusions --------------------------------------------------------------------------------------------------------------


def test_a_width_is_a_fraction_of_the_lower_end() -> None:
    assert Conclusion("found", 200, 250).width == 0.25
    assert [Conclusion("above", 200).width, Conclusion("below", None, 250).width, Conclusion("unknown").width] == [None] * 3


@pytest.mark.parametrize(
    ("kind", "open_ones", "verdict"),
    [
        ("found", (), "PASS"),
        ("found", ("INVALID",), "PASS"),
        ("above", (), "PASS"),
        ("below", (), "PASS"),
        ("range", (), "INCONCLUSIVE"),
        ("range", ("INCONCLUSIVE",), "INCONCLUSIVE"),
        ("range", ("INCONCLUSIVE", "INVALID"), "INVALID"),
        ("unknown", ("INVALID",), "INVALID"),
        ("several", (), "INCONCLUSIVE"),
    ],
)
def test_only_an_answer_passes(kind: Any, open_ones: tuple[VerdictName, ...], verdict: VerdictName) -> None:
    assert Conclusion(kind, open=open_ones).verdict == verdict
