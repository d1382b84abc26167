"""A run is migrated to today's schema completely or not at all; its old files are kept."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.model.results import SCHEMA_VERSION
from lab.store.rewrite import rewrite
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun, read_run_folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def same(found: StoredRun, before: StoredRun) -> bool:
    """Equal except for the list of answers, which did not contain qualifications before 2.0."""
    assert found.record is not None
    assert before.record is not None
    assert set(found.record.answers) >= set(before.record.answers)
    found_record = found.record.model_copy(update={"answers": before.record.answers})
    return dataclasses.replace(found, record=found_record) == before


@pytest.fixture
def run(stored_1_0: Path) -> RunDir:
    return RunDir.open(next(stored_1_0.glob("*-qualify-*")))


def test_every_file_is_todays_and_the_old_ones_are_kept(run: RunDir) -> None:
    before, read = contents(run.path), read_run_folder(run.path)
    done = rewrite(run)
    after = contents(run.path)
    assert (done.files, done.version, done.kept) == (len(before), SCHEMA_VERSION, (run.path / "schema-1.0",))
    assert {f"schema-1.0/{name}": data for name, data in before.items()} == {
        name: data for name, data in after.items() if name.startswith("schema-1.0/")
    }
    assert len(after) == 2 * len(before), "no temporary file is left"
    rewritten = {name: data for name, data in after.items() if not name.startswith("schema-")}
    assert {json.loads(data)["schema_version"] for data in rewritten.values()} == {SCHEMA_VERSION}
    assert {Path(name).parent.name for name in rewritten} == {"", "cells", "answers"}
    assert same(read_run_folder(run.path), read), "it says the same as before"
    assert sorted(path.name for path in run.path.iterdir() if path.is_dir()) == ["answers", "cells", "schema-1.0"]


def test_a_folder_with_something_else_in_it_stays(run: RunDir) -> None:
    (run.path / "pairs" / "notes.txt").write_text("mine")
    rewrite(run)
    assert [path.name for path in (run.path / "pairs").iterdir()] == ["notes.txt"]


def test_a_second_time_there_is_nothing_to_do(run: RunDir) -> None:
    rewrite(run)
    before = contents(run.path)
    assert rewrite(run).files == 0
    assert contents(run.path) == before


def test_reading_changes_no_file(run: RunDir) -> None:
    before = contents(run.path)
    read_run_folder(run.path)
    assert contents(run.path) == before


def test_one_file_that_cannot_be_read_leaves_all_as_they_were(run: RunDir) -> None:
    path = sorted(run.cells.iterdir())[-1]
    path.write_bytes(path.read_bytes()[:1000])
    before = contents(run.path)
    with pytest.raises(UsageProblem, match="cut off"):
        rewrite(run)
    assert contents(run.path) == before


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_disk_that_fills_up_leaves_all_as_they_were(run: RunDir, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    before, write, left = contents(run.path), os.write, [after]

    def fill(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        return write(fd, data)

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(LabFault, match="the disk is full"):
        rewrite(run)
    assert contents(run.path) == before


def test_a_rewriting_that_was_cut_off_is_finished_by_the_next(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    before, read, left, replace = contents(run.path), read_run_folder(run.path), [3], Path.replace

    def die(temporary: Path, path: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return replace(temporary, path)

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        rewrite(run)
    between = read_run_folder(run.path)
    assert same(dataclasses.replace(between, problems=[]), read), "files of two versions, each complete"
    assert all("twice in" in problem for problem in between.problems), "an answer's old file goes when all new ones are there"
    monkeypatch.undo()
    rewrite(run)
    assert same(read_run_folder(run.path), read)
    kept = contents(run.path / "schema-1.0")
    assert kept == before


def test_a_file_system_without_second_names_gets_copies(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = contents(run.path)
    monkeypatch.setattr(os, "link", refuse)
    rewrite(run)
    assert contents(run.path / "schema-1.0") == before
