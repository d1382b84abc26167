"""The folder of a run: how a person names one, what it is called, where its documents are, and the words of each refusal."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.model.answer import Answer
from lab.model.errors import LabFault, UsageProblem
from lab.model.results import CellResult, RunRecord
from lab.store import run_dir
from lab.store.run_dir import (
    ANSWERS,
    CELLS,
    RUN_SHELF,
    RunDir,
    file_bytes,
    is_run,
    parse_json,
    read_cell,
    read_json,
    read_result,
    read_run,
    run_folders,
    shelf_of,
    write_checked,
)
from tests.unit.store.conftest import AT

MakeCell = Callable[..., CellResult]


def make_answer(name: str) -> Answer:
    facts = {"id": name, "question": "no-slower", "run": "r", "lab_version": "0.1.0", "clocks": ["real"], "verdict": None}
    return Answer.model_validate({**facts, "started_at": AT, "ended_at": AT})


@pytest.fixture
def runs(tmp_path: Path) -> list[RunDir]:
    """Four, a day apart, and other files and folders."""
    made = [RunDir.create("x", results=tmp_path / "results", now=datetime(2026, 1, day, tzinfo=UTC)) for day in (1, 2, 3, 4)]
    (tmp_path / "results" / "benchmarks").mkdir()
    (tmp_path / "results" / "00-notes.txt").write_text("")
    return made


# --- how one is named ---------------------------------------------------------------------------------------------------------


def test_latest_and_those_before_it_have_names(runs: list[RunDir]) -> None:
    results = runs[0].path.parent
    found = [RunDir.find(text=text, results=results).name for text in ("latest", "latest~0", "latest~1", "latest~2", "latest~3")]
    assert found == [runs[index].name for index in (3, 3, 2, 1, 0)]
    with pytest.raises(UsageProblem) as caught:
        RunDir.find("latest~4", results=results)
    assert str(caught.value) == f"latest~4: there are only 3 runs before {runs[3].name} in {results}"


def test_latest_may_be_an_older_run(runs: list[RunDir]) -> None:
    runs[1]._point_latest()
    results = runs[0].path.parent
    assert RunDir.find("latest~1", results=results).name == runs[0].name
    with pytest.raises(UsageProblem, match=f"only 1 runs before {runs[1].name}"):
        RunDir.find("latest~2", results=results)


def test_a_name_is_below_the_results_and_a_path_is_anywhere(
    runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    name = runs[1].name
    for text in (name, f"results/{name}", str(runs[1].path)):
        assert RunDir.find(text).path == runs[1].path.resolve()
    assert RunDir.find("latest").name == runs[3].name


def test_a_folder_that_is_there_comes_before_a_run_of_its_name(
    runs: list[RunDir], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = runs[1].name
    (tmp_path / name).mkdir()
    with pytest.raises(UsageProblem, match=f"{name} is not the folder of a run"):
        RunDir.find(name, results=tmp_path / "results")
    (tmp_path / name / "cells").mkdir()
    assert RunDir.find(name, results=tmp_path / "results").path == tmp_path.resolve() / name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nowhere", "nowhere is not the folder of a run (name one under results/, or results/latest)"),
        ("latest~1", "latest is not the folder of a run (name one under results/, or results/latest)"),
        ("latest~1234567", "latest~1234567 is not the folder of a run (name one under results/, or results/latest)"),
    ],
)
def test_another_folder_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        RunDir.find(text, results=tmp_path)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == said


@pytest.mark.parametrize("text", ["x" * 3000, "a\0b"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageProblem, match="is not the folder of a run"):
        RunDir.find(text, results=tmp_path)


def test_a_run_has_a_folder_of_cells_or_a_record(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    assert is_run(tmp_path)
    (tmp_path / "cells").rmdir()
    assert not is_run(tmp_path)
    (tmp_path / "run.json").mkdir()
    assert not is_run(tmp_path), "a folder is no record"
    (tmp_path / "run.json").rmdir()
    (tmp_path / "run.json").write_text("")
    assert is_run(tmp_path)


def test_runs_come_by_name_without_links_to_them(runs: list[RunDir]) -> None:
    assert run_folders(runs[0].path.parent) == [run.path for run in runs]


# --- how one is made and removed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "slug"),
    [("A b", "a-b"), ("--x--", "x"), ("a" * 50, "a" * 40), ("a" * 39 + "-bc", "a" * 39), ("Ünder_1.2", "nder-1-2"), ("", "run")],
)
def test_a_name_has_letters_digits_and_dashes_of_at_most_forty(tmp_path: Path, word: str, slug: str) -> None:
    name = RunDir.create(word, results=tmp_path / "new" / "results", now=AT).name
    assert re.fullmatch(rf"20260102T030405-{slug}-[0-9a-f]{{4}}", name)


def test_a_run_is_made_now_where_no_time_is_given(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    made = datetime.strptime(RunDir.create(word="x", results=tmp_path).name[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    assert before <= made <= datetime.now(UTC)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_place_without_links_has_runs_and_no_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "symlink_to", refuse)
    run = RunDir.create("x", results=tmp_path)
    assert list(tmp_path.iterdir()) == [run.path]


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (errno.ENOSPC, LabFault, "cannot be made, the disk is full (free space or set ROUGHWATER_RESULTS"),
        (errno.EACCES, UsageProblem, "cannot be made, Permission denied (set ROUGHWATER_RESULTS to a folder you may write to)"),
    ],
)
def test_a_latest_that_cannot_be_moved_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception], said: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(kind) as caught:
        RunDir.create("x", results=tmp_path)
    assert f"{tmp_path}/latest: {said}" in str(caught.value)
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]


def test_a_fault_without_a_number_is_reported_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the wind")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UsageProblem, match="cannot be made, the wind"):
        RunDir.create("x", results=tmp_path)


def test_discard_goes_back_to_the_newest_of_those_that_are_left(runs: list[RunDir]) -> None:
    runs[3].discard()
    assert (runs[0].path.parent / "latest").readlink() == Path(runs[2].name)


def test_discard_does_not_need_a_latest(tmp_path: Path) -> None:
    run = RunDir.create("x", results=tmp_path)
    (tmp_path / "latest").unlink()
    run.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_removed_is_a_fault(runs: list[RunDir], monkeypatch: pytest.MonkeyPatch) -> None:
    faults = iter([OSError(errno.EBUSY, "Device or resource busy"), OSError("the wind")])

    def refuse(_: Path) -> None:
        raise next(faults)

    monkeypatch.setattr("lab.store.run_dir.shutil.rmtree", refuse)
    for said in ("Device or resource busy", "the wind"):
        with pytest.raises(LabFault) as caught:
            runs[0].discard()
        assert str(caught.value).startswith(f"{runs[0].path}: cannot be removed, {said}")


# --- where documents are ------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create("x", results=tmp_path)


def test_documents_are_named_by_their_ids(run: RunDir) -> None:
    assert run.cell_path("a--b/ä") == run.path / "cells" / "a--b%2F%C3%A4.json"
    assert run.answer_path("a--b/ä") == run.path / "answers" / "a--b%2F%C3%A4.json"
    assert run.evidence("a/b") == run.evidence("a/b") == run.path / "evidence" / "a%2Fb"
    assert run.evidence("a/b").is_dir()


def test_the_files_of_a_kind_are_those_of_its_folders(run: RunDir, cell: CellResult, record: RunRecord) -> None:
    for folder, names in {
        "answers": ("b.json", "a.json", ".c.json.0badc0de", "notes.txt"),
        "studies": ("d.json",),
        "pairs": ("e.json",),
        "cells": ("y.json", "x.json"),
    }.items():
        (run.path / folder).mkdir(exist_ok=True)
        for name in names:
            (run.path / folder / name).write_text("{}")
    for name in ("qualification.json", "run.json", "other.json"):
        (run.path / name).write_text("{}")

    def found(kind: type[CellResult | Answer | RunRecord]) -> list[str]:
        return [str(each.relative_to(run.path)) for each in run.files(kind)]

    assert found(CellResult) == ["cells/x.json", "cells/y.json"]
    assert found(Answer) == ["answers/a.json", "answers/b.json", "studies/d.json", "pairs/e.json", "qualification.json"]
    assert found(RunRecord) == ["run.json"]


def test_a_kind_is_known_by_the_place_or_else_is_todays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shelf_of(Path("/r/studies/x.json"), Answer).kind == "study"
    assert shelf_of(Path("/r/answers/qualification.json"), Answer).kind == "answer"
    assert shelf_of(Path("/r/qualification.json"), Answer).kind == "qualification"
    assert shelf_of(Path("/r/x.json"), Answer) is ANSWERS
    assert shelf_of(Path("/r/x.json"), CellResult) is CELLS
    assert shelf_of(Path("/r/x.json"), RunRecord) is RUN_SHELF
    (tmp_path / "findings").mkdir()
    monkeypatch.chdir(tmp_path / "findings")
    assert shelf_of(Path("x.json"), Answer).kind == "finding", "a relative path has a folder, too"


# --- how they are written -----------------------------------------------------------------------------------------------------


def test_a_file_is_json_by_lines_with_letters_as_they_are(cell: CellResult) -> None:
    named = cell.model_copy(update={"id": "ä--b--c"})
    data = file_bytes(Path("-"), named)
    assert data.decode().startswith('{\n "schema_version": "2.3",\n "id": "ä--b--c",\n')
    assert json.loads(data) == named.model_dump(mode="json")


def test_a_file_that_was_made_elsewhere_is_written_as_it_is(run: RunDir, cell: CellResult) -> None:
    answer = make_answer("a")
    for result, path in ((cell, run.cell_path(cell.id)), (answer, run.path / "answers" / "a.json")):
        data = file_bytes(path, result)
        assert run.write_valid(result, data) == path
        assert path.read_bytes() == data
        assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_disk_that_lies_about_a_file_made_elsewhere_is_noticed(
    run: RunDir, cell: CellResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, write = file_bytes(Path("-"), cell), os.write
    monkeypatch.setattr(os, "write", lambda fd, part: write(fd, bytes(part).replace(b"dsl-50", b"dsl-05")))
    with pytest.raises(LabFault) as caught:
        run.write_valid(cell, data)
    said = "the result read back from disk differs (check the disk, else report it: a bug)"
    assert str(caught.value) == f"{run.cell_path(cell.id)}: {said}"
    assert list(run.cells.iterdir()) == []


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_model_that_reads_back_as_another_is_not_kept(run: RunDir, cell: CellResult) -> None:
    odd = cell.model_copy(update={"ended_at": "2026-01-02T04:04:05+00:00"})
    with pytest.raises(LabFault, match="the result read back from disk differs from the CellResult that was written"):
        run.write_cell(odd)
    assert list(run.cells.iterdir()) == []


def test_what_a_disk_returned_is_counted(tmp_path: Path, cell: CellResult, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(file_bytes(tmp_path, cell))
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"xyz")
    with pytest.raises(LabFault, match=f"a.json: the result read back from disk has 3 bytes that are not the {size} written"):
        write_checked(tmp_path / "temporary", tmp_path / "a.json", cell)


# --- how they are read --------------------------------------------------------------------------------------------------------


def test_a_record_is_read_by_its_own_name_or_by_its_folders(run: RunDir, record: RunRecord) -> None:
    run.write_run(record)
    assert read_run(run.path) == read_run(run.path / "run.json") == record


def test_a_fault_is_named_and_the_others_are_counted(run: RunDir, cell: CellResult) -> None:
    path = run.write_cell(cell)
    document = json.loads(path.read_text())

    def said(**wrong: object) -> str:
        path.write_text(json.dumps({**document, **wrong}))
        with pytest.raises(UsageProblem) as caught:
            read_cell(path)
        return str(caught.value).removeprefix(f"{path}: not a valid CellResult: ")

    assert re.fullmatch(r"clock: Input should be '\w+' or '\w+'", said(clock="lunar"))
    assert said(clock="lunar", backend=1, run=2).endswith(" (and 2 more)")
    samples = [{**document["samples"][0], "index": "x"}]
    assert said(samples=samples).startswith("samples.0.index: Input should be a valid integer")


def test_a_fault_of_the_complete_document_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_dir, "read_document", lambda *_: [])
    with pytest.raises(UsageProblem, match="not a valid RunRecord: the document: Input should be an object"):
        read_result(tmp_path / "run.json", RunRecord)


def test_a_file_that_cannot_be_read_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(path: Path) -> str:
        with pytest.raises(UsageProblem) as caught:
            read_json(path)
        return str(caught.value).removeprefix(f"{path}: ")

    assert said(tmp_path) == "not a file (name a result that exists)"
    assert said(tmp_path / "none") == "No such file or directory (name a result that exists)"
    (tmp_path / "cut").write_text('{"a": ')
    assert said(tmp_path / "cut").startswith("cut off or not JSON (")
    assert said(tmp_path / "cut").endswith(" (run the cell again)")
    faults = iter([PermissionError(errno.EACCES, "Permission denied"), OSError("the wind")])

    def refuse(_: Path) -> bytes:
        raise next(faults)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert said(tmp_path / "cut") == "Permission denied (give this user the right to read it)"
    assert said(tmp_path / "cut") == "the wind (name a result that exists)"


def test_json_is_read_as_it_is() -> None:
    assert parse_json(data=b'[1, {"a": null}]', origin="-", remedy="-") == [1, {"a": None}]
    with pytest.raises(UsageProblem, match=r"^x: cut off or not JSON \(Out of range float values.*\) \(get it again\)$"):
        parse_json(b"[1e999]", "x", remedy="get it again")


def test_an_error_is_given_in_one_line_of_two_hundred_letters() -> None:
    assert run_dir._one_line(ValueError("a\n  b")) == "a b"
    assert run_dir._one_line(ValueError("x" * 201)) == "x" * 200
