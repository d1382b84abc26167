"""Each reader of a run that was cut off is asked by the torment, and a reader that took it for complete would be named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports import files
from reports.files import JUNIT, PAGE, SUMMARY, write_all
from tests.torment import readers
from tests.torment.readers import green
from tests.unit.store.conftest import make_cell_fixture, record

__all__ = ["make_cell_fixture", "record"]

MISSING = "curl--dsl-50--http1-get-7MiB-at-1MBps"


@pytest.fixture
def cut(tmp_path: Path, make_cell: Callable[..., CellResult], record: RunRecord) -> RunDir:
    """A run that lacks one of its cells, and whose only verdict is PASS."""
    run = RunDir.create("cells", results=tmp_path)
    cell = make_cell().model_copy(update={"run": run.name})
    run.write_cell(cell)
    told: dict[str, Any] = {"run": run.name, "cells": [cell.id], "verdicts": {cell.id: cell.verdict.name}, "baselines": []}
    told |= {"answers": [], "planned": [cell.id, MISSING], "ended": "interrupted", "exit_code": 130}
    run.write_run(record.model_copy(update=told))
    return run


def test_a_run_that_says_that_it_was_cut_off_is_green_nowhere(cut: RunDir) -> None:
    write_all(cut.path)
    assert [*green(read_run_folder(cut.path))] == []


@pytest.mark.parametrize("name", [PAGE, SUMMARY, JUNIT])
def test_a_file_that_takes_it_for_complete_is_named(cut: RunDir, name: str) -> None:
    write_all(cut.path)
    (cut.path / name).write_text("<testsuites/>" if name == JUNIT else "All 2 verdicts that count are PASS.")
    assert [line.split()[0] for line in green(read_run_folder(cut.path))] == [name]


def test_a_record_that_says_complete_is_named_by_every_reader_that_believes_it(
    cut: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of November: exit code 0, nothing missing."""
    found = read_run_folder(cut.path)
    assert found.record is not None
    false = found.record.model_copy(update={"ended": "complete", "exit_code": 0, "planned": found.record.cells})
    cut.write_run(false)
    named = " ".join(green(read_run_folder(cut.path)))
    assert all(word in named for word in ("run.json", PAGE, SUMMARY, JUNIT, "OpenMetrics", "history", "trend"))


def test_a_history_that_takes_it_for_complete_is_named(cut: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "list_runs", lambda *_: [{"whole": True}])
    found: StoredRun = read_run_folder(cut.path)
    assert [*green(found)] == ["the history takes it for complete"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_whose_reports_have_no_room_says_what_is_there(
    cut: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    found = read_run_folder(cut.path).record
    assert found is not None
    if whole:
        cut.write_run(found.model_copy(update={"ended": "complete", "exit_code": 0, "planned": found.cells}))

    def full(*_: object) -> None:
        raise LabFault("report.html: cannot be written, the disk is full")

    monkeypatch.setattr(files, "write_all", full)
    files.make_reports(cut)
    assert ("the results are complete" in capsys.readouterr().err) == whole
