"""`lab matrix` on runs on disk: which runs, which output, and one line for a missing run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import matrix as command
from lab.model.errors import EXIT_PASS, UsageProblem
from lab.model.matrix import Matrix
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir

MakeCell = Callable[..., CellResult]


def lab_matrix(*words: str | Path) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def run(results: Path, make_cell: MakeCell, record: RunRecord) -> RunDir:
    made = RunDir.create("cells", results=results)
    made.write_cell(make_cell())
    skipped = {"wget--dsl-50--http1-get-5MiB-at-1MBps": "wget is not asked"}
    made.write_run(record.model_copy(update={"skipped": skipped, "git_revision": "abc"}))
    return made


def test_a_model_a_page_or_a_text(run: RunDir) -> None:
    found = Matrix.model_validate_json(lab_matrix("latest", "--json").stdout)
    assert [head.run for head in found.runs] == [run.name]
    assert found.rows[0].skipped == {"wget": "wget is not asked"}
    assert (found.runs[0].git_revision, found.runs[0].whole) == ("abc", True)
    page = lab_matrix(run.path, "--markdown", "--figure", "rate", "--figure", "memory")
    assert page.exit_code == EXIT_PASS
    headings = [line for line in page.stdout.splitlines() if line.startswith("### ")]
    assert [line.split(":")[0] for line in headings] == ["### Verdicts", "### Body rate, MB/s", "### Peak memory, MB"]
    text = lab_matrix(run.name)
    assert "1 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID; 1 skipped" in text.stdout.splitlines()
    assert "###" not in text.stdout


def test_a_run_named_twice_is_one(run: RunDir) -> None:
    found = Matrix.model_validate_json(lab_matrix("latest", run.path, "--json").stdout)
    assert len(found.runs) == 1
    assert found.notes == []


def test_a_run_without_its_record_says_so(run: RunDir) -> None:
    (run.path / "run.json").unlink()
    found = Matrix.model_validate_json(lab_matrix("latest", "--json").stdout)
    assert not found.runs[0].whole
    assert found.rows[0].skipped == {}


def test_the_readable_part_of_an_interrupted_run_is_shown(run: RunDir, make_cell: MakeCell) -> None:
    """Killed while it wrote: a cell and the record are cut off. One line for each says so, and the page does too."""
    cut = run.write_cell(make_cell(cell_id="curl--dsl-50--http1-get-5MiB-at-2MBps"))
    record = run.path / "run.json"
    for path in (cut, record):
        path.write_bytes(path.read_bytes()[:100])
    done = lab_matrix("latest", "--json")
    assert done.exit_code == EXIT_PASS
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for path, line in zip((record, cut), lines, strict=True):
        assert line.startswith(f"lab: {path}")
    found = Matrix.model_validate_json(done.stdout)
    assert [(row.transfer, [*row.cells]) for row in found.rows] == [("http1-get-5MiB-at-1MBps", ["curl"])]
    assert not found.runs[0].whole
    assert found.notes == [f"{run.name}: 2 files are left out: cut off, or a duplicate"]
    for words in ((), ("--markdown",)):
        done = lab_matrix("latest", *words)
        assert (done.exit_code, len(done.stderr.splitlines())) == (EXIT_PASS, 2)
        assert "2 files are left out" in done.stdout
    cell = run.cell_path("curl--dsl-50--http1-get-5MiB-at-1MBps")
    cell.write_bytes(cell.read_bytes()[:100])
    done = lab_matrix("latest")
    assert isinstance(done.exception, UsageProblem)
    assert "no results" in str(done.exception)


def test_bad_input_is_one_line(run: RunDir, results: Path) -> None:
    RunDir.create("empty", results=results)
    for words, said in (
        (["latest", "--json", "--markdown"], "exclude each other"),
        (["latest"], "no results"),
        (["nowhere"], "not the folder of a run"),
    ):
        done = lab_matrix(*words)
        assert isinstance(done.exception, UsageProblem)
        assert said in str(done.exception)
        assert "\n" not in str(done.exception)
    done = lab_matrix(run.path, "--figure", "beauty")
    assert done.exit_code == 2
    assert "'beauty' is not one of" in done.output
