"""`lab results`: reports what is wrong with stored results, by file and place, and nothing that is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import results as command
from lab.model.answer import Answer
from lab.model.errors import UsageProblem
from lab.model.results import SCHEMA_VERSION, CellResult
from lab.store.run_dir import RunDir, file_bytes, read_result
from lab.store.validate import json_path, validate
from tests.unit.store.conftest import make_record

MakeCell = Callable[..., CellResult]
Edit = Callable[[dict[str, Any]], object]


def lab(*words: str) -> Result:
    app = typer.Typer()
    app.command("other")(lambda: None)
    command.register(app)
    return CliRunner().invoke(app, ["results", *words])


@pytest.fixture
def results(stored_1_0: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(stored_1_0))
    return stored_1_0


def the(results: Path, pattern: str) -> Path:
    """The only, or the first, file of that pattern."""
    return min(results.glob(pattern))


def edit(path: Path, change: Edit) -> Path:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def told(results: Path) -> list[tuple[str, str, str]]:
    return [(Path(each.file).name, each.where, each.what) for each in validate([results]).problems]


def test_real_results_of_an_older_lab_are_right(results: Path) -> None:
    done = lab("validate")
    assert done.exit_code == 0, done.stdout
    assert done.stdout == "0 problems in 17 files of 3 runs\n"


def test_a_run_a_file_and_a_folder_can_be_named(results: Path) -> None:
    run = the(results, "*-qualify-*")
    assert lab("validate", str(run)).stdout == "0 problems in 8 files of 1 run\n"
    assert lab("validate", run.name).stdout == "0 problems in 8 files of 1 run\n"
    assert lab("validate", str(the(run, "cells/*")), str(run / "run.json")).stdout == "0 problems in 2 files of 0 runs\n"


def test_a_file_elsewhere_is_known_by_what_is_in_it(results: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted(results.glob("**/*.json"))):
        (tmp_path / f"{number}.json").write_bytes(path.read_bytes())
        assert validate([tmp_path / f"{number}.json"]).problems == []
    (tmp_path / "x.json").write_text('{"samples": 1, "varied": 2}')
    with pytest.raises(UsageProblem, match="cannot tell the kind of this result"):
        validate([tmp_path / "x.json"])


def test_an_answer_elsewhere_is_known_by_its_question(results: Path, tmp_path: Path) -> None:
    """With and without the ratio, which a pair of an older lab has too."""
    answer = read_result(next(RunDir.open(the(results, "*-quirks-*")).files(Answer)), Answer)
    document, path = json.loads(file_bytes(tmp_path, answer)), tmp_path / "x.json"
    assert document.pop("ratio") is None
    for written in (document, {**document, "ratio": None}):
        path.write_text(json.dumps(written))
        assert validate([path]).problems == []


GUEST = {
    "seed": 1,
    "kernel_release": "7.2.0",
    "kernel_sha256": "0" * 64,
    "charge_ns": 200,
    "charge_most_ns": 200,
    "conditions": {},
    "real_s": None,
}
CELL = "*-throttle-*/cells/curl--dsl-50*"
PAIR = "*-qualify-*/pairs/*--h2-get-*"
RUN = "*-throttle-*/run.json"
QUALIFICATION = "*-qualify-*/qualification.json"


@pytest.mark.parametrize(
    ("pattern", "change", "where", "what"),
    [
        (CELL, lambda it: it["samples"][1].update(index=7), "$.samples[1].index", "is 7 in place 1"),
        (CELL, lambda it: it["samples"].pop(), "$.verdict.interval.n", "is 5, there are 4 samples"),
        (CELL, lambda it: it["samples"].pop(), "$.verdict.looks[0]", "looked at 5 of 4 samples"),
        (CELL, lambda it: it["verdict"]["interval"].update(mean=-1.5, low=-2), "$.verdict.interval.mean", "is -1.5: a mean"),
        (CELL, lambda it: it["verdict"]["interval"].update(low=9), "$.verdict.interval", "is not between 9 and"),
        (CELL, lambda it: it["verdict"].update(band_low=0.5, band_high=0.1), "$.verdict.band_low", "0.5 is above band_high 0.1"),
        (CELL, lambda it: it.update(ended_at="2026-01-01T00:00:00Z"), "$.ended_at", "is before started_at"),
        (
            CELL,
            lambda it: it["samples"][2].update(started_at=it["samples"][0]["started_at"]),
            "$.samples[2].started_at",
            "is before the previous one",
        ),
        (CELL, lambda it: it["samples"][0].update(started_at="2020-01-01T00:00:00Z"), "$.samples[0].started_at", "not between"),
        (CELL, lambda it: it.update(id="a--b--c"), "$.id", "is a--b--c, which is not the name of the file"),
        (CELL, lambda it: it["client"].update(colour="green"), "$.client.colour", "Extra inputs"),
        (
            CELL,
            lambda it: it["verdict"].update(name="PASS"),
            "$.verdicts['curl--dsl-50--h2-get-5MiB-at-2MBps-chunked']",
            "is FAIL",
        ),
        (RUN, lambda it: it.update(exit_code=0), "$.exit_code", "is 0, its verdicts say 1"),
        (RUN, lambda it: it["cells"].append("x--y--z"), "$.cells[3]", "there is no file of x--y--z"),
        (RUN, lambda it: it["cells"].append(it["cells"][0]), "$.cells[3]", "is listed twice"),
        (
            RUN,
            lambda it: it["cells"].pop(0),
            "$.cells",
            "ferry--link-local--http1-get-5MiB-at-2MBps has a file and is not listed",
        ),
        (RUN, lambda it: it["verdicts"].update(x="PASS"), "$.verdicts['x']", "no file has this verdict"),
        (RUN, lambda it: it["verdicts"].popitem(), "$.verdicts", "is missing, its file says"),
        (RUN, lambda it: it["baselines"].append("x"), "$.baselines", "x is not one of its cells or answers"),
        (RUN, lambda it: it["studies"].append("x"), "$.answers[0]", "there is no file of x"),
        (RUN, lambda it: it.update(clocks=["virtual"]), "$.clocks", "real is missing, "),
        (CELL, lambda it: it.update(virtual=GUEST), "$.virtual", "is there, and the clock is real"),
        (RUN, lambda it: it.update(run="another"), "$.cells", "says it is of run 20261122T014008-throttle-dc86"),
        (PAIR, lambda it: it["baseline"].update(cell="x"), "$.arms[1].cell", "there is no cell or answer x"),
        (PAIR, lambda it: it["candidate"].update(verdict="FAIL"), "$.arms[0].verdict", "is FAIL, its file says PASS"),
        (PAIR, lambda it: it["ratio"].update(n=6), "$.ratio.n", "is 6, there are 5 values of each arm"),
        (QUALIFICATION, lambda it: it.update(exit_code=3), "$.verdict.name", "is INCONCLUSIVE, its parts say PASS"),
        (QUALIFICATION, lambda it: it["items"][0].update(id="x"), "$.parts[0].id", "there is no cell or answer x"),
        (QUALIFICATION, lambda it: it["items"][0].update(pair="x"), "$.parts[0].comparison", "there is no cell or answer x"),
        (QUALIFICATION, lambda it: it["items"][0].update(verdict="FAIL"), "$.parts[0].verdict", "is FAIL, its file says PASS"),
        (QUALIFICATION, lambda it: it["items"][1].update(regression="FAIL"), "$.parts[1].regression", "is FAIL, its file says"),
    ],
)
def test_what_does_not_agree_is_reported(results: Path, pattern: str, change: Edit, where: str, what: str) -> None:
    edit(the(results, pattern), change)
    found = told(results)
    assert [each for each in found if each[1] == where and what in each[2]], found


def test_an_honest_interval_may_reach_below_what_its_mean_can(results: Path) -> None:
    edit(the(results, CELL), lambda it: it["verdict"]["interval"].update(mean=-0.9, low=-1.2, high=-0.6))
    assert told(results) == []


def test_every_fault_of_a_file_is_a_line_and_what_hangs_on_it_is_not(results: Path) -> None:
    path = edit(the(results, CELL), lambda it: [sample.update(index="x") for sample in it["samples"]])
    other = the(results, "*-qualify-*/cells/curl*")
    other.write_bytes(other.read_bytes()[:500])
    done = lab("validate")
    assert done.exit_code == 2
    lines = done.stdout.splitlines()
    assert lines[-1] == "6 problems in 17 files of 3 runs"
    assert [line for line in lines if line.startswith(f"{path}: $.samples[3].index: Input should be a valid integer")]
    assert [line for line in lines if line.startswith(f"{other}: $: cut off or not JSON")]


def test_a_run_that_goes_on_is_not_a_fault(results: Path) -> None:
    the(results, RUN).unlink()
    done = lab("validate")
    assert done.exit_code == 0
    assert "20261122T014008-throttle-dc86: not complete: it goes on, or it was cut off" in done.stdout


def test_json(results: Path) -> None:
    edit(the(results, RUN), lambda it: it.update(exit_code=0))
    done = lab("validate", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == found["exit_code"] == 2
    [problem] = found["problems"]
    assert (problem["where"], problem["what"]) == ("$.exit_code", "is 0, its verdicts say 1")
    assert (found["runs"], found["files"], found["unfinished"]) == (3, 17, [])


def test_what_a_new_lab_writes_is_right(tmp_path: Path, make_cell: MakeCell) -> None:
    run = RunDir.create("x", results=tmp_path)
    run.write_cell(make_cell(cell_id="a--b--c/../d"))
    assert validate([tmp_path]).problems == []
    assert validate([tmp_path]).files == 1, "latest is no second run"


@pytest.mark.parametrize("named", ["nowhere", ""])
def test_where_there_is_nothing_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "none"))
    done = lab("validate", *([named] if named else []))
    assert isinstance(done.exception, UsageProblem)
    with pytest.raises(UsageProblem, match="there is no run in"):
        validate([tmp_path])


def test_a_path_is_written_as_rfc_9535_has_it() -> None:
    assert json_path(("samples", 3, "raw", "a b", "$x")) == "$.samples[3].raw['a b']['$x']"
    assert json_path(()) == "$"


def test_migrate_says_what_it_did(results: Path) -> None:
    run = the(results, "*-windows-quirks-*")
    assert (
        lab("migrate", run.name).stdout
        == f"{run.name}: 5 files rewritten as schema {SCHEMA_VERSION}; the old ones are in {run / 'schema-1.0'}\n"
    )
    assert lab("migrate", run.name).stdout == f"{run.name}: every file has schema {SCHEMA_VERSION} already\n"
    assert lab("validate").exit_code == 0


@pytest.mark.parametrize(
    ("error", "said"), [(PermissionError(13, "Permission denied"), "Permission denied"), (OSError("the wind"), "the wind")]
)
def test_a_folder_that_cannot_be_listed_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def refuse(_: Path) -> list[Path]:
        raise error

    monkeypatch.setattr("lab.store.validate.run_folders", refuse)
    with pytest.raises(UsageProblem) as caught:
        validate([tmp_path])
    assert str(caught.value) == f"{tmp_path}: {said} (name a run, a result or a folder of runs)"


def test_a_file_elsewhere_that_cannot_be_read_has_no_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageProblem) as caught:
        validate([path])
    assert str(caught.value) == f"{path}: cannot tell the kind of this result (keep it in its run's folder)"


def test_a_kind_that_cannot_be_listed_is_a_fault_of_the_run(
    tmp_path: Path, make_cell: MakeCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir.create("x", results=tmp_path)
    run.write_cell(make_cell())
    files = RunDir.files

    def refuse(run: RunDir, kind: type[CellResult | Answer]) -> Iterator[Path]:
        if kind is Answer:
            raise UsageProblem("answers: Permission denied", remedy="-")
        return files(run, kind)

    monkeypatch.setattr(RunDir, "files", refuse)
    found = validate([run.path])
    assert [(each.file, each.where, each.what) for each in found.problems] == [(str(run.path), "$", "answers: Permission denied")]
    assert (found.runs, found.files, found.exit_code) == (1, 1, 2)


def test_runs_and_files_are_counted_together(results: Path) -> None:
    run = the(results, "*-qualify-*")
    found = validate([run, the(results, CELL), results])
    assert (found.runs, found.files, found.exit_code, found.problems) == (4, 26, 0, [])


def test_what_refers_to_a_file_that_cannot_be_read_is_not_reported(tmp_path: Path, make_cell: MakeCell) -> None:
    """Its verdict is not known, and neither is whether the record is right about it. Its name may need quoting."""
    run = RunDir.create("x", results=tmp_path)
    cell = make_cell(cell_id="a--b/c--d").model_copy(update={"run": run.name})
    path = run.write_cell(cell)
    run.write_run(
        make_record().model_copy(update={"run": run.name, "cells": [cell.id], "verdicts": {cell.id: "PASS"}, "exit_code": 0})
    )
    assert validate([run.path]).problems == []
    path.write_text("{")
    assert [(each.file, each.where) for each in validate([run.path]).problems] == [(str(path), "$")]


def test_a_run_without_a_record_is_unfinished(tmp_path: Path, make_cell: MakeCell) -> None:
    run = RunDir.create("x", results=tmp_path)
    run.write_cell(make_cell())
    assert validate([tmp_path]).unfinished == [run.name]
    run.write_run(make_record())
    assert validate([tmp_path]).unfinished == []


@pytest.mark.parametrize("ended", ["interrupted", "timeout", "disk", "killed"])
def test_a_run_whose_record_says_so_is_unfinished(tmp_path: Path, make_cell: MakeCell, ended: Any) -> None:
    run = RunDir.create("x", results=tmp_path)
    run.write_cell(make_cell())
    run.write_run(make_record().model_copy(update={"ended": ended, "exit_code": 4}))
    assert validate([tmp_path]).unfinished == [run.name]
