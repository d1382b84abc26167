"""Each format by a parser: Python's own for JSON and CSV, prometheus_client's for OpenMetrics, the format's grammar for Go's."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lab.judge.tolerance import with_invalid
from lab.model.results import RunRecord
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports.export import FORMATS, export_runs
from tests.unit.history.conftest import CELL, run_cell, write_history
from tests.unit.store.conftest import AT, make_cell

# golang.org/design/14313-benchmark-format: a key begins with a lower case letter and has no space and no upper case; a benchmark
# line is a name, a count, and pairs of a value and a unit without spaces.
_CONFIGURATION = re.compile(r"(?P<key>[a-z][^\sA-Z:]*): (?P<value>\S.*)")
_UNIT = re.compile(r"Unit \S+ \S+=\S+")
_BENCHMARK = re.compile(r"Benchmark[^a-z\s]?\S* [0-9]+(?: [-+0-9.e]+ [^\s0-9]\S*)+")


@pytest.fixture
def runs(results: Path) -> list[StoredRun]:
    made = write_history(results, runs=3, step_at=2)
    at = AT + timedelta(days=1)
    made[1].write_cell(make_cell(problem="cut off").model_copy(update={"started_at": at, "ended_at": at}))
    return [read_run_folder(run.path) for run in made]


def test_hyperfine(runs: list[StoredRun]) -> None:
    found = json.loads(export_runs("hyperfine", runs))["results"]
    assert [result["command"] for result in found].count(CELL) == 3
    for result, run in zip([each for each in found if each["command"] == CELL], runs, strict=True):
        cell = next(cell for cell in run.cells if cell.id == CELL)
        assert result["times"] == [sample.wall_s for sample in cell.samples]
        assert result["mean"] == pytest.approx(fmean(result["times"]))
        assert result["min"] <= result["median"] <= result["max"]
        assert len(result["exit_codes"]) == len(result["memory_usage_byte"]) == 5
        assert result["parameters"]["run"] == run.path.name
    other = next(each for each in found if each["command"] != CELL)
    assert (len(other["times"]), other["exit_codes"]) == (5, [0] * 5), "the transfer that broke off is left out"


def test_benchfmt(runs: list[StoredRun]) -> None:
    text = export_runs("benchfmt", runs)
    assert text.endswith("\n")
    configuration: dict[str, str] = {}
    seen: list[tuple[str, dict[str, float]]] = []
    for line in text.splitlines():
        if _UNIT.fullmatch(line):
            continue
        if match := _CONFIGURATION.fullmatch(line):
            configuration[match["key"]] = match["value"]
            continue
        assert _BENCHMARK.fullmatch(line), line
        name, _, *pairs = line.split(" ")
        # What ends in - and digits would be taken for GOMAXPROCS.
        assert not re.search(r"-[0-9]+$", name)
        seen.append((configuration["run"], dict(zip(pairs[1::2], map(float, pairs[::2]), strict=True))))
        assert configuration["goos"] == "linux"
    assert [run for run, _ in seen] == [
        run.path.name for run in runs for cell in run.cells for sample in cell.samples if sample.ok
    ]
    assert seen[0][1]["B/s"] == runs[0].cells[0].samples[0].body_byte_s
    assert configuration["commit"] == "d" * 40


def test_otava(runs: list[StoredRun]) -> None:
    rows = list(csv.DictReader(io.StringIO(export_runs("otava", [runs[2], runs[0], runs[1]]))))
    assert [row["run"] for row in rows] == [run.path.name for run in runs], "in the order of time"
    assert [row["time"] for row in rows] == [(AT + timedelta(days=day)).isoformat() for day in (0, 1, 2)]
    rates = [sample.body_byte_s or 0.0 for sample in runs[0].cells[0].samples]
    assert float(rows[0][f"{CELL}.rate"]) == pytest.approx(math.exp(fmean(map(math.log, rates))))
    other = next(name for name in rows[0] if name.startswith("curl--") and name.endswith(".rate"))
    assert (rows[0][other], rows[1][other] != "") == ("", True)
    assert rows[2]["commit"] == "d" * 40


def test_openmetrics(runs: list[StoredRun]) -> None:
    text = export_runs("openmetrics", runs)
    assert text.endswith("\n# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(families) > 8
    assert {family.type for family in families.values()} == {"gauge"}
    rates = families["roughwater_rate_bytes_per_second"].samples
    assert len(rates) == 4
    assert rates[0].labels["cell"] == CELL
    assert rates[0].timestamp is not None
    assert float(rates[0].timestamp) == pytest.approx((AT + timedelta(minutes=1)).timestamp())


@pytest.mark.parametrize(
    ("ended", "complete"),
    [("complete", 1), (None, 1), ("interrupted", 0), ("timeout", 0), ("disk", 0), ("killed", 0), ("no record", 0)],
)
def test_openmetrics_says_which_runs_are_complete(results: Path, record: RunRecord, ended: Any, complete: int) -> None:
    run = RunDir.create("nightly", results=results)
    run.write_cell(run_cell([1e6, 2e6], AT))
    if ended != "no record":
        run.write_run(record.model_copy(update={"ended": ended}))
    text = export_runs("openmetrics", [read_run_folder(run.path)])
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (sample,) = families["roughwater_run_complete"].samples
    assert (sample.value, sample.labels["run"]) == (complete, run.path.name)
    assert sample.labels.get("ended", "") == ("" if ended in {None, "no record"} else ended)


def test_labels_are_escaped(results: Path) -> None:
    run = RunDir.create("nightly", results=results)
    cell = run_cell([1e6, 2e6], AT, version='a "quoted" \\ path')
    run.write_cell(cell)
    text = export_runs("openmetrics", [read_run_folder(run.path)])
    family = next(iter(text_string_to_metric_families(text)))
    assert family.samples[0].labels["version"] == cell.client.version


@pytest.mark.parametrize("form", FORMATS)
def test_cells_for_which_the_lab_is_at_fault_are_left_out(results: Path, form: str) -> None:
    run = RunDir.create("nightly", results=results)
    cell = run_cell([1e6, 2e6], AT)
    run.write_cell(cell.model_copy(update={"verdict": with_invalid(cell.verdict, ["no link"])}))
    assert CELL not in export_runs(form, [read_run_folder(run.path)])
