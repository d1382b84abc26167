"""A result is on disk complete and valid, or not at all: with cut files, newer schemas, full disks and disks that lie."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from lab.model.answer import Answer
from lab.model.errors import LabFault, UsageProblem
from lab.model.results import SCHEMA_VERSION, CellResult, RunRecord, VerdictName, exit_code
from lab.store.run_dir import (
    SHELVES,
    RunDir,
    read_cell,
    read_result,
    read_run,
)

MakeCell = Callable[..., CellResult]
DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create("throttle", results=tmp_path / "results")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- the folder ---------------------------------------------------------------------------------------------------------------


def test_name_is_utc_word_and_a_random_part(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 1, 30, 0, tzinfo=timezone(timedelta(hours=2)))
    run = RunDir.create("My Suite/ä.robot", results=tmp_path, now=now)
    assert re.fullmatch(r"20260101T233000-my-suite-robot-[0-9a-f]{4}", run.name)
    assert files(run.path) == ["cells", "evidence"]
    assert re.search(r"-run-[0-9a-f]{4}$", RunDir.create("///", results=tmp_path).name)


def test_a_taken_name_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("lab.store.run_dir.secrets.token_hex", lambda _: next(tokens))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert [RunDir.create("x", results=tmp_path, now=now).name[-4:] for _ in range(2)] == ["aaaa", "bbbb"]


def test_latest_is_the_newest_and_relative(tmp_path: Path) -> None:
    RunDir.create("one", results=tmp_path)
    second = RunDir.create("two", results=tmp_path)
    assert (tmp_path / "latest").readlink() == Path(second.name)
    assert RunDir.open(tmp_path / "latest").path == second.path.resolve()
    assert not [name for name in files(tmp_path) if name.startswith(".")]


def test_results_that_cannot_be_made_are_the_users_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for results in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageProblem, match="ROUGHWATER_RESULTS"):
            RunDir.create("x", results=results)


def test_a_folder_in_the_place_of_latest_is_the_users_problem(tmp_path: Path) -> None:
    (tmp_path / "latest" / "mine").mkdir(parents=True)
    with pytest.raises(UsageProblem, match="latest"):
        RunDir.create("x", results=tmp_path)
    assert files(tmp_path / "latest") == ["mine"]


def test_a_file_system_without_symbolic_links_does_without_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert RunDir.create("x", results=tmp_path).cells.is_dir()
    assert not (tmp_path / "latest").exists()


def test_open_refuses_what_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not the folder of a run"):
        RunDir.open(tmp_path)


def test_discard_goes_back_to_the_run_before(tmp_path: Path, cell: CellResult) -> None:
    first, second = (RunDir.create("x", results=tmp_path, now=datetime(2026, 1, day, tzinfo=UTC)) for day in (1, 2))
    second.evidence("a")
    second.discard()
    assert files(tmp_path) == [first.name, "latest"]
    assert (tmp_path / "latest").readlink() == Path(first.name)
    first.write_cell(cell)
    with pytest.raises(ValueError, match="holds results"):
        first.discard()
    first.cell_path(cell.id).unlink()
    first.discard()
    assert files(tmp_path) == []


# --- writing and reading ------------------------------------------------------------------------------------------------------


def test_round_trip(run: RunDir, cell: CellResult, record: RunRecord) -> None:
    path = run.write_cell(cell)
    assert path == run.path / "cells" / "curl--dsl-50--http1-get-5MiB-at-1MBps.json"
    assert read_cell(path).model_dump_json() == cell.model_dump_json()
    run.write_run(record)
    assert read_run(run.path) == read_run(run.path / "run.json") == record
    assert files(run.path) == ["cells", "evidence", "run.json"], "no temporary file is left"
    assert files(run.cells) == [path.name]


def test_cells_come_in_the_order_they_ran(run: RunDir, make_cell: MakeCell) -> None:
    later = make_cell(cell_id="a--b--c")
    earlier = make_cell(cell_id="z--b--c").model_copy(update={"started_at": later.started_at - timedelta(seconds=1)})
    run.write_cell(later)
    run.write_cell(earlier)
    assert [cell.id for cell in run.read_cells()] == ["z--b--c", "a--b--c"]


def test_an_id_cannot_leave_the_folder(run: RunDir, make_cell: MakeCell) -> None:
    path = run.write_cell(make_cell(cell_id="../../curl x--y--z"))
    assert path.parent == run.cells
    assert run.evidence("../../curl x--y--z").parent == run.path / "evidence"
    assert read_cell(path).id == "../../curl x--y--z"


def test_a_second_writing_replaces_the_first(run: RunDir, make_cell: MakeCell) -> None:
    run.write_cell(make_cell())
    again = make_cell((0.2,) * 5)
    assert read_cell(run.write_cell(again)).verdict.name == "FAIL"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_cut_file_is_one_clear_line(run: RunDir, cell: CellResult, share: float) -> None:
    path = run.write_cell(cell)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UsageProblem, match="cut off or not JSON") as caught:
        read_cell(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


MAJOR, MINOR = (int(part) for part in SCHEMA_VERSION.split("."))


@pytest.mark.parametrize("newer", [f"{MAJOR}.{MINOR + 1}", f"{MAJOR}.{MINOR + 10}", f"{MAJOR + 1}.0"])
def test_a_newer_schema_asks_for_a_newer_lab(run: RunDir, cell: CellResult, newer: str) -> None:
    path = run.write_cell(cell)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": newer, "new_field": 1}))
    with pytest.raises(
        UsageProblem, match=rf"schema {re.escape(newer)} is newer than {re.escape(SCHEMA_VERSION)}.*update the lab"
    ):
        read_cell(path)


def test_the_model_is_closed(run: RunDir, cell: CellResult) -> None:
    path = run.write_cell(cell)
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "green"}))
    with pytest.raises(UsageProblem, match="colour: Extra inputs"):
        read_cell(path)


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', '{"schema_version": 1}', '{"schema_version": "one"}', b"\xff\xfe\x00"])
def test_what_is_not_a_result_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageProblem, match=r"schema_version|not JSON"):
        read_cell(path)


def test_a_result_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        read_run(tmp_path)


def test_a_number_json_cannot_hold_is_a_fault_not_a_null(run: RunDir, cell: CellResult) -> None:
    samples = [cell.samples[0].model_copy(update={"deviation": math.nan}), *cell.samples[1:]]
    with pytest.raises(LabFault, match="JSON"):
        run.write_cell(cell.model_copy(update={"samples": samples}))
    assert files(run.cells) == []


def test_a_result_against_its_own_model_is_not_kept(run: RunDir, cell: CellResult) -> None:
    broken = cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": "MAYBE"})})
    with pytest.raises(LabFault, match=r"not a valid CellResult: verdict\.name"):
        run.write_cell(broken)
    assert files(run.cells) == []


# --- disks --------------------------------------------------------------------------------------------------------------------


Write = Callable[[RunDir], Path]


@pytest.fixture
def writers(stored_1_0: Path, cell: CellResult) -> dict[str, Write]:
    """One real result of every kind, and how it is written."""
    quirks = RunDir.open(next(stored_1_0.glob("*-quirks-*")))
    answer = read_result(next(quirks.files(Answer)), Answer)
    return {
        "cell": lambda run: run.write_cell(cell),
        "run": lambda run: run.write_run(read_run(quirks.path)),
        "answer": lambda run: run.write_answer(answer),
    }


KINDS = ["cell", "run", "answer"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_where_it_is_looked_for(run: RunDir, writers: dict[str, Write], kind: str) -> None:
    path = writers[kind](run)
    shelf = next(shelf for shelf in SHELVES if shelf.kind == kind)
    assert list(run.files(shelf.model)) == [path]
    assert read_result(path, shelf.model).model_dump(mode="json") == json.loads(path.read_bytes())
    assert [name for name in files(path.parent) if name.startswith(".")] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [b"", b"{}", b"another result"])
def test_a_file_that_changes_under_the_writer_is_noticed_whatever_its_kind(
    run: RunDir, writers: dict[str, Write], kind: str, change: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer, or a disk that lies, changes the file between writing and reading back."""
    path = writers[kind](run)
    before, sync = path.read_bytes(), os.fsync

    def tamper(fd: int) -> None:
        sync(fd)
        for temporary in path.parent.glob(f".{path.name}.*"):
            temporary.write_bytes(change)

    monkeypatch.setattr(os, "fsync", tamper)
    with pytest.raises(LabFault, match="read back from disk has"):
        writers[kind](run)
    assert path.read_bytes() == before, "the older one stays"
    assert [name for name in files(path.parent) if name.startswith(".")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_keeps_the_older_result_whatever_its_kind(
    run: RunDir, writers: dict[str, Write], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = writers[kind](run)
    before = path.read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LabFault, match="the disk is full"):
        writers[kind](run)
    assert path.read_bytes() == before
    assert [name for name in files(path.parent) if name.startswith(".")] == []


def test_a_rename_that_fails_leaves_no_temporary_file(run: RunDir, cell: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(LabFault, match="cannot be written, Permission denied"):
        run.write_cell(cell)
    assert files(run.cells) == []


def test_a_disk_that_returns_other_bytes_is_noticed(run: RunDir, cell: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data).replace(b"dsl-50", b"dsl-05")))
    with pytest.raises(LabFault, match="read back from disk has"):
        run.write_cell(cell)
    assert files(run.cells) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_half_way_keeps_the_older_result(
    run: RunDir, make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = run.write_cell(make_cell())
    before = path.read_bytes()
    write, calls = os.write, iter((True, False))

    def fill(fd: int, data: bytes) -> int:
        if next(calls):
            return write(fd, data[:100])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(LabFault, match=r"the disk is full \(free space or set ROUGHWATER_RESULTS") as caught:
        run.write_cell(make_cell((0.2,) * 5))
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 4
    assert path.read_bytes() == before
    assert files(run.cells) == [path.name]


def test_another_fault_of_the_disk_is_reported_as_it_is(run: RunDir, cell: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LabFault, match="Input/output error"):
        run.write_cell(cell)
    assert files(run.cells) == []


def test_a_limit_on_file_size_is_a_full_disk(run: RunDir, cell: CellResult) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(LabFault, match="the disk is full"):
            run.write_cell(cell)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(run.cells) == []


ON_A_SMALL_DISK = """
import sys
from pathlib import Path
from lab.model.errors import LabFault
from lab.store.run_dir import RunDir, read_cell
results, cell = Path(sys.argv[1]), read_cell(Path(sys.argv[2]))
run = RunDir.create("full", results=results)
written = 0
try:
    while True:
        run.write_cell(cell.model_copy(update={"id": f"cell-{written}"}))
        written += 1
except LabFault as fault:
    print(fault)
assert written == len(run.read_cells()) == len(list(run.cells.iterdir())) > 0
(results / "filler").write_bytes(b"")
try:
    with (results / "filler").open("wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass
except OSError:
    pass
try:
    for number in range(10000):
        run.evidence(str(number))
except LabFault as fault:
    print(fault)
"""


def test_a_disk_that_is_really_full(tmp_path: Path, run: RunDir, cell: CellResult) -> None:
    """A tmpfs of 200 KB and 60 inodes, in a mount namespace of its own."""
    small = tmp_path / "small"
    small.mkdir()
    source = run.write_cell(cell)
    mount = 'mount -t tmpfs -o size=200k,nr_inodes=60 tmpfs "$1" || exit 77; shift; exec "$@"'
    # Not -u: a user namespace is only needed, and only possible, where the test does not run as root.
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    command = [*own, "sh", "-c", mount, "sh", str(small), sys.executable, "-c", ON_A_SMALL_DISK, str(small), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "the result cannot be written, the disk is full (free space or set ROUGHWATER_RESULTS" in first
    assert "cannot be made, the disk is full" in second


# --- exit codes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], 0),
        (["PASS", "PASS"], 0),
        (["PASS", "INCONCLUSIVE"], 3),
        (["INCONCLUSIVE", "INVALID"], 4),
        (["INVALID", "FAIL", "PASS"], 1),
    ],
)
def test_exit_code(verdicts: list[VerdictName], code: int) -> None:
    assert exit_code(verdicts) == code
