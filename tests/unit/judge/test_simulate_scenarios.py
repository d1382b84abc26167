"""Each scenario draws what its name says, is judged on what it asks, and its row counts what came of it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.interval import mean_interval
from lab.judge.simulate import Judged, Row, Scenario, run, scenarios, simulate

PLAN = LookPlan()
ALL = scenarios()
NAMES = [scenario.name for scenario in ALL]
ZEROS, FAR = np.zeros(20), np.full(20, 0.2)


def named(part: str, *, after: int = 0) -> Scenario:
    """The first whose name has this, or one behind it."""
    return ALL[next(at for at, name in enumerate(NAMES) if part in name) + after]


def drawn(scenario: Scenario, cells: int) -> NDArray[np.float64]:
    return scenario.draw(np.random.default_rng(3), cells)


# --- what is drawn ------------------------------------------------------------------------------------------------------------


def test_a_promise_is_one_in_twenty_or_one_in_a_hundred() -> None:
    assert {scenario.asked for scenario in (*ALL, *scenarios(VIRTUAL_PLAN))} == {0.05, 0.01, None}
    seldom = [scenario.name for scenario in ALL if scenario.asked == 0.01]
    assert all("6 % off" in name or name.startswith("15 % too slow or too fast") for name in seldom)


def test_every_edge_is_tried_at_four_spreads_on_both_sides() -> None:
    edges = [re.fullmatch(r"([-+]5) % off, at the edge, CV (.*) %", name) for name in NAMES]
    found = [(match[2], match[1]) for match in edges if match]
    assert found == [(spread, side) for spread in ("0.5", "1", "2", "4") for side in ("-5", "+5")]


@pytest.mark.parametrize("scenario", [each for each in ALL if "drift" not in each.name], ids=lambda each: each.name)
def test_a_cell_has_as_many_samples_as_the_plan(scenario: Scenario) -> None:
    assert drawn(scenario, 3).shape == (3, PLAN.cap)


BISTABLE = [
    (at, found) for at, name in enumerate(NAMES) if (found := re.match(r"\+(.*) % or \+(.*) %, \+(.*) % on average", name))
]


def test_five_clients_have_two_speeds_seven_percent_apart() -> None:
    speeds = [(float(found[1]), float(found[2])) for _, found in BISTABLE]
    assert speeds == [(slow, slow + 7) for slow in range(5)]


@pytest.mark.parametrize("at", [at for at, _ in BISTABLE])
def test_two_speeds_are_exact_and_equally_likely(at: int) -> None:
    found = re.match(r"\+(.*) % or \+(.*) %, \+(.*) % on average", NAMES[at])
    assert found
    values = np.expm1(drawn(ALL[at], 2000)) * 100
    assert set(np.round(values.ravel(), 6)) == {float(found[1]), float(found[2])}
    assert float((values > values.mean()).mean()) == pytest.approx(0.5, abs=0.01)
    assert math.expm1(float(np.log1p(values / 100).mean())) * 100 == pytest.approx(float(found[3]), abs=0.1)


def test_modes_are_as_far_apart_and_as_likely_as_they_are_called() -> None:
    even, told, rare = (named("two modes", after=after) for after in range(3))
    assert (told.name, rare.name) == ("the same, where n is 10 or more", "one in five 2 % slower, -5 % off on average")
    assert even.stream == told.stream
    for scenario, slow in ((even, 0.5), (rare, 0.2)):
        values = drawn(scenario, 3000)
        high = values > math.log(0.95) + 0.02 * (slow - 0.5)
        assert float((~high).mean()) == pytest.approx(slow, abs=0.01)
        assert float(values[high].mean() - values[~high].mean()) == pytest.approx(0.02, abs=2e-4)
        assert float(values[high].std()) == pytest.approx(0.002, rel=0.03)
        assert float(values.mean()) == pytest.approx(math.log(0.95), abs=3e-4)


def test_a_machine_slows_down_by_three_percent_from_the_first_slot_to_the_last() -> None:
    """Interleaved, the arms take turns (ABBA); one after the other, the baseline runs first."""
    turns = [(0, 1) if index % 4 in (0, 3) else (1, 0) for index in range(PLAN.cap)]
    pairs = np.array([[2 * index + turn[arm] for index, turn in enumerate(turns)] for arm in (0, 1)])
    blocks = np.array([range(PLAN.cap, 2 * PLAN.cap), range(PLAN.cap)])
    for part, slots in (("pairs interleaved", pairs), ("one after the other", blocks)):
        values = drawn(named(part), 6000)
        assert values.shape == (6000, 2, PLAN.cap)
        assert values.mean(axis=0) == pytest.approx(slots / (2 * PLAN.cap - 1) * math.log(0.97), abs=3e-4)
        assert float(values.std(axis=0).mean()) == pytest.approx(0.005, rel=0.02)


# --- how it is judged ---------------------------------------------------------------------------------------------------------


def test_a_client_is_wrong_where_it_gets_the_verdict_that_is_counted() -> None:
    edge, far, near, half = named("at the edge"), named("-6 % off"), named("-1 % off"), named("half of them")
    assert [scenario.counted for scenario in (edge, far, near, half)] == ["PASS", "PASS", "INCONCLUSIVE", "FAIL"]
    wide = math.log(1.05) + np.tile([-0.02, 0.02], 10)
    for row, name, samples in ((ZEROS, "PASS", 5), (FAR, "FAIL", 5), (wide, "INCONCLUSIVE", 20)):
        for scenario in (edge, near, half):
            assert scenario.judge(row) == Judged(name, samples, name == scenario.counted)  # type: ignore[arg-type]


def test_by_students_interval_alone_no_tail_and_no_share_of_transfers_counts() -> None:
    alone = named("Student's interval alone")
    swinging = np.tile([0.2, -0.2], 10)
    assert named("half of them").judge(swinging) == Judged("FAIL", 10, True)
    assert alone.judge(swinging) == Judged("INCONCLUSIVE", 20, False)
    assert alone.judge(ZEROS) == Judged("PASS", 5, True)
    values = [0.0, 0.001, 0.002, 0.001, 0.0, 0.003, 0.001, 0.0, 0.0, 0.1] * 2
    found = alone.judge(np.array(values))
    ends = mean_interval(values[:10], PLAN.confidence)
    assert (found.samples, ends.high < math.log(1.05)) == (5, True)


def test_two_modes_are_wrong_where_nothing_tells_of_them() -> None:
    told = named("the same, where n is 10 or more")
    assert told.judge(ZEROS) == Judged("PASS", 5, False), "five samples show no modes"
    modes = np.tile([-0.08, -0.02], 10)
    assert told.judge(modes).wrong is False
    assert told.judge(modes).samples > 5
    smooth = np.tile([-0.09, -0.07, -0.05, -0.03, -0.01], 4)
    found = told.judge(smooth)
    assert (found.samples > 5, found.wrong) == (True, True)


def test_a_comparison_is_wrong_where_it_finds_a_change() -> None:
    no_worse, within = named("interleaved, no worse"), named("interleaved, within")
    block_no_worse, block_within = named("after the other, no worse"), named("after the other, within")
    same, slower = np.zeros((2, 20)), np.stack([np.full(20, -0.02), np.zeros(20)])
    faster = -slower
    for scenario, samples in ((no_worse, 10), (within, 40), (block_no_worse, 10), (block_within, 40)):
        assert scenario.counted == "FAIL"
        assert scenario.judge(same) == Judged("PASS", samples, False)
        assert scenario.judge(slower) == Judged("FAIL", samples, True)
    assert no_worse.judge(faster) == Judged("PASS", 10, False)
    late = np.stack([np.array([0.015, -0.015, 0.015, -0.015, 0.0, *[0.01] * 15]), np.zeros(20)])
    assert no_worse.judge(late) == Judged("PASS", 20, False), "both sides of ten pairs"
    assert within.judge(faster) == Judged("FAIL", 40, True)


# --- its row ------------------------------------------------------------------------------------------------------------------


def planted(*rows: tuple[float, str]) -> Scenario:
    """Cells whose first sample says what the verdict is."""
    verdicts = dict(rows)

    def judge(row: NDArray[np.float64]) -> Judged:
        name = verdicts[float(row[0])]
        return Judged(name, int(row[0]), name == "FAIL")  # type: ignore[arg-type]

    return Scenario("x", "FAIL", 0.25, lambda _, cells: np.array([[each] for each, _ in rows])[:cells], judge)


def test_a_row_counts_its_cells() -> None:
    found = run(planted((1.0, "FAIL"), (2.0, "PASS"), (4.0, "PASS"), (9.0, "INCONCLUSIVE")), 4, 0)
    centre, half = (1 + 1.96**2 / 2) / (4 + 1.96**2), 1.96 / (4 + 1.96**2) * math.sqrt(1 * 3 / 4 + 1.96**2 / 4)
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half), abs=1e-4), "Wilson's"
    assert (found.scenario, found.counted, found.asked, found.cells, found.seen, found.share) == ("x", "FAIL", 0.25, 4, 1, 0.25)
    assert (found.verdicts, found.mean_samples) == ({"FAIL": 1, "PASS": 2, "INCONCLUSIVE": 1}, 4.0)
    assert run(planted((1.0, "FAIL")), 1, 0).seen == 1


@pytest.mark.parametrize(("cells", "seed"), [(0, 0), (-1, 0), (1, -1)])
def test_a_row_needs_a_cell_and_a_seed(cells: int, seed: int) -> None:
    said = f"a simulation needs one cell at least and a seed of 0 or more, got {cells} and {seed}"
    with pytest.raises(ValueError, match=said):
        run(ALL[0], cells, seed)


def test_the_seed_and_the_stream_make_the_samples() -> None:
    seen: list[float] = []

    def scenario(name: str, stream: str = "") -> Scenario:
        def draw(random: np.random.Generator, cells: int) -> NDArray[np.float64]:
            values = random.random((cells, 1))
            seen.append(float(values[0, 0]))
            return values

        return Scenario(name, "FAIL", None, draw, lambda _: Judged("PASS", 1, False), stream)

    for each, seed in (
        (scenario("a"), 1),
        (scenario("b"), 1),
        (scenario("a"), 2),
        (scenario("c", "a"), 1),
        (scenario("d", "s"), 1),
    ):
        run(each, 1, seed)
    assert seen[3] == seen[0]
    assert len(set(seen)) == 4


def test_a_simulation_has_a_row_for_every_scenario_in_order() -> None:
    assert [(row.scenario, row.cells) for row in simulate(1, 1)] == [(name, 1) for name in NAMES]


def test_a_promise_is_broken_where_the_complete_interval_is_above_it() -> None:
    def row(share: float, low: float, asked: float | None) -> tuple[str, bool]:
        found = Row(
            **{"scenario": "-", "counted": "PASS", "asked": asked, "cells": 9, "seen": 1, "share": share, "low": low},
            **{"high": 1.0, "verdicts": {}, "mean_samples": 5.0},
        )
        return found.word, found.broken

    assert row(0.05, 0.01, 0.05) == ("kept", False)
    assert row(0.06, 0.05, 0.05) == ("within chance", False)
    assert row(0.06, 0.051, 0.05) == ("BROKEN", True)
    assert row(0.06, 0.051, None) == ("shown", False)
