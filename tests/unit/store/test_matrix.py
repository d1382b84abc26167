"""Cells of several runs as one table: where each cell is, why others are missing, and what a page can quote."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from rich.console import Console

from lab.judge.tolerance import LookPlan, judge_samples, with_invalid
from lab.model.answer import Answer, Arm
from lab.model.cell_name import format_cell_name
from lab.model.figures import FIGURES
from lab.model.matrix import Matrix
from lab.model.results import Calibration, CellResult, Interval, Verdict
from lab.model.transfer import Expectation, Transfer
from lab.model.units import Ratio
from reports.matrix import make_matrix
from reports.matrix_table import expectation_words, matrix_markdown, render_matrix
from tests.unit.store.conftest import stored_run

MakeCell = Callable[..., CellResult]
MakeCalibration = Callable[..., Calibration]
QUIET = (0.001, -0.002, 0.0, 0.002, -0.001)
TWICE = tuple(1.994 + each for each in QUIET)
REST = "dsl-50--http1-get-5MiB-at-1MBps"


@pytest.fixture
def cell(make_cell: MakeCell) -> Callable[..., CellResult]:
    """A cell of any client; its id is made of what it is."""

    def make(
        client: str = "curl",
        deviations: tuple[float, ...] = QUIET,
        *,
        later: timedelta = timedelta(0),
        transfer: Transfer | None = None,
        expectation: Expectation | None = None,
        **more: object,
    ) -> CellResult:
        plain = make_cell(deviations, **more)
        meant, expected = transfer or plain.transfer, expectation or plain.expectation
        update = {
            "id": format_cell_name(client, plain.topology.name, meant, expected.named),
            "client": plain.client.model_copy(update={"name": client, "version": f"{client} 1.2"}),
            "transfer": meant,
            "expectation": expected,
            "started_at": plain.started_at + later,
            "ended_at": plain.ended_at + later,
        }
        if expectation:
            update["verdict"] = judge_samples(plain.samples, expectation, LookPlan())
        return plain.model_copy(update=update)

    return make


def study(cell: CellResult, *, left_out: dict[str, str] | None = None) -> Answer:
    return Answer(
        id=f"{cell.client.name}--dsl-50--sftp-put-1MB--buffers",
        run=cell.run,
        lab_version=cell.lab_version,
        client=cell.client,
        topology=cell.topology,
        transfer=Transfer.model_validate({"protocol": "sftp", "direction": "put", "size": "1 MB"}),
        question="buffer-sizes",
        clocks=["real"],
        bound=Ratio(0.9),
        rate_clock="client",
        ratio=Interval(n=5, mean=0.97, low=0.95, high=0.99, confidence=0.9),
        arms=[Arm(name="4 KiB", cell=cell.id, byte_s=[5e6] * 5, mean_byte_s=5e6)],
        order=["4 KiB"] * 5,
        skipped=left_out or {},
        verdict=Verdict(name="PASS", reason="-", interval=Interval(n=5, mean=0.97, low=0.95, high=0.99, confidence=0.9)),
        started_at=cell.started_at,
        ended_at=cell.ended_at,
    )


def markdown_tables(found: Matrix) -> dict[str, list[list[str]]]:
    """By heading, the rows; the first is the table's own heading."""
    tables: dict[str, list[list[str]]] = {}
    heading = ""
    for line in matrix_markdown(found).splitlines():
        if line.startswith("### "):
            heading = line[4:]
        elif line.startswith("| "):
            tables.setdefault(heading, []).append([part.strip() for part in line.strip("|").split(" | ")])
    return tables


def notes_of(found: Matrix) -> list[str]:
    return [line for line in matrix_markdown(found).splitlines() if line.startswith("- [")]


def text_of(found: Matrix) -> str:
    console = Console(file=io.StringIO(), width=1000)
    render_matrix(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_row_per_transfer_and_a_column_per_client(cell: Callable[..., CellResult]) -> None:
    found = make_matrix([stored_run("one", [cell(), cell("curl@8.4.0", TWICE)])])
    head, row = markdown_tables(found)["Verdicts"]
    assert head == ["link", "transfer", "expected", "curl", "curl@8.4.0"]
    assert row[:3] == ["dsl-50", "http1-get-5MiB-at-1MBps", "limit ± 5 %"]
    assert re.fullmatch(r"PASS \+0\.00 % \(-0\.\d\d to \+0\.\d\d %\), n=5", row[3])
    assert re.fullmatch(r"FAIL \+199\.4\d % \(\+\d+\.\d\d to \+\d+\.\d\d %\), n=5", row[4])
    assert found.verdicts == {"PASS": 1, "FAIL": 1, "INCONCLUSIVE": 0, "INVALID": 0}


def test_what_is_expected_makes_a_row_of_its_own(cell: Callable[..., CellResult]) -> None:
    burst = cell(expectation=Expectation(kind="memory"))
    strict = cell("ferry", expectation=Expectation(tolerance=Ratio(0.01)))
    rows = markdown_tables(make_matrix([stored_run("one", [cell(), burst, strict])]))["Verdicts"][1:]
    assert [row[2] for row in rows] == ["limit ± 5 %", "memory at most 64 MiB", "limit ± 1 %"]
    assert rows[1][3] == "PASS 12.0 MB (12.0 MB to 12.0 MB), n=5"
    assert [bool(row[3]) for row in rows] == [True, True, False]


@pytest.mark.parametrize(
    ("expectation", "words"),
    [
        ({"kind": "steady", "tolerance": "5 %"}, "steady + 5 %"),
        ({"kind": "none"}, "arrives intact"),
        ({"kind": "burst"}, "burst at most 1.5"),
        ({"kind": "fill"}, "fill at least 0.8"),
    ],
)
def test_expectations_in_words(expectation: dict[str, str], words: str) -> None:
    assert expectation_words(Expectation.model_validate(expectation)) == words


def test_the_newest_of_a_cell_is_taken_and_that_is_said(cell: Callable[..., CellResult]) -> None:
    old, new = cell(), cell(deviations=TWICE, later=timedelta(days=1))
    for order in ([stored_run("old", [old]), stored_run("new", [new])], [stored_run("new", [new]), stored_run("old", [old])]):
        found = make_matrix(order)
        assert [head.run for head in found.runs] == ["old", "new"]
        entry = found.rows[0].cells["curl"]
        assert (entry.run, entry.verdict) == ("new", "FAIL")
        assert found.notes == ["1 cell is in old and new: shown as in new, the newest"]


def test_a_failed_transfer_and_a_lab_at_fault_are_footnotes(cell: Callable[..., CellResult]) -> None:
    invalid = cell("ferry")
    invalid = invalid.model_copy(update={"verdict": with_invalid(invalid.verdict, ["after: goodput | -20 %"])})
    found = make_matrix([stored_run("one", [cell(problem="exit code 18"), invalid])])
    row = markdown_tables(found)["Verdicts"][1]
    assert row[3] == "FAIL n=6 [1]"
    assert row[4].startswith("INVALID +0.00 % (")
    assert row[4].endswith("n=5 [2]")
    notes = notes_of(found)
    assert "exit code 18" in notes[0]
    assert "the lab, not the client: after: goodput \\| -20 %" in notes[1]


def test_skipped_cells_have_their_reason_and_unasked_ones_are_empty(cell: Callable[..., CellResult]) -> None:
    skipped = {
        f"curl@7.84.0--{REST}": "built without it",
        f"aria2--{REST}": "built without it",
        "wget--dsl-20--http1-put-1MB": "wget does not upload",
    }
    found = make_matrix([stored_run("one", [cell(), cell("ferry", expectation=Expectation(kind="memory"))], skipped=skipped)])
    rows = markdown_tables(found)["Verdicts"]
    assert rows[0][3:] == ["curl", "ferry", "curl@7.84.0", "aria2"]
    assert rows[1][4:] == ["", "- [1]", "- [1]"]
    assert rows[2][5:] == ["", ""], "another expectation is another cell"
    assert notes_of(found) == ["- [1] built without it"]
    assert found.notes == ["wget--dsl-20--http1-put-1MB was not run: wget does not upload"]
    assert matrix_markdown(found).splitlines()[-1].endswith("; 2 skipped")


def test_a_cell_that_another_run_measured_is_not_skipped(cell: Callable[..., CellResult]) -> None:
    found = make_matrix([stored_run("one", [cell("ferry")], skipped={f"curl--{REST}": "no"}), stored_run("two", [cell()])])
    assert found.rows[0].skipped == {}
    assert [*found.rows[0].cells] == ["ferry", "curl"]


def test_without_an_interval_the_speed_is_printed(cell: Callable[..., CellResult]) -> None:
    transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "5 MiB"})
    free = cell(transfer=transfer, expectation=Expectation(kind="none"))
    assert markdown_tables(make_matrix([stored_run("one", [free])]))["Verdicts"][1][2:] == [
        "arrives intact",
        "PASS 1.000 MB/s n=5",
    ]


def test_figures_are_tables_of_mean_least_and_greatest(cell: Callable[..., CellResult]) -> None:
    tables = markdown_tables(make_matrix([stored_run("one", [cell()])], [*FIGURES]))
    assert len(tables) == 1 + len(FIGURES)
    told = {title.split(":")[0]: rows[1][3] for title, rows in tables.items() if title != "Verdicts"}
    assert told["Body rate, MB/s"] == "1.000 (0.998 to 1.002)"
    assert told["Deviation from the limit, %"] == "+0.00 (-0.20 to +0.20)"
    assert told["Fastest 100 ms, once begun, over what the limit allows"] == "0.20 (0.20 to 0.20)"
    assert told["Longest silence, ms"] == "42 (40 to 44)"
    assert told["CPU seconds per second"] == "0.006 (0.006 to 0.006)"
    assert told["Peak memory, MB"] == "12.0 (12.0 to 12.0)"
    assert told["Time to the first byte, ms"] == "-", "this client does not tell"
    assert told["Requests per second"] == "-"


def test_figures_are_of_successful_transfers_only(cell: Callable[..., CellResult]) -> None:
    broken = cell(problem="exit code 18")
    entry = make_matrix([stored_run("one", [broken])], ["rate"]).rows[0].cells["curl"]
    assert entry.figures["rate"].n == len(broken.samples) - 1 == 5


def test_the_head_says_what_the_figures_rest_on(cell: Callable[..., CellResult], make_calibration: MakeCalibration) -> None:
    one, other = cell(), cell("ferry", later=timedelta(hours=1))
    assert other.certificate
    look = make_calibration(-0.004, -0.6).model_copy(update={"at": one.ended_at + timedelta(hours=2)})
    other = other.model_copy(update={"certificate": other.certificate.model_copy(update={"after": [look]})})
    source = stored_run("one", [one, other], revision="0123456789abcdef")
    found = make_matrix([source])
    assert found.calibration
    # before and after of the fixture bear one instant
    assert found.calibration.looks == 2
    assert found.calibration.worst_error == {"up": -0.004, "down": -0.004}
    head = matrix_markdown(found).split("\n\n")[0]
    assert "- run: one, 2026-01-02 03:04 to 04:05 UTC, Roughwater 0.1.0, revision 0123456789ab\n" in head
    assert "- router: User-Mode Linux\n" in head
    assert "- link: dsl-50: 50 Mbit/s, RTT 20 ms\n" in head
    assert "goodput up -0.40 % and down -0.40 % of ideal at worst; RTT -0.60 ms" in head
    assert "- client ferry: ferry 1.2" in head
    assert "not complete" not in head
    cut = make_matrix([stored_run("one", [one], finished=False)])
    assert "not complete" in matrix_markdown(cut)


def test_studies_have_a_table_of_settings_and_their_cells_no_row(cell: Callable[..., CellResult]) -> None:
    plain, arm = cell("ferry"), cell("curl")
    studies = [study(arm, left_out={"1 MiB": "curl has no such setting"})]
    source = stored_run("one", [plain, arm], studies, skipped={"wget--dsl-50--sftp-put-1MB--buffers": "wget does not speak sftp"})
    found = make_matrix([source])
    assert [[*row.cells] for row in found.rows] == [["ferry"]]
    tables = markdown_tables(found)
    rows = tables[next(title for title in tables if title.startswith("dsl-50, sftp-put-1MB"))]
    assert rows == [
        ["buffer size", "curl", "wget"],
        ["4 KiB", "5.000", "- [1]"],
        ["1 MiB", "- [2]", "- [1]"],
        ["verdict", "PASS 0.970 (0.950 to 0.990), n=5", "-"],
    ]
    assert found.verdicts["PASS"] == 2


def test_text_says_the_same_and_nothing_is_cut(cell: Callable[..., CellResult]) -> None:
    clients = [f"curl@8.{minor}.0" for minor in range(9)]
    found = make_matrix([stored_run("one", [cell(client) for client in clients], skipped={f"aria2--{REST}": "no"})], ["rate"])
    text = text_of(found)
    assert "…" not in text
    assert text.count("PASS") == len(clients) + 1, "one each, and the count"
    assert all(client in text for client in clients)
    assert text.splitlines()[-1] == "9 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID; 1 skipped"
