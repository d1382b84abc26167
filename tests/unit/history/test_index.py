"""The index against the plain files: what is read again, files that cannot be read, other places and processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.store.history import index as module
from lab.store.history.index import Index, open_index
from lab.store.history.rows import COLUMNS
from lab.store.history.source import INDEX_FOLDER, LocalSource, RemoteSource, open_source
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun
from tests.unit.history.conftest import CELL, run_cell, write_history
from tests.unit.store.conftest import AT

Finish = Callable[[RunDir], None]


def cells(index: Index) -> list[tuple[object, ...]]:
    return index.connection.execute("SELECT run, cell, n, verdict FROM cells ORDER BY run").fetchall()


@pytest.fixture
def stored(results: Path, finish: Finish) -> list[RunDir]:
    runs = write_history(results, runs=4, step_at=None)
    for run in runs:
        finish(run)
    return runs


def test_a_row_has_what_the_cell_has(stored: list[RunDir], results: Path) -> None:
    index = open_index(open_source(None))
    assert index.read_again == 4
    (row,) = index.connection.execute(
        "SELECT cells.started_at, client, version, topology, protocol, transfer, kind, backend, router, os, kernel, "
        "git_revision, n, rate, list_avg(cost), list_max(memory), list_sum(retransmits), set_aside, "
        "host_problems, whole_of.whole "
        "FROM cells JOIN runs AS whole_of USING (run) ORDER BY run LIMIT 1"
    ).fetchall()
    cell = stored[0].read_cells()[0]
    assert row[0] == AT.replace(tzinfo=None)
    assert row[1:12] == (
        *("ferry", "0.1.0", "dsl-50", "http1", "http1-get-5MiB", "none"),
        *("namespaces", "uml", "Linux", "6.1", "a" * 40),
    )
    assert row[12:14] == (5, [sample.body_byte_s for sample in cell.samples])
    assert row[14] == pytest.approx(0.03 / (5_242_880 / 1e9))
    assert row[15:] == (12_000_000, 10, 0, [], True)
    described = {each[0] for each in index.connection.execute("DESCRIBE cells").fetchall()}
    assert described == {"run", *(name for name, _, _ in COLUMNS)}


def test_only_what_changed_is_read_again(stored: list[RunDir], results: Path, finish: Finish) -> None:
    assert open_index(open_source(None)).read_again == 4
    assert open_index(open_source(None)).read_again == 0
    at = AT + timedelta(days=9)
    new = RunDir.create("nightly", results=results, now=at)
    new.write_cell(run_cell([1e6] * 5, at))
    assert open_index(open_source(None)).read_again == 1, "a run that still goes on"
    assert open_index(open_source(None)).read_again == 0
    new.write_cell(run_cell([2e6] * 3, at))
    assert open_index(open_source(None)).read_again == 1, "its cell was written again"
    finish(new)
    assert open_index(open_source(None)).read_again == 1
    stored[0].write_cell(run_cell([3e6] * 4, AT))
    found = open_index(open_source(None))
    assert found.read_again == 1
    assert [row[2] for row in cells(found)] == [4, 5, 5, 5, 3]
    assert open_index(open_source(None), reread=True).read_again == 5


def test_a_run_that_is_gone_is_gone(stored: list[RunDir]) -> None:
    open_index(open_source(None))
    for path in sorted(stored[1].path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    stored[1].path.rmdir()
    found = open_index(open_source(None))
    assert [row[0] for row in cells(found)] == [run.name for run in stored if run is not stored[1]]
    assert found.read_again == 0


def test_what_cannot_be_read_is_one_line_and_the_rest_is_there(stored: list[RunDir]) -> None:
    cut, newer = stored[0].cell_path(CELL), stored[1].cell_path(CELL)
    cut.write_text(cut.read_text()[:500])
    newer.write_text(json.dumps(json.loads(newer.read_text()) | {"schema_version": "99.0"}))
    for _ in range(2):
        found = open_index(open_source(None))
        assert len(cells(found)) == 2
        assert len(found.problems) == 2
        assert all("\n" not in problem for problem in found.problems)
        assert str(cut) in found.problems[0]
        assert "newer" in found.problems[1]


def test_an_index_that_is_damaged_or_deleted_is_made_again(stored: list[RunDir]) -> None:
    path = open_index(open_source(None)).path
    path.write_bytes(b"PAR1 not really")
    assert open_index(open_source(None)).read_again == 4
    path.unlink()
    assert len(cells(open_index(open_source(None)))) == 4


def test_a_place_that_may_not_be_written_has_its_index_in_the_cache(
    stored: list[RunDir], results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may write anywhere: what the kernel would say to another user is said here.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert open_index(open_source(None)).path.is_relative_to(tmp_path / "cache")
    assert not (results / INDEX_FOLDER).exists()


def test_no_folder_and_no_run(tmp_path: Path, results: Path) -> None:
    with pytest.raises(UsageProblem, match="not a folder of results"):
        open_index(open_source(str(tmp_path / "nosuch")))
    results.mkdir()
    (results / "benchmarks").mkdir()
    assert cells(open_index(open_source(None))) == []


def test_several_at_once_leave_a_complete_index(stored: list[RunDir]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: len(cells(open_index(LocalSource(stored[0].path.parent), reread=True))), range(8)))
    assert found == [4] * 8
    assert [path.suffix for path in (stored[0].path.parent / INDEX_FOLDER).iterdir()] == [".parquet"], "nothing temporary is left"


@pytest.fixture
def address(stored: list[RunDir], tmp_path: Path) -> str:
    store = fsspec.filesystem("memory")
    name = f"/{tmp_path.name}/results"
    store.put(f"{stored[0].path.parent}/", f"{name}/", recursive=True)
    return f"memory:/{name}"


def test_an_object_store_is_read_alike(address: str, stored: list[RunDir], tmp_path: Path) -> None:
    source = open_source(address)
    assert isinstance(source, RemoteSource)
    found = open_index(source)
    assert found.read_again == 4
    assert cells(found) == cells(open_index(open_source(None)))
    assert found.path.is_relative_to(tmp_path / "cache")
    assert open_index(open_source(address)).read_again == 0
    store = fsspec.filesystem("memory")
    path = f"{address.removeprefix('memory:/')}/{stored[2].name}/cells/{CELL}.json"
    store.pipe_file(path, store.cat_file(path)[:300])
    again = open_index(open_source(address))
    assert again.read_again == 1
    assert len(cells(again)) == 3
    assert len(again.problems) == 1
    assert again.problems[0].startswith(address), "not the folder that it was copied to"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://no/such/place", "there is nothing"),
        ("nosuch://bucket/x", "nosuch"),
        ("memory://", "not a folder of results|cells"),
    ],
)
def test_an_address_without_runs_is_one_line(address: str, said: str, results: Path) -> None:
    if address == "memory://":
        assert open_index(open_source(address)).problems == []
        return
    with pytest.raises(UsageProblem, match=said) as caught:
        open_index(open_source(address))
    assert "\n" not in str(caught.value)


def test_a_long_reading_is_announced_and_done_in_parts(
    stored: list[RunDir], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[int] = []
    write = module._write

    def count(*words: Any, stale: dict[str, str], **more: Any) -> None:
        parts.append(len(stale))
        write(*words, stale=stale, **more)

    monkeypatch.setattr(module, "_write", count)
    monkeypatch.setattr(module, "_BATCH", 3)
    told: list[str] = []
    found = open_index(open_source(None), notify=told.append)
    assert told == [f"reading 4 runs of {results} for the index"]
    assert (parts, found.read_again, len(cells(found))) == ([3, 1], 4, 4)
    monkeypatch.setattr(module, "_BATCH", 4)
    told.clear()
    assert open_index(open_source(None), reread=True, notify=told.append).read_again == 4
    assert (told, parts) == ([], [3, 1, 4])


@pytest.mark.parametrize(("times", "read"), [(1, 8), (2, 12), (9, 12)])
def test_an_index_that_another_process_replaced_is_made_again_twice(
    stored: list[RunDir], monkeypatch: pytest.MonkeyPatch, times: int, read: int
) -> None:
    write, left = module._write, [times]

    def overwritten(connection: Any, path: Path, source: LocalSource, **more: Any) -> None:
        write(connection, path, source, **more)
        left[0] -= 1
        if left[0] >= 0:
            write(connection, path, source, stale={}, gone=[], old=False)

    monkeypatch.setattr(module, "_write", overwritten)
    found = open_index(open_source(None))
    assert (found.read_again, len(cells(found))) == (read, 4 if times < 3 else 0)


def test_a_run_that_disappears_while_it_is_read_has_a_row_with_the_reason(
    stored: list[RunDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, gone = LocalSource.read, stored[1].name

    def lose(source: LocalSource, run: str) -> StoredRun:
        if run == gone:
            raise UsageProblem("it was there")
        return read(source, run)

    monkeypatch.setattr(LocalSource, "read", lose)
    found = open_index(open_source(None))
    rows = found.connection.execute("SELECT run, whole, command, problems, started_at FROM runs WHERE NOT whole").fetchall()
    assert rows == [(gone, False, [], ["it was there"], None)]
    assert found.problems == ["it was there"]
    assert open_index(open_source(None)).read_again == 0, "it is not read at every call"


def test_an_index_that_cannot_be_read_after_all_is_a_fault(
    stored: list[RunDir], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = open_index(open_source(None)).path
    known = {run.name: signature for run, signature in zip(stored, LocalSource(results).signatures().values(), strict=True)}
    monkeypatch.setattr(module, "_signatures", lambda *_: known)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(LabFault) as caught:
        open_index(open_source(None))
    assert str(caught.value).startswith(f"{path}: the index cannot be read: ")
    assert str(caught.value).endswith("(delete it; nothing is lost)")
    assert len(caught.value.message) <= len(f"{path}: the index cannot be read: ") + 200


def test_a_name_with_a_quotation_mark_is_a_name(results: Path, finish: Finish) -> None:
    folder = results / "it's mine"
    folder.mkdir(parents=True)
    write_history(folder, runs=1, step_at=None)
    found = open_index(open_source(str(folder)))
    assert (found.source, len(cells(found))) == (str(folder), 1)


def test_times_are_in_utc_and_no_progress_is_shown() -> None:
    row = module._connect().execute("SELECT current_setting('TimeZone'), current_setting('enable_progress_bar')").fetchone()
    assert row == ("UTC", False)
