"""Where runs are: what is one, when it counts as changed, where its index goes, and the words for what cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.model.extras import install_extra
from lab.store.history import source as module
from lab.store.history.source import INDEX_FOLDER, LocalSource, RemoteSource, open_source
from lab.store.run_dir import RunDir
from tests.unit.store.conftest import make_cell, make_record

Change = Callable[[Path], object]


# --- names --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "remote"),
    [
        ("memory://a/b", True),
        ("simplecache::memory://a", True),
        ("a/b", False),
        ("/a/b", False),
        ("~/b", False),
        ("1a://b", False),
        ("file:///a/b", False),
    ],
)
def test_an_address_is_remote_and_everything_else_a_folder(text: str, remote: bool) -> None:
    assert isinstance(open_source(text), RemoteSource) == remote


def test_an_address_in_capitals_is_not_taken_for_a_folder() -> None:
    with pytest.raises(UsageProblem, match="Protocol not known: MEMORY"):
        open_source("MEMORY://a")


def test_a_folder_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    found = [open_source(text).name for text in ("a/b", "/a/b", "~/b", "file:///a/b", None)]
    assert found == [str(tmp_path / "a" / "b"), "/a/b", "/home/me/b", "/a/b", str(results)]


def test_an_address_has_no_slash_at_its_end_unless_it_is_all_of_it() -> None:
    assert [RemoteSource(text).name for text in ("memory://a/", "memory://a", "memory://")] == [
        "memory://a",
        "memory://a",
        "memory://",
    ]


# --- a folder -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(results: Path) -> list[RunDir]:
    """A finished run, an unfinished run, and other files and folders."""
    made = [RunDir.create("x", results=results) for _ in range(2)]
    for run in made:
        run.write_cell(make_cell())
    made[0].write_run(make_record())
    (results / ".hidden" / "cells").mkdir(parents=True)
    (results / "benchmarks").mkdir()
    (results / "notes.txt").write_text("")
    return sorted(made, key=lambda run: run.name)


def test_runs_are_the_folders_with_cells_by_name(runs: list[RunDir], results: Path) -> None:
    assert list(LocalSource(results).signatures()) == [run.name for run in runs]


def test_a_run_is_read_from_its_folder(runs: list[RunDir], results: Path) -> None:
    assert LocalSource(results).read(runs[0].name).path == runs[0].path.resolve()


@pytest.mark.parametrize(("folder", "why"), [("/no/such/place", "No such file or directory"), ("a\0b", "embedded null byte")])
def test_a_folder_that_cannot_be_listed_is_refused(folder: str, why: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        LocalSource(Path(folder)).signatures()
    said = f"{folder}: not a folder of results ({why}) (run something first, or give one with --from)"
    assert str(caught.value) == said


def later(path: Path) -> None:
    """As a change of the content or of the names in a folder leaves it."""
    at = path.stat().st_mtime_ns + 1
    os.utime(path, ns=(at, at))


def finished(results: Path) -> Path:
    return next(path.parent for path in results.glob("2*/run.json"))


def test_a_finished_run_has_changed_when_its_folders_have(runs: list[RunDir], results: Path) -> None:
    run, source = finished(results), LocalSource(results)
    times = [path.stat().st_mtime_ns for path in (run, run / "cells")]
    before = source.signatures()
    assert before[run.name] == f"{times[0]} {times[1]}"
    later(next((run / "cells").iterdir()))
    assert source.signatures() == before, "a file that was edited in place is not noticed"
    later(run / "cells")
    assert source.signatures()[run.name] == f"{times[0]} {times[1] + 1}"


@pytest.mark.parametrize(
    "change",
    [later, lambda cell: cell.write_bytes(cell.read_bytes() + b" "), lambda cell: cell.rename(cell.with_name("other.json"))],
)
def test_a_run_that_goes_on_has_changed_when_any_of_its_files_has(runs: list[RunDir], results: Path, change: Change) -> None:
    run = next(run for run in runs if run.path != finished(results))
    source = LocalSource(results)
    before = source.signatures()
    assert len(before[run.name]) == 24
    later(run.path)
    assert source.signatures() == before
    at = run.cell_path(make_cell().id).stat().st_mtime_ns
    change(run.cell_path(make_cell().id))
    if change is not later:
        for file in run.cells.iterdir():
            os.utime(file, ns=(at, at))
    after = source.signatures()
    assert after[run.name] != before[run.name]
    assert {name for name in after if after[name] == before[name]} == {finished(results).name}


def test_the_index_is_with_the_runs_where_that_may_be_written(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.mkdir()
    asked: list[tuple[object, int]] = []
    answers = {results: True, results / INDEX_FOLDER: False}

    def access(path: Path, mode: int) -> bool:
        asked.append((path, mode))
        return answers[path]

    monkeypatch.setattr(os, "access", access)
    source = LocalSource(results)
    assert source.index_folder() == results / INDEX_FOLDER
    (results / INDEX_FOLDER).mkdir()
    elsewhere = source.index_folder()
    assert asked == [(results, os.W_OK), (results / INDEX_FOLDER, os.W_OK)]
    assert elsewhere.parent == tmp_path / "cache" / "history"
    assert len(elsewhere.name) == 16
    assert elsewhere != RemoteSource("memory://a").index_folder() == RemoteSource("memory://a/").index_folder()


# --- an address ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def address(runs: list[RunDir], results: Path, tmp_path: Path) -> str:
    store = fsspec.filesystem("memory")
    name = f"/{tmp_path.name}/results"
    store.put(f"{results}/", f"{name}/", recursive=True)
    for path in (".hidden/cells/x.json", "only/run.json", "notes/x.txt", "top.json"):
        store.pipe_file(f"{name}/{path}", b"{}")
    return f"memory:/{name}"


def test_runs_at_an_address_have_cells(address: str, runs: list[RunDir]) -> None:
    found = RemoteSource(address).signatures()
    assert list(found) == [run.name for run in runs]
    assert {len(each) for each in found.values()} == {24}


def test_a_run_at_an_address_has_changed_when_its_cells_or_its_record_have(address: str, runs: list[RunDir]) -> None:
    store, root = fsspec.filesystem("memory"), address.removeprefix("memory:/")
    source, name = RemoteSource(address), runs[0].name
    seen = [source.signatures()[name]]
    store.pipe_file(f"{root}/{name}/evidence/x/y.pcap", b"1")
    assert source.signatures()[name] == seen[0], "evidence is never read"
    for path in ("cells/new.json", "cells/new.json", "run.json"):
        store.pipe_file(f"{root}/{name}/{path}", b"{}" * len(seen))
        seen.append(source.signatures()[name])
    assert len(set(seen)) == 4
    store.rm(f"{root}/{name}/cells/new.json")
    assert source.signatures()[name] not in seen


def test_the_time_of_a_file_is_any_that_the_store_tells(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = RemoteSource(address)

    def signature(**facts: object) -> str:
        path = f"{source._root}/run/cells/a.json"
        monkeypatch.setattr(source._fs, "find", lambda *_, **__: {path: {"size": 1, **facts}})
        return source.signatures()["run"]

    told = [signature(), signature(ETag="1"), signature(mtime=2.0), signature(ETag=None, created="3")]
    assert len(set(told)) == 4
    assert signature(ETag="1", mtime=9) == signature(ETag="1", mtime=8) == told[1], "the surest comes first"


def test_a_run_at_an_address_is_read_like_a_folder(address: str, runs: list[RunDir]) -> None:
    found = [RemoteSource(address).read(run.name) for run in runs]
    assert [each.cells for each in found] == [run.read_cells() for run in runs]
    assert sorted(each.record is not None for each in found) == [False, True]
    assert [each.problems for each in found] == [[], []]
    root = address.removeprefix("memory:/")
    fsspec.filesystem("memory").pipe_file(f"{root}/{runs[0].name}/cells/a.json", b"{")
    (problem,) = RemoteSource(address).read(runs[0].name).problems
    assert problem.startswith(f"{address}/{runs[0].name}/cells/a.json: cut off or not JSON")


def told(address: str) -> str:
    with pytest.raises(UsageProblem) as caught:
        RemoteSource(address).signatures()
    return str(caught.value)


def test_an_address_with_nothing_is_said_so() -> None:
    assert told("memory://no/such/place") == "memory://no/such/place: there is nothing (check the address)"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("a\n b"), "a b"),
        (RuntimeError("x" * 201), "x" * 200),
        (KeyError(), "KeyError"),
    ],
)
def test_whatever_a_store_raises_names_the_address(
    address: str, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", refuse)
    assert told(address) == f"{address}: cannot be read: {said} (check the address and your access to it)"


def test_a_fault_that_has_its_words_keeps_them(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LabFault("the disk is full")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", refuse)
    with pytest.raises(LabFault, match=r"^the disk is full$"):
        RemoteSource(address).signatures()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("Install s3fs"), f"Install s3fs (install what it needs, for s3:// {install_extra('s3')})"),
        (ValueError("no\n such"), "no such (give a folder or an address like s3://bucket/results)"),
        (OSError("x" * 201), f"{'x' * 200} (give a folder or an address like s3://bucket/results)"),
    ],
)
def test_an_address_that_nothing_can_open_says_what_helps(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def refuse(_: str) -> None:
        raise error

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(UsageProblem) as caught:
        RemoteSource("s3://a")
    assert str(caught.value) == f"s3://a: {said}"


def test_a_digest_does_not_depend_on_the_order_of_the_files() -> None:
    one, other = ("a", 1, "x"), ("b", 2, "y")
    assert module._digest([one, other]) == module._digest([other, one]) != module._digest([one])
