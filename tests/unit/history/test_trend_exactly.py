"""A trend's points, notes and steps, each figure by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.judge.tolerance import with_invalid
from lab.model.errors import UsageProblem
from lab.model.results import CellResult
from lab.model.trend import Trend, TrendReport
from lab.store.history import trend
from lab.store.history.index import open_index
from lab.store.history.query import Filter
from lab.store.history.source import open_source
from lab.store.history.trend import make_report
from lab.store.run_dir import RunDir
from tests.unit.history.conftest import CELL, run_cell
from tests.unit.store.conftest import AT, make_cell


def store(results: Path, day: int, *cells: CellResult) -> str:
    run = RunDir.create("nightly", results=results, now=AT + timedelta(days=day))
    for cell in cells:
        run.write_cell(cell)
    return run.name


def write(results: Path, *runs: Sequence[float], first: int = 0) -> list[str]:
    """A run a day with these rates of its transfers."""
    return [store(results, day, run_cell(rates, AT + timedelta(days=day))) for day, rates in enumerate(runs, first)]


def report(figure: str = "rate", *, least: float = 0.01, last: int = 1000) -> TrendReport:
    index = open_index(source=open_source(None))
    return make_report(index=index, meant=Filter(), name=figure, least=least, last=last)


def only(figure: str = "rate", *, last: int = 1000) -> Trend:
    (found,) = report(figure, last=last).trends
    return found


def invalid(cell: CellResult) -> CellResult:
    return cell.model_copy(update={"verdict": with_invalid(cell.verdict, ["no link"])})


# --- points -------------------------------------------------------------------------------------------------------------------


def test_a_point_is_the_geometric_mean_with_students_interval_of_the_logarithms(results: Path) -> None:
    rates = [1e6, 2e6, 4e6, 5e6]
    (name,) = write(results, rates)
    (point,) = only().points
    logs = np.log(rates)
    low, high = stats.t.interval(0.95, 3, loc=logs.mean(), scale=stats.sem(logs))
    assert (point.run, point.at, point.n, point.verdict) == (name, AT, 4, "PASS")
    assert (point.mean, point.low, point.high) == pytest.approx((math.exp(logs.mean()), math.exp(low), math.exp(high)))


def test_a_point_on_a_scale_of_its_own_is_the_plain_mean(results: Path) -> None:
    deviations = (0.01, 0.02, 0.06)
    store(results, 0, make_cell(deviations))
    (point,) = only("deviation").points
    low, high = stats.t.interval(0.95, 2, loc=0.03, scale=stats.sem(deviations))
    assert (point.mean, point.low, point.high) == pytest.approx((0.03, low, high))


@pytest.mark.parametrize(("rates", "known"), [([1e6], False), ([1e6, 1e6], True)])
def test_one_transfer_has_no_interval(results: Path, rates: list[float], known: bool) -> None:
    write(results, rates)
    (point,) = only().points
    assert point.mean == pytest.approx(1e6)
    assert ((point.low is not None), (point.high is not None)) == (known, known)


def test_noise_is_known_from_three_runs_on(results: Path) -> None:
    write(results, [1e6] * 2, [2e6] * 2)
    assert only().noise is None
    write(results, [8e6] * 2, first=2)
    assert only().noise == pytest.approx(1.4826 * 1.5 * math.log(2) / math.sqrt(2))


# --- notes --------------------------------------------------------------------------------------------------------------------


def test_a_series_that_is_long_enough_needs_no_note(results: Path) -> None:
    write(results, *[[1e6] * 2] * 6)
    assert only().notes == []


def test_what_is_left_out_is_counted(results: Path) -> None:
    write(results, *[[1e6] * 2] * 5)
    for day in (5, 6):
        store(results, day, invalid(run_cell([9e6] * 2, AT + timedelta(days=day))))
    write(results, [], first=7)
    found = only()
    assert len(found.points) == 5
    assert found.notes == [
        "2 of 8 runs are INVALID and left out",
        "1 of 8 runs have no transfer with this figure",
        "5 runs: a step needs 6, 3 on each side",
    ]


def test_older_runs_are_left_out_with_a_note(results: Path) -> None:
    names = write(results, *[[1e6] * 2] * 7)
    assert only(last=8).notes == []
    assert only(last=7).notes == ["the newest 7 runs; --last gives more"]
    newest = only(last=6)
    assert newest.notes == ["the newest 6 runs; --last gives more"]
    assert [point.run for point in newest.points] == names[1:]


def test_cells_without_the_figure_are_counted(results: Path) -> None:
    store(results, 0, run_cell([1e6] * 2, AT), make_cell())
    assert (report().notes, len(report().trends)) == ([], 2)
    found = report("deviation")
    assert found.notes == ["1 cells have no deviation"]
    assert [each.cell for each in found.trends] == [make_cell().id]


def test_what_there_is_not_is_refused(results: Path) -> None:
    store(results, 0, run_cell([1e6] * 2, AT))
    with pytest.raises(UsageProblem) as caught:
        report("deviation")
    assert str(caught.value).startswith(f"{results}: no such cell has a deviation (--figure rate or ")
    with pytest.raises(UsageProblem) as caught:
        make_report(open_index(open_source(None)), Filter(cell="x"), "rate", least=0.01)
    assert str(caught.value) == f"{results}: no such cell (lab history --cells lists what there is)"


# --- steps --------------------------------------------------------------------------------------------------------------------


def heights(*levels: float) -> list[list[float]]:
    """Four runs at each level, equal but for a little."""
    return [[level * (1 + wave / 1000)] * 3 for level in levels for wave in (0, 1, -1, 0)]


def test_a_step_lies_between_the_two_runs_next_to_it(results: Path) -> None:
    names = write(results, *heights(1e6, 1.2e6))
    (step,) = only().steps
    assert (step.index, step.before_run, step.after_run) == (4, names[3], names[4])
    assert step.at == AT + timedelta(days=4)
    assert step.change == pytest.approx(0.2)
    assert 0 < step.low < 0.2 < step.high < 0.4
    assert (step.confidence, step.better, step.changed) == (0.99, True, [])


@pytest.mark.parametrize(
    ("levels", "better", "code"),
    [
        ((1e6, 0.8e6, 1.2e6), [False, True], 0),
        ((1e6, 1.2e6, 0.8e6), [True, False], 1),
        ((1e6, 1.2e6, 1.1e6), [True, False], 1),
    ],
)
def test_a_report_fails_by_the_last_step(results: Path, levels: tuple[float, ...], better: list[bool], code: int) -> None:
    write(results, *heights(*levels))
    found = report()
    assert [step.better for step in found.trends[0].steps] == better
    assert found.exit_code == code


@pytest.mark.parametrize(("after", "found"), [(2.05e6, 1), (1.95e6, 0)])
def test_the_least_step_of_a_rate_is_a_ratio(results: Path, after: float, found: int) -> None:
    write(results, *heights(1e6, after))
    assert len(report(least=1.0).trends[0].steps) == found, "twice as much"


def test_the_least_step_of_a_deviation_is_a_difference(results: Path) -> None:
    for day, level in enumerate([0.0, 0.001, -0.001, 0.0, 0.0205, 0.0215, 0.0195, 0.0205]):
        at = AT + timedelta(days=day)
        store(results, day, make_cell((level,) * 3).model_copy(update={"started_at": at}))
    assert [len(report("deviation", least=least).trends[0].steps) for least in (0.0204, 0.0206)] == [1, 0]


def test_a_report_without_a_step_passes(results: Path) -> None:
    write(results, *heights(1e6, 1e6))
    found = report()
    assert (found.exit_code, found.trends[0].steps, found.least) == (0, [], 0.01)
    assert (found.source, found.problems, found.trends[0].unit) == (str(results), [], "B/s")


def test_what_changed_between_the_two_runs_is_listed(results: Path) -> None:
    for day, rates in enumerate(heights(1e6, 1.2e6)):
        at = AT + timedelta(days=day)
        cell = run_cell(rates, at, version="0.1.0" if day < 4 else "0.2.0")
        facts: dict[str, object] = {"kernel": "6.1"} if day < 4 else {"cores": 4}
        store(results, day, cell.model_copy(update={"before": cell.before.model_copy(update={"machine": facts})}))
    (step,) = only().steps
    assert [(each.what, each.a, each.b) for each in step.changed] == [
        ("version", ["0.1.0"], ["0.2.0"]),
        ("sha256", ["0.1.0" * 8], ["0.2.0" * 8]),
        ("kernel", ["6.1"], ["not recorded"]),
        ("cores", ["not recorded"], ["4"]),
    ]


@pytest.mark.parametrize(
    ("before", "after", "limit", "better"),
    [(0.9e6, 0.99e6, 1e6, True), (0.99e6, 1.2e6, 1e6, False), (0.9e6, 1.2e6, None, True), (1.2e6, 0.9e6, None, False)],
)
def test_a_limited_rate_is_better_nearer_to_its_limit(before: float, after: float, limit: float | None, better: bool) -> None:
    assert trend._better(math.log(before), math.log(after), limit, trend.FIGURES["rate"]) is better
    assert trend._better(0.1, 0.2, limit, trend.FIGURES["cost"]) is False, "a cost is better where it is less"


def test_every_cell_and_clock_is_a_series_of_its_own(results: Path) -> None:
    for day in range(2):
        at = AT + timedelta(days=day)
        store(results, day, run_cell([1e6] * 2, at), make_cell().model_copy(update={"started_at": at}))
    assert [(each.cell, each.clock, len(each.points)) for each in report().trends] == [
        (make_cell().id, "real", 2),
        (CELL, "real", 2),
    ]
