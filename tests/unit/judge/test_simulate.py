"""The simulation: its clients are what they claim to be, its words follow the figures, and a broken judge is found out."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.simulate import DRIFT, Row, Scenario, Simulation, run, scenarios
from lab.judge.tolerance import judge_tolerance, next_look

BY_NAME = {scenario.name: scenario for scenario in scenarios()}
EDGE = BY_NAME["-5 % off, at the edge, CV 2 %"]


def drawn(scenario: Scenario, cells: int = 20000) -> np.ndarray:
    return scenario.draw(np.random.default_rng(2), cells)


def row(share: float, asked: float | None, cells: int = 10000) -> Row:
    half = 1.96 * math.sqrt(share * (1 - share) / cells)
    return Row(
        scenario="-",
        counted="PASS",
        asked=asked,
        cells=cells,
        seen=round(share * cells),
        share=share,
        low=share - half,
        high=share + half,
        verdicts={"PASS": 1},
        mean_samples=5,
    )


def test_the_same_seed_gives_the_same_row_and_another_another() -> None:
    assert run(EDGE, 50, 1) == run(EDGE, 50, 1)
    assert run(EDGE, 50, 1) != run(EDGE, 50, 2)


def test_every_cell_has_a_verdict_and_the_share_is_of_all() -> None:
    found = run(EDGE, 60, 3)
    assert sum(found.verdicts.values()) == found.cells == 60
    assert found.share == found.seen / 60 == found.verdicts.get("PASS", 0) / 60
    assert found.low <= found.share <= found.high
    assert 5 <= found.mean_samples <= 20


@pytest.mark.parametrize("name", [name for name in BY_NAME if "off" in name])
def test_the_true_mean_and_spread_are_those_of_the_name(name: str) -> None:
    found = re.search(r"([+-]\d) % off", name)
    assert found
    offset = float(found[1]) / 100
    values = drawn(BY_NAME[name], 5000)
    assert float(values.mean()) == pytest.approx(math.log1p(offset), abs=0.001)
    if spread := re.search(r"CV ([\d.]+) %", name):
        assert float(values.std()) == pytest.approx(float(spread[1]) / 100, rel=0.05)


@pytest.mark.parametrize(("place", "away"), [(0, 1.0), (1, 1.0), (2, 0.5)])
def test_a_client_around_its_limit_is_as_often_away_from_it_as_its_name_says(place: int, away: float) -> None:
    rows = scenarios()
    first = [row.name for row in rows].index("15 % too slow or too fast, 0 % on average")
    assert [row.name for row in rows[first + 1 : first + 3]] == ["the same", "half of them so, the others exact"]
    values = drawn(rows[first + place], 5000)
    assert {round(math.expm1(value), 6) for value in np.unique(np.abs(values))} <= {0.0, 0.15}
    assert float((values != 0).mean()) == pytest.approx(away, abs=0.01)
    assert float(values.mean()) == pytest.approx(0, abs=0.002)


def test_a_client_that_stalls_has_a_tail_on_the_slow_side() -> None:
    from scipy.stats import skew

    name = next(name for name in BY_NAME if name.startswith("stalls"))
    assert float(skew(drawn(BY_NAME[name]).ravel())) == pytest.approx(-0.95, abs=0.1)


def test_drift_cancels_between_interleaved_pairs_only() -> None:
    names = [name for name in BY_NAME if "drift" in name]
    means = {name: float((each := drawn(BY_NAME[name]))[:, 0].mean() - each[:, 1].mean()) for name in names}
    for name, mean in means.items():
        expected = 0.0 if "interleaved" in name else math.log1p(-DRIFT) * 20 / 39
        assert mean == pytest.approx(expected, abs=2e-4), name


def test_only_interleaved_samples_are_compared_in_pairs() -> None:
    """Both sides move by 5 % together: pairs are equal, and the two means have wide intervals."""
    row = np.array([[0.05, -0.05] * 10, [0.05, -0.05] * 10])
    names = {name: BY_NAME[name].judge(row).name for name in BY_NAME if "drift" in name and "within" in name}
    assert {("interleaved" in name, verdict) for name, verdict in names.items()} == {(True, "PASS"), (False, "INCONCLUSIVE")}


def test_neighbouring_rows_see_the_same_samples() -> None:
    union = BY_NAME["stalls now and then (lognormal), -5 % off, CV 2 %"]
    alone = BY_NAME["the same by Student's interval alone"]
    assert union.stream == alone.stream
    both, student = run(union, 300, 1), run(alone, 300, 1)
    assert both.seen <= student.seen


@pytest.mark.parametrize(
    ("share", "asked", "word"),
    [(0.04, 0.05, "kept"), (0.052, 0.05, "within chance"), (0.06, 0.05, "BROKEN"), (0.9, None, "shown")],
)
def test_words(share: float, asked: float | None, word: str) -> None:
    found = row(share, asked)
    assert (found.word, found.broken) == (word, word == "BROKEN")
    done = Simulation(seed=1, looks=[5], alpha_per_look=0.05, rows=[found])
    assert done.broken == ([found] if found.broken else [])


def test_looks_without_correction_are_found_out() -> None:
    careless = {scenario.name: scenario for scenario in scenarios(LookPlan(alpha_per_look=0.05))}[EDGE.name]
    assert run(careless, 1000, 1).broken
    assert not run(EDGE, 1000, 1).broken


def test_a_client_with_two_speeds_is_decided_where_samples_are_cheap() -> None:
    name = "+0 % or +7 %, +3.4 % on average"
    patient = {scenario.name: scenario for scenario in scenarios(VIRTUAL_PLAN)}[name]
    assert set(np.round(np.expm1(drawn(patient, 50)).ravel(), 9)) == {0.0, 0.07}
    few, many = run(BY_NAME[name], 200, 1), run(patient, 200, 1)
    assert (few.asked, few.share > 0.4) == (None, True)
    assert not many.broken
    assert many.verdicts["PASS"] > 160


def test_two_speeds_are_promised_to_be_undecided_only_where_samples_are_cheap() -> None:
    """And only where the mean is well inside the tolerance or at its edge: on both sides of it nothing is promised."""
    names = [name for name in BY_NAME if " or +" in name and name.endswith("on average")]
    patient = {scenario.name: scenario for scenario in scenarios(VIRTUAL_PLAN)}
    assert {BY_NAME[name].asked for name in names} == {None}
    assert [patient[name].asked is not None for name in names] == [True, False, False, False, True]


@pytest.mark.parametrize("name", ["-5 % off, at the edge, CV 2 %", "stalls now and then (lognormal), -5 % off, CV 2 %"])
def test_a_simulated_client_is_judged_as_a_session_judges(name: str) -> None:
    scenario = {scenario.name: scenario for scenario in scenarios(VIRTUAL_PLAN)}[name]
    for row in drawn(scenario, 100):
        deviations = [math.expm1(value) for value in row]
        taken = 0
        while (look := next_look(deviations[:taken], 0.05, VIRTUAL_PLAN)) is not None:
            taken = look
        judged = scenario.judge(row)
        assert (judged.name, judged.samples) == (judge_tolerance(deviations[:taken], 0.05, VIRTUAL_PLAN).name, taken)


def test_the_virtual_plan_errs_as_seldom_as_the_real_one() -> None:
    edge = {scenario.name: scenario for scenario in scenarios(VIRTUAL_PLAN)}[EDGE.name]
    assert run(edge, 1000, 1).word == "kept"


@pytest.mark.parametrize(("cells", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_refuses(cells: int, seed: int) -> None:
    with pytest.raises(ValueError, match="simulation"):
        run(EDGE, cells, seed)
