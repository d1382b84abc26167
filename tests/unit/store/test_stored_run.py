"""All that can be read of a run is read, and each file that cannot is one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from lab.cli.compare import _doubts
from lab.model.errors import UsageProblem
from lab.model.results import CellResult, RunRecord
from lab.store.run_dir import RunDir
from lab.store.stored_run import DOUBT, StoredRun, read_run_folder
from reports.build import run_page, tally
from reports.junit import junit_xml
from reports.markdown import markdown_summary
from tests.support.command import lab

MakeCell = Callable[..., CellResult]
NOBODY = 65534


@pytest.fixture
def run(tmp_path: Path, make_cell: MakeCell, record: RunRecord) -> RunDir:
    """A run of two cells."""
    run = RunDir.create("x", results=tmp_path)
    first = make_cell(cell_id="a--b--c")
    run.write_cell(first.model_copy(update={"started_at": first.started_at + timedelta(seconds=1)}))
    run.write_cell(make_cell(cell_id="z--b--c"))
    run.write_run(record)
    return run


@contextmanager
def unprivileged(folder: Path) -> Iterator[None]:
    """Root may read everything: become a user who may not, in a folder that everybody may enter."""
    if os.geteuid() != 0:
        yield
        return
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == 0 and parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o755)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_complete_run(run: RunDir, record: RunRecord) -> None:
    found = read_run_folder(run.path)
    assert found.path == run.path
    assert [cell.id for cell in found.cells] == ["z--b--c", "a--b--c"], "in the order in which they started"
    assert found.record == record
    assert (found.answers, found.qualification, found.problems) == ([], None, [])


def test_real_runs_of_an_older_lab(stored_1_0: Path) -> None:
    found = {folder.name.split("-", 1)[1]: read_run_folder(folder) for folder in stored_1_0.iterdir()}
    sizes = {
        name.rsplit("-", 1)[0]: (len(each.cells), len(each.answers), each.qualification is not None)
        for name, each in found.items()
    }
    assert sizes == {"throttle": (3, 0, False), "qualify-ferry": (4, 3, True), "windows-quirks": (0, 4, False)}
    assert all(each.problems == [] and each.record is not None for each in found.values())


def spoil_text(text: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(text)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def edit(**changes: object) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (truncate, "cut off or not JSON"),
        (spoil_text(b""), "cut off or not JSON"),
        (spoil_text(b"\xff\xfe\x00"), "cut off or not JSON"),
        (spoil_text(b'{"name": "not ours"}'), "it has no schema_version"),
        (edit(schema_version="99.0", news=1), "schema 99.0 is newer than"),
        (edit(schema_version="0.1"), "schema 0.1 is unknown to this lab"),
        (edit(timing_s={"transfer": float("nan")}), "cut off or not JSON (Out of range"),
        (edit(colour="green"), "colour: Extra inputs"),
        (edit(started_at="2026-01-02T03:04:05"), "started_at: Input should have timezone info"),
        (to_folder, "not a file"),
        (to_pipe, "not a file"),
        (to_nowhere, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_the_rest_is_there(
    run: RunDir, spoil: Callable[[Path], object], said: str
) -> None:
    path = run.cell_path("a--b--c")
    spoil(path)
    found = read_run_folder(run.path)
    assert [cell.id for cell in found.cells] == ["z--b--c"]
    assert found.record is not None
    [problem] = found.problems
    assert problem.startswith(f"{path}: ")
    assert said in problem
    assert "\n" not in problem


def test_a_run_that_was_cut_off_has_no_record(run: RunDir) -> None:
    (run.path / "run.json").unlink()
    found = read_run_folder(run.path)
    assert (found.record, found.problems, len(found.cells)) == (None, [], 2)


def test_a_broken_record_is_reported(run: RunDir) -> None:
    truncate(run.path / "run.json")
    found = read_run_folder(run.path)
    assert (found.record, len(found.problems), len(found.cells)) == (None, 1, 2)


def test_a_copy_under_another_name_counts_once(run: RunDir) -> None:
    shutil.copy(run.cell_path("a--b--c"), run.cells / "copy of it.json")
    found = read_run_folder(run.path)
    assert [cell.id for cell in found.cells] == ["z--b--c", "a--b--c"]
    [problem] = found.problems
    assert "a--b--c: twice in" in problem


def test_the_remains_of_an_interrupted_write_are_not_a_result(run: RunDir) -> None:
    (run.cells / ".a--b--c.json.0badc0de").write_text("{")
    (run.cells / "notes.txt").write_text("mine")
    assert read_run_folder(run.path).problems == []


def test_files_that_may_not_be_read_are_reported(run: RunDir) -> None:
    path = run.cell_path("a--b--c")
    path.chmod(0)
    with unprivileged(run.path):
        found = read_run_folder(run.path)
    assert [cell.id for cell in found.cells] == ["z--b--c"]
    assert found.problems == [f"{path}: Permission denied (give this user the right to read it)"]


def test_a_folder_that_may_not_be_listed_is_not_an_empty_one(run: RunDir) -> None:
    run.cells.chmod(0o111)
    with unprivileged(run.path):
        found = read_run_folder(run.path)
    run.cells.chmod(0o755)
    assert found.cells == []
    assert found.record is not None
    assert found.problems == [f"{run.cells}: Permission denied (give this user the right to read it)"]


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not the folder of a run"):
        read_run_folder(tmp_path / "none")


HERE, AWAY = "curl--dsl-50--http1-get-5MiB-at-1MBps", "ferry--dsl-50--http1-get-5MiB-at-1MBps"


def older(folder: Path, make_cell: MakeCell, record: RunRecord, *words: str) -> StoredRun:
    """A run of one cell by the last lab that did not store how a run ended: exit code 0, whatever was missing."""
    run = RunDir.create("x", results=folder)
    run.write_cell(make_cell(cell_id=HERE))
    document = json.loads(record.model_copy(update={"command": ["/usr/bin/lab", *words]}).model_dump_json())
    document["schema_version"] = "2.0"
    for name in ("planned", "ended"):
        del document[name]
    (run.path / "run.json").write_text(json.dumps(document))
    return read_run_folder(run.path)


@pytest.mark.parametrize("missing", [True, False])
def test_a_cell_that_an_older_record_lacks_is_missing_where_its_command_names_it(
    missing: bool, tmp_path: Path, make_cell: MakeCell, record: RunRecord
) -> None:
    also = [AWAY] if missing else []
    found = older(tmp_path, make_cell, record, "run", HERE.replace("5MiB", "5120KiB"), *also, "--client", "curl=/x--y--z")
    assert (found.problems, found.doubt) == ([], "")
    assert found.whole != missing
    assert found.state == ("cut off; 1 of 2 done" if missing else "")
    assert tally(found).name == ("INVALID" if missing else "PASS")
    assert ('name="whole" value="no"' in junit_xml(found)) == missing


@pytest.mark.parametrize("words", [("run", "throttle"), ("run", "@nightly"), ("repro", "upload-limit"), ()])
def test_an_older_record_of_a_suite_says_that_nothing_is_known_of_its_end(
    words: tuple[str, ...], tmp_path: Path, make_cell: MakeCell, record: RunRecord
) -> None:
    found = older(tmp_path, make_cell, record, *words)
    assert (found.problems, found.doubt) == ([], DOUBT)
    assert tally(found).headline == f"The one verdict that counts is PASS. But {DOUBT}."
    assert DOUBT in run_page(found)
    assert DOUBT in markdown_summary(found)
    assert 'name="whole" value="not recorded"' in junit_xml(found)


def test_a_comparison_has_the_doubts_about_its_runs(tmp_path: Path, make_cell: MakeCell, record: RunRecord) -> None:
    old = older(tmp_path, make_cell, record, "run", "throttle")
    assert _doubts(old, StoredRun(tmp_path, record=record)) == [f"A: {DOUBT}"]


def test_a_list_of_runs_marks_them(tmp_path: Path, make_cell: MakeCell, record: RunRecord) -> None:
    for words in (("run", "throttle"), ("run", HERE)):
        older(tmp_path, make_cell, record, *words)
    shown = lab("history", "--from", str(tmp_path), "--runs").stdout
    assert shown.count("(end not recorded)") == 1
