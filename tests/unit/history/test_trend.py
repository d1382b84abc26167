"""`make_report` on thirty stored runs: it names the step, what changed there, and fails only by what is worse."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from lab.judge.tolerance import with_invalid
from lab.model.errors import UsageProblem
from lab.model.results import CellResult
from lab.model.trend import TrendReport
from lab.store.history.index import open_index
from lab.store.history.query import Filter
from lab.store.history.source import open_source
from lab.store.history.trend import make_report
from lab.store.run_dir import RunDir
from reports.history_tables import step_words
from tests.unit.history.conftest import CELL, write_history
from tests.unit.store.conftest import AT, make_cell


def report(figure: str = "rate", least: float = 0.01, *, last: int = 1000, **meant: str) -> TrendReport:
    found = make_report(open_index(open_source(None)), Filter(**meant), figure, least=least, last=last)
    return TrendReport.model_validate_json(found.model_dump_json())


def test_thirty_runs_with_five_percent_in_the_middle_name_the_step(results: Path) -> None:
    runs = write_history(results)
    found = report(cell=CELL)
    (trend,) = found.trends
    (step,) = trend.steps
    assert (len(trend.points), step.index, step.before_run, step.after_run) == (30, 15, runs[14].name, runs[15].name)
    assert step.at == AT + timedelta(days=15)
    assert step.low < -0.05 < step.high < 0
    assert step.change == pytest.approx(-0.05, abs=0.01)
    assert step.better is False
    assert {row.what: (row.a, row.b) for row in step.changed} == {
        "version": (["0.1.0"], ["0.1.1"]),
        "sha256": (["0.1.0" * 8], ["0.1.1" * 8]),
        "lab revision": (["a" * 40], ["d" * 40]),
    }
    assert found.exit_code == 1
    words = step_words(step, trend)
    assert f"between {runs[14].name} and {runs[15].name} (2026-01-17): version 0.1.0 -> 0.1.1" in words
    assert "lab revision aaaaaaaaaaaa -> dddddddddddd" in words


@pytest.mark.parametrize("cv", [0.01, 0.02])
@pytest.mark.parametrize("seed", [1, 2])
def test_thirty_equal_runs_have_no_step(results: Path, cv: float, seed: int) -> None:
    write_history(results, step_at=None, cv=cv, seed=seed)
    found = report()
    assert (found.trends[0].steps, found.exit_code) == ([], 0)
    assert found.trends[0].noise == pytest.approx(cv, rel=0.6)


def test_faster_does_not_fail(results: Path) -> None:
    write_history(results, change=0.05)
    found = report()
    assert [step.better for step in found.trends[0].steps] == [True]
    assert found.exit_code == 0


def test_a_point_has_the_interval_of_its_transfers(results: Path) -> None:
    write_history(results, runs=1, step_at=None)
    (point,) = report().trends[0].points
    assert point.low is not None
    assert point.high is not None
    assert point.low < point.mean < point.high
    assert point.n == 5
    assert report().trends[0].notes == ["1 run: a step needs 6, 3 on each side"]


def test_runs_for_which_the_lab_is_at_fault_do_not_count(results: Path) -> None:
    runs = write_history(results, step_at=None, cv=0.002)
    for run in runs[10:14]:
        cell = run.read_cells()[0]
        spoilt = [sample.model_copy(update={"body_byte_s": 1e6}) for sample in cell.samples]
        verdict = with_invalid(cell.verdict, ["no link"])
        run.write_cell(
            CellResult.model_validate_json(cell.model_copy(update={"samples": spoilt, "verdict": verdict}).model_dump_json())
        )
    (trend,) = report().trends
    assert (len(trend.points), trend.steps) == (26, [])
    assert trend.notes == ["4 of 30 runs are INVALID and left out"]


def limited(results: Path, before: float, after: float) -> None:
    dice = random.Random(5)
    for day in range(12):
        at = AT + timedelta(days=day)
        level = before if day < 6 else after
        cell = make_cell(tuple(level + dice.gauss(0, 0.001) for _ in range(5)))
        RunDir.create("nightly", results=results, now=at).write_cell(cell.model_copy(update={"started_at": at}))


@pytest.mark.parametrize("figure", ["rate", "deviation"])
@pytest.mark.parametrize(
    ("before", "after", "better"), [(0.0, 0.04, False), (0.0, -0.04, False), (-0.04, 0.0, True), (0.06, 0.01, True)]
)
def test_with_a_limit_better_is_nearer_to_it(results: Path, figure: str, before: float, after: float, better: bool) -> None:
    limited(results, before, after)
    found = report(figure)
    (step,) = found.trends[0].steps
    assert (step.index, step.better) == (6, better)
    assert step.change == pytest.approx((1 + after) / (1 + before) - 1 if figure == "rate" else after - before, abs=0.003)
    assert found.exit_code == (0 if better else 1)


@pytest.mark.parametrize("figure", ["rate", "deviation", "cost", "memory"])
def test_every_figure_has_its_unit(results: Path, figure: str) -> None:
    limited(results, 0.0, 0.0)
    trend = report(figure).trends[0]
    expected = {"rate": (1e6, "B/s"), "deviation": (0.0, "1"), "cost": (0.03 / 5.24288e-3, "CPU s/GB"), "memory": (12e6, "B")}
    mean, unit = expected[figure]
    assert trend.unit == unit
    assert trend.points[0].mean == pytest.approx(mean, rel=0.01, abs=0.002)
    assert trend.steps == []


def test_only_the_newest_are_looked_at_where_there_are_many(results: Path) -> None:
    write_history(results, runs=12, step_at=6, cv=0.001)
    (trend,) = report(last=6).trends
    assert (len(trend.points), trend.steps) == (6, [])
    assert any("the newest 6 runs" in note for note in trend.notes)


def test_an_empty_selection_is_one_line(results: Path) -> None:
    write_history(results, runs=2, step_at=None)
    with pytest.raises(UsageProblem, match="no such cell"):
        report(cell="nosuch")
    with pytest.raises(UsageProblem, match="has a deviation"):
        report("deviation")
    assert report(client="ferry", topology="dsl-50").trends[0].cell == CELL
