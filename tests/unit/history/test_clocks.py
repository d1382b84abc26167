"""Both clocks in one history: a column, a filter, separate series, and no figure that has no meaning in virtual time."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from lab.model.clock import CLOCKS, Clock
from lab.store.history.index import open_index
from lab.store.history.query import Filter, ask_sql, list_cells, list_runs
from lab.store.history.source import open_source
from lab.store.history.trend import make_report
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.export import export_runs
from tests.support.virtual import in_virtual_time, without_a_rate
from tests.unit.history.conftest import CELL, run_cell
from tests.unit.store.conftest import AT


@pytest.fixture
def mixed(results: Path) -> list[RunDir]:
    """One cell, eight runs on each clock in turn, those in virtual time at twice the speed."""
    made = []
    for day in range(16):
        at = AT + timedelta(days=day)
        cell = run_cell([5e6 * (1 + day % 2)] * 5, at)
        run = RunDir.create("nightly", results=results, now=at)
        run.write_cell(in_virtual_time(cell) if day % 2 else cell)
        made.append(run)
    return made


def test_a_column_and_a_filter(mixed: list[RunDir]) -> None:
    index = open_index(open_source(None))
    for clock in CLOCKS:
        rows = list_cells(index, Filter(clock=clock), 100)
        assert len(rows) == 8
        assert {row["clock"] for row in rows} == {clock}
        assert {(row["cpu_s_per_gb"] is None) for row in rows} == {clock == "virtual"}
        assert None not in {row["max_rss_bytes"] for row in rows}
    assert {tuple(row["clocks"]) for row in list_runs(index, Filter(), 100)} == {("real",), ("virtual",)}
    _, found = ask_sql(index, "SELECT clock, count(*) FROM cells GROUP BY ALL ORDER BY 1")
    assert found == [("real", 8), ("virtual", 8)]


def test_the_clocks_are_two_series(mixed: list[RunDir]) -> None:
    found = make_report(open_index(open_source(None)), Filter(), "rate", least=0.01)
    means: dict[Clock, set[float]] = {trend.clock: {round(point.mean) for point in trend.points} for trend in found.trends}
    assert means == {"real": {5_000_000}, "virtual": {10_000_000}}
    assert {trend.cell for trend in found.trends} == {CELL}
    assert [trend.steps for trend in found.trends] == [[], []]


def test_no_trend_of_cpu_time_in_virtual_time(mixed: list[RunDir]) -> None:
    found = make_report(open_index(open_source(None)), Filter(), "cost", least=0.01)
    assert [trend.clock for trend in found.trends] == ["real"]
    assert found.notes == ["1 cells have no cost"]


def test_a_rate_that_nothing_limits_is_not_indexed_in_virtual_time(results: Path) -> None:
    cell = run_cell([5e6] * 5, AT)
    run = RunDir.create("free", results=results)
    run.write_cell(in_virtual_time(cell, topology=without_a_rate(cell.topology)))
    (row,) = list_cells(open_index(open_source(None)), Filter(), 10)
    assert (row["mean_byte_s"], row["n"]) == (None, 5)


def test_exports_name_the_clock_and_leave_out_what_it_does_not_know(mixed: list[RunDir]) -> None:
    runs = [read_run_folder(run.path) for run in mixed[:2]]
    results = {each["parameters"]["clock"]: each for each in json.loads(export_runs("hyperfine", runs))["results"]}
    assert results["virtual"]["user"] is None
    assert results["real"]["user"] is not None
    lines = export_runs("benchfmt", runs).splitlines()
    at = lines.index("clock: virtual")
    assert not any("cpu-sec/GB" in line for line in lines[at:])
    assert any("cpu-sec/GB" in line for line in lines[5:at])
    header = export_runs("otava", runs).splitlines()[0]
    assert f"{CELL}.rate" in header
    assert f"{CELL}.virtual.rate" in header
    cpu = [line for line in export_runs("openmetrics", runs).splitlines() if line.startswith("roughwater_cost_cpu_seconds")]
    assert len(cpu) == 1
    assert 'clock="real"' in cpu[0]
