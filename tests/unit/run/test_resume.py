"""A run that was cut short is gone on with: what it has stays, what it lacks is asked, another question is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.model.errors import UsageProblem
from lab.model.transfer import ClientSpec
from lab.run.named_cells import run_cells
from lab.run.options import Options
from lab.run.progress import Silent
from lab.run.release import ReleaseRow
from lab.run.resume import Resumed
from lab.store.run_dir import RunDir, read_run
from tests.unit.run.fake_lab import FakeLab

CELLS = [ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(ClientSpec(name="new")) for size in range(1, 5)]


@pytest.fixture
def options(fake_lab: FakeLab) -> Options:
    return fake_lab.options()


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(options: Options, results: Path) -> RunDir:
    """A run with two of the cells, killed before it could write its record."""
    del results  # where it is
    made = run_cells(CELLS[:2], options, Silent()).run
    (made.path / "run.json").unlink()
    return made


def test_only_what_is_missing_is_asked(results: Path, run: RunDir, options: Options) -> None:
    before = {path.name: path.read_bytes() for path in run.cells.glob("*.json")}
    session = run_cells(CELLS, options, Silent(), resume=Resumed.find(run.name))
    assert session.run.path == run.path
    assert [result.id for result in session.results] == [cell.id for cell in CELLS]
    assert {name: (run.cells / name).read_bytes() for name in before} == before
    record = read_run(run.path)
    assert record.cells == [cell.id for cell in CELLS]
    assert record.started_at == min(cell.started_at for cell in run.read_cells())
    assert [each.name for each in results.iterdir() if not each.is_symlink()] == [run.name]


def test_a_file_that_was_cut_off_is_asked_again(run: RunDir, options: Options) -> None:
    broken = run.cell_path(CELLS[0].id)
    broken.write_bytes(broken.read_bytes()[:100])
    session = run_cells(CELLS, options, Silent(), resume=Resumed.find(run.name))
    assert {cell.id for cell in run.read_cells()} == {cell.id for cell in CELLS}
    assert {result.id for result in session.results} == {cell.id for cell in CELLS}


@pytest.mark.parametrize("what", ["number of samples", "expectation", "network"])
def test_another_question_is_refused_and_the_run_stays_as_it_was(what: str, run: RunDir, options: Options) -> None:
    cell = CELLS[0]
    if what == "number of samples":
        options = replace(options, looks=replace(options.looks, looks=options.looks.looks[:-1]))
    elif what == "expectation":
        cell = cell.model_copy(
            update={"expectation": cell.expectation.model_copy(update={"tolerance": cell.expectation.tolerance.__class__(0.3)})}
        )
    else:
        cell = cell.model_copy(update={"topology": cell.topology.model_copy(update={"description": "another"})})
    before = sorted((path, path.read_bytes()) for path in run.path.rglob("*.json"))
    with pytest.raises(UsageProblem, match=f"has another {what} there"):
        run_cells([cell], options, Silent(), resume=Resumed.find(run.name))
    assert sorted((path, path.read_bytes()) for path in run.path.rglob("*.json")) == before


def test_a_run_of_another_lab_is_refused(run: RunDir) -> None:
    path = run.cell_path(CELLS[0].id)
    cell = next(cell for cell in run.read_cells() if cell.id == CELLS[0].id)
    path.unlink()
    run.write_cell(cell.model_copy(update={"lab_version": "0.0.1"}))
    with pytest.raises(UsageProblem, match=r"begun by version 0\.0\.1"):
        Resumed.find(run.name)
