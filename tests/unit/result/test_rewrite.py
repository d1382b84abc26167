"""A run is brought to today's schema whole, or stays as it was; what it was is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab.errors import LabFault, UsageProblem
from lab.result.models import SCHEMA_VERSION
from lab.result.rewrite import rewrite
from lab.result.salvage import read_run_folder
from lab.result.store import RunDir, put_in_place


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


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
    assert {json.loads(after[name])["schema_version"] for name in before} == {SCHEMA_VERSION}
    assert read_run_folder(run.path) == read, "it says the same as before"


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
    before, read, left = contents(run.path), read_run_folder(run.path), [3]

    def die(temporary: Path, path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        put_in_place(temporary, path)

    monkeypatch.setattr("lab.result.rewrite.put_in_place", die)
    with pytest.raises(KeyboardInterrupt):
        rewrite(run)
    assert read_run_folder(run.path) == read, "files of two versions, each whole"
    monkeypatch.undo()
    assert rewrite(run).files == len(before) - 3
    assert read_run_folder(run.path) == read
    kept = contents(run.path / "schema-1.0")
    assert kept == before


def test_a_file_system_without_second_names_gets_copies(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = contents(run.path)
    monkeypatch.setattr(os, "link", refuse)
    rewrite(run)
    assert contents(run.path / "schema-1.0") == before
