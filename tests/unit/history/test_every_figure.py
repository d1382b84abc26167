"""Every consumer accepts every entry of the table of figures: the judge, pages, `lab matrix`, history, trends and exports."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from lab.judge.tolerance import LookPlan, judge_samples
from lab.model.figures import BOUNDED, BOUNDS, FIGURES
from lab.model.results import CellResult
from lab.model.transfer import Expectation
from lab.store.history.index import Index, open_index
from lab.store.history.query import Filter, ask_sql
from lab.store.history.source import open_source
from lab.store.history.trend import make_report
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports.build import run_page, trend_page
from reports.cells import CellView
from reports.export import export_runs
from reports.history_tables import render_trends
from reports.matrix import make_matrix
from reports.matrix_table import matrix_markdown
from reports.text import render_run
from tests.unit.store.conftest import AT, make_cell, stored_run


def complete_cell(day: int, expectation: Expectation | None = None) -> CellResult:
    """A cell whose samples have every figure."""
    plain = make_cell()
    more = {
        "goodput_ratio": 0.9,
        "burst_ratio": 1.1,
        "requests_per_s": 90.0,
        "first_hundred_s_per_file": 0.02,
        "last_hundred_s_per_file": 0.021,
    }
    samples = []
    for sample in plain.samples:
        assert sample.client
        client = sample.client.model_copy(update={"first_byte_s": 0.04, "connect_s": 0.02})
        samples.append(sample.model_copy(update={**more, "client": client}))
    at = AT + timedelta(days=day)
    update: dict[str, object] = {"samples": samples, "started_at": at, "ended_at": at}
    if expectation:
        update |= {"expectation": expectation, "verdict": judge_samples(samples, expectation, LookPlan())}
    return CellResult.model_validate_json(plain.model_copy(update=update).model_dump_json())


@pytest.fixture
def run(results: Path) -> StoredRun:
    for day in range(2):
        made = RunDir.create("nightly", results=results, now=AT + timedelta(days=day))
        made.write_cell(complete_cell(day))
    return read_run_folder(made.path)


@pytest.fixture
def index(run: StoredRun) -> Index:
    return open_index(open_source(None))


def test_the_fixture_has_every_figure() -> None:
    cell = complete_cell(0)
    assert [name for name, figure in FIGURES.items() if len(figure.values(cell)) != len(cell.samples)] == []
    assert [name for name, figure in FIGURES.items() if name != figure.name] == []


@pytest.mark.parametrize("name", BOUNDED)
def test_an_expectation_bounds_it(name: str) -> None:
    figure, cell = FIGURES[name], complete_cell(0)
    value = figure.summarise(cell)
    assert value is not None
    # A count may be zero, a bound may not.
    easy, hard = (value or 1.0) * 2, (value or 0.0) / 2
    if figure.more_is_better:
        easy, hard = hard, easy
    passing = complete_cell(0, Expectation(kind=name, bound=easy))
    assert passing.verdict.name == "PASS", passing.verdict.reason
    assert figure.title in passing.verdict.reason
    if hard:
        assert complete_cell(0, Expectation(kind=name, bound=hard)).verdict.name == "FAIL"
    text = Console(file=io.StringIO(), width=200)
    render_run([passing], text)
    view = CellView(passing, "x", None)
    assert view.told[0]
    assert name in view.brief
    assert view.expected.startswith(figure.title)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_name_of_a_cell_bounds_it(name: str) -> None:
    assert Expectation(kind=name).bound == FIGURES[name].bound


def test_a_page_has_a_cell_about_it(run: StoredRun) -> None:
    for name in BOUNDED:
        run.cells[:] = [complete_cell(0, Expectation(kind=name, bound=1e9 if not FIGURES[name].more_is_better else 1e-9))]
        assert FIGURES[name].title.replace("'", "&#39;") in run_page(run)


def test_a_matrix_has_a_table_of_it() -> None:
    found = make_matrix([stored_run("one", [complete_cell(0)])], [*FIGURES])
    assert {*found.rows[0].cells["curl"].figures} == {*FIGURES}
    page = matrix_markdown(found)
    assert [name for name, figure in FIGURES.items() if f"### {figure.heading}: mean" not in page] == []


def test_history_has_a_column_of_it(index: Index) -> None:
    names, (row, *_) = ask_sql(index, f"SELECT {', '.join(FIGURES)} FROM cells ORDER BY started_at")
    assert names == [*FIGURES]
    cell = complete_cell(0)
    assert [list(values) for values in row] == [figure.values(cell) for figure in FIGURES.values()]


def test_a_trend_follows_it(index: Index) -> None:
    # A figure that is zero in every sample has no logarithm.
    for name in FIGURES:
        report = make_report(index, Filter(), name, least=0.01)
        (trend,) = report.trends
        assert (len(trend.points), trend.figure) == (2, name)
        assert FIGURES[name].title.replace("'", "&#39;") in trend_page(report)
        render_trends(report, Console(file=io.StringIO()))


def test_exports_have_it(run: StoredRun) -> None:
    metrics, table, bench = (export_runs(form, [run]) for form in ("openmetrics", "otava", "benchfmt"))
    for name in FIGURES:
        assert f"# TYPE roughwater_{name}" in metrics
        assert f".{name}" in table.splitlines()[0]
    (line, *_) = [line for line in bench.splitlines() if line.startswith("Benchmark")]
    assert len(line.split(" ")) == 2 + 2 * len(FIGURES)
    assert json.loads(export_runs("hyperfine", [run]))["results"]
