"""What the keywords make of a table's row, and of a verdict; with a session that runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.errors import NotSupported, UsageProblem
from lab.model.paths import shipped_suites_dir
from lab.model.study import BufferStudy
from lab.model.units import Size
from lab.robot.library import Sizes
from lab.robot.suite import Choice
from lab.run.named_cells import named_cells
from tests.support.noted_session import NotedSession, run_suite

BUFFERS = shipped_suites_dir() / "upload-buffers.robot"
SETS = shipped_suites_dir() / "file-sets.robot"
THROTTLE = shipped_suites_dir() / "throttle.robot"
EXTENDED = shipped_suites_dir() / "throttle-extended.robot"
REQUESTS = shipped_suites_dir() / "requests.robot"
SETTINGS = "*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n*** Test Cases ***\nOne\n    "


def test_every_row_of_the_buffer_suite_is_a_study_of_its_own(notes: NotedSession) -> None:
    run_suite(BUFFERS, notes, {})
    assert len({study.id for study in notes.studies}) == len(notes.studies) == 22
    assert {study.topology.name for study in notes.studies} == {"link-local", "metro-200", "far-200"}
    assert {study.transfer.direction for study in notes.studies} == {"put", "get"}
    assert {study.transfer.protocol for study in notes.studies} == {"sftp", "http1", "h2", "h3"}
    sizes = [str(size) for size in notes.studies[0].buffers]
    assert sizes == ["16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"]
    assert notes.studies[0].floor.value == 0.9


def test_buffers_and_protocol_are_variables(notes: NotedSession) -> None:
    variables = {"BUFFERS": "64 KiB,1 MiB", "PROTOCOL": "h2", "FLOOR": "80 %"}
    run_suite(BUFFERS, notes, variables, clients=["openssh"], choice=Choice(tests=["Put, 20 ms"]))
    (study,) = notes.studies
    assert study.buffers == (Size.parse("64 KiB"), Size.parse("1 MiB"))
    assert (study.id, study.floor.value) == ("openssh--metro-200--h2-put-64MiB--buffers", 0.8)


def test_large_sets_must_be_steady_and_small_ones_complete(notes: NotedSession) -> None:
    run_suite(SETS, notes, {})
    kinds = {cell.transfer.files: cell.expectation.kind for cell in notes.cells}
    assert kinds == {1: "none", 10: "none", 100: "none", 1000: "steady"}
    assert {cell.transfer.total_bytes for cell in notes.cells} == {1_800_000_000, 120_000_000, 100_000_000, 20_000_000}
    assert len({cell.id for cell in notes.cells}) == len(notes.cells) == 8


def test_slow_and_ci_rows(notes: NotedSession) -> None:
    run_suite(SETS, notes, {}, choice=Choice(exclude=["slow"]))
    assert {cell.transfer.files for cell in notes.cells} == {10, 100, 1000}
    notes.cells.clear()
    run_suite(SETS, notes, {}, choice=Choice(include=["ci"]))
    assert {cell.transfer.files for cell in notes.cells} == {1000}


def test_the_mails_rows_are_two_limits_on_three_links(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(include=["mail"]))
    asked = {(cell.topology.name, str(cell.transfer.limit)) for cell in notes.cells}
    assert {topology for topology, _ in asked} == {"link-local", "dsl-50", "dsl-20"}
    assert len(asked) == len(notes.cells) == 6
    assert {cell.transfer.protocol + cell.transfer.direction for cell in notes.cells} == {"http1get"}


def test_the_extended_rows_are_cells_of_every_promise(notes: NotedSession) -> None:
    run_suite(EXTENDED, notes, {})
    assert len({cell.id for cell in notes.cells}) == len(notes.cells) == 15
    assert {cell.expectation.kind for cell in notes.cells} == {"limit", "burst", "cpu"}
    assert {(cell.transfer.files, cell.transfer.parallel) for cell in notes.cells} == {(1, 1), (4, 4)}
    assert "ferry--dsl-50--http1-put-1999999B-at-1MBps" in {cell.id for cell in notes.cells}


def test_requests_are_cells_that_keep_nothing(notes: NotedSession) -> None:
    run_suite(REQUESTS, notes, {}, clients=["h2load"])
    assert {cell.expectation.kind for cell in notes.cells} == {"none"}
    assert [cell.id.removeprefix("h2load--link-local--") for cell in notes.cells] == [
        "h2-get-50000x10kB-p100-discard",
        "h2-get-50000x10kB-p6-discard",
        "http1-get-50000x10kB-p100-discard",
        "http1-get-50000x10kB-p6-discard",
    ]


def test_a_set_by_its_cells_name_promises_the_same() -> None:
    cells = named_cells(
        ["ferry--dsl-50--sftp-get-1000x20kB", "ferry--dsl-50--sftp-get-2x1MB", "curl--dsl-50--http1-get-1MB-at-1MBps"]
    )
    assert [cell.expectation.kind for cell in cells] == ["steady", "none", "limit"]


@pytest.mark.parametrize(
    ("verdict", "status"), [("PASS", "PASS"), ("FAIL", "FAIL"), ("INCONCLUSIVE", "SKIP"), ("INVALID", "FAIL")]
)
def test_a_studys_verdict_becomes_robots(notes: NotedSession, verdict: str, status: str) -> None:
    notes.verdict = verdict
    run_suite(BUFFERS, notes, {}, choice=Choice(tests=["Put, 20 ms"]))
    assert f"{verdict}: so it is [ferry--metro-200--sftp-put-64MiB--buffers]</status>" in notes.output
    assert f'<status status="{status}"' in notes.output
    for tag in (f"verdict:{verdict}", "direction:put", "protocol:sftp"):
        assert f"<tag>{tag}</tag>" in notes.output


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("Judge Buffer Sizes    client=x    topology=dsl-50    size=1 MB    buffers=1 MiB", "at least two buffer sizes"),
        ("Judge Buffer Sizes    client=x    topology=dsl-50    size=1 MB    buffers=1 MiB, much", "much"),
        ("Judge Buffer Sizes    client=x    topology=nowhere    size=1 MB    buffers=1 MiB, 2 MiB", "no topology called"),
        ("Judge Buffer Sizes    client=/    topology=dsl-50    size=1 MB    buffers=1 MiB, 2 MiB", "no name for a client"),
        ("Judge File Set    client=x    topology=dsl-50    files=0    size=1 MB", "no such transfer"),
    ],
)
def test_a_row_that_makes_no_sense_is_one_line(notes: NotedSession, tmp_path: Path, row: str, problem: str) -> None:
    suite = tmp_path / "bad.robot"
    suite.write_text(f"{SETTINGS}{row}\n")
    with pytest.raises(UsageProblem, match=problem) as found:
        run_suite(suite, notes, {})
    assert "\n" not in str(found.value)


def test_sizes_with_commas() -> None:
    assert Sizes.parse(" 16 KiB,1 MiB ") == (Size.parse("16 KiB"), Size.parse("1 MiB"))
    with pytest.raises(ValueError, match="size"):
        Sizes.parse("16 KiB,")


def test_a_suite_skips_what_its_client_cannot_do(notes: NotedSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_cell(cell: Cell) -> Any:
        if cell.transfer.direction == "put":
            raise NotSupported("aria2 cannot do it: aria2 does not upload")
        return notes.result(cell)

    monkeypatch.setattr(notes, "run_cell", run_cell)
    suite = tmp_path / "two.robot"
    rows = "Judge Cell    aria2--dsl-50--http1-put-1MB\nTwo\n    Judge Cell    aria2--dsl-50--http1-get-1MB\n"
    suite.write_text(f"{SETTINGS}{rows}")
    run_suite(suite, notes, {})
    assert 'status="SKIP"' in notes.output
    assert "aria2 cannot do it: aria2 does not upload" in notes.output
    assert [result.id for result in notes.results] == ["aria2--dsl-50--http1-get-1MB"]


def test_a_suite_whose_every_row_is_skipped_says_why(notes: NotedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_study(study: BufferStudy) -> Any:
        raise NotSupported(f"{study.client.name} has no buffers")

    monkeypatch.setattr(notes, "run_study", run_study)
    with pytest.raises(UsageProblem, match="wget has no buffers"):
        run_suite(BUFFERS, notes, {}, clients=["wget"])


def test_a_cell_asked_for_by_name_is_refused_before_anything_is_started() -> None:
    with pytest.raises(NotSupported, match="aria2 cannot do aria2--dsl-50--http1-put-1MB: aria2 does not upload"):
        named_cells(["aria2--dsl-50--http1-get-1MB", "aria2--dsl-50--http1-put-1MB"])


def test_a_cells_client_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "axel.yaml"
    path.write_text("name: axel\nprotocols: [http1]\nget: axel -o {output} {url}\n", encoding="utf-8")
    cells = named_cells(["axel--dsl-50--http1-get-1MB", "curl--dsl-50--http1-get-1MB"], ["curl", str(path)])
    assert [(cell.client.name, cell.client.program) for cell in cells] == [("axel", str(path)), ("curl", "curl")]
