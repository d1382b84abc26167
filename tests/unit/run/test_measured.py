"""A run from its folder to its reports, and the record of what came of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import EXIT_FAIL, EXIT_PASS
from lab.model.results import CellResult
from lab.run.collected import Collected, keep
from lab.run.measured import measured_run
from lab.run.progress import Silent
from lab.store.run_dir import RunDir, read_run
from tests.unit.run.fake_lab import FakeLab


class Cleared(Silent):
    """Counts how often its line was taken away."""

    times = 0

    def clear(self) -> None:
        self.times += 1


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def runs(results: Path) -> list[Path]:
    return [path for path in results.iterdir() if path.is_dir() and not path.is_symlink()] if results.exists() else []


def test_a_run_with_results_has_a_record_and_reports_even_if_it_was_cut_short(
    results: Path, fake_lab: FakeLab, cell: CellResult
) -> None:
    reported: list[RunDir] = []
    progress = Cleared()

    def cut_short() -> None:
        with measured_run("test", fake_lab.options(), progress, reports=reported.append) as session:
            assert session.progress is progress
            session.results.append(cell)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_short()
    (path,) = runs(results)
    assert "-test-" in path.name
    assert [record.path for record in reported] == [path]
    assert read_run(path).cells == [cell.id]
    assert progress.times == 1


def test_a_run_without_results_leaves_nothing_and_no_report(results: Path, fake_lab: FakeLab) -> None:
    reported: list[RunDir] = []
    with measured_run("test", fake_lab.options(), reports=reported.append):
        assert len(runs(results)) == 1
    assert (runs(results), reported) == ([], [])


def test_a_run_that_is_gone_on_with_has_what_it_had(results: Path, fake_lab: FakeLab, tmp_path: Path) -> None:
    del results
    old, taken = RunDir.create("old", results=tmp_path), list[object]()
    resumed: Any = SimpleNamespace(run=old, take_up=taken.append)
    with measured_run("new", fake_lab.options(), resume=resumed) as session:
        assert (session.run, taken) == (old, [session])


# --- results so far ---------------------------------------------------------------------------------------------------


def renamed(cell: CellResult, name: str, verdict: Any = "PASS") -> CellResult:
    return cell.model_copy(update={"id": name, "verdict": cell.verdict.model_copy(update={"name": verdict})})


def test_what_ran_again_takes_the_place_of_what_was(cell: CellResult) -> None:
    rows = [renamed(cell, "a"), renamed(cell, "b")]
    again = renamed(cell, "a", "FAIL")
    keep(rows, again)
    assert [(row.id, row.verdict.name) for row in rows] == [("b", "PASS"), ("a", "FAIL")]


def test_a_record_has_every_cell_and_the_exit_code_of_those_that_count(cell: CellResult, tmp_path: Path) -> None:
    found = Collected(RunDir.create("test", results=tmp_path))
    assert not found.found_something
    assert found.record().exit_code == EXIT_PASS
    found.results += [renamed(cell, "a"), renamed(cell, "b", "FAIL").model_copy(update={"clock": "virtual"})]
    found.skipped = {"c": "it cannot"}
    record = found.record()
    assert (record.cells, record.answers, record.baselines, record.skipped) == (["a", "b"], [], [], {"c": "it cannot"})
    assert record.verdicts == {"a": "PASS", "b": "FAIL"}
    assert record.clocks == ["virtual", "real"]
    assert (record.exit_code, record.run) == (EXIT_FAIL, found.run.name)
    assert found.found_something
    assert found.result("b").id == "b"


def test_a_lanes_results_become_the_runs_and_leave_the_lane(cell: CellResult, tmp_path: Path) -> None:
    answer: Any = SimpleNamespace(id="x", verdict=None)
    run = RunDir.create("test", results=tmp_path)
    found, lane = Collected(run), Collected(run)
    found.results.append(renamed(cell, "a"))
    lane.results += [renamed(cell, "a", "FAIL"), renamed(cell, "b")]
    lane.answers.append(answer)
    found.skipped, lane.skipped = {"old": "1"}, {"new": "2"}
    found.absorb(lane)
    assert [(row.id, row.verdict.name) for row in found.results] == [("a", "FAIL"), ("b", "PASS")]
    assert ([each.id for each in found.answers], found.skipped) == (["x"], {"old": "1", "new": "2"})
    assert (lane.results, lane.answers, lane.found_something) == ([], [], False)
    found.results.clear()
    assert found.found_something, "an answer is something, too"
