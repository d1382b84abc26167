"""What a reader must find in the tables: figures by column, verdicts as words, nothing cut at 100 columns."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from lab.judge.interval import mean_interval
from lab.judge.tolerance import LookPlan, judge_samples, with_invalid
from lab.model.link import Link
from lab.model.results import Calibration, CellResult, count_line
from lab.model.transfer import Expectation
from reports.text import CalibrationRow, calibration_table, render_run

MakeCell = Callable[..., CellResult]
MakeCalibration = Callable[..., Calibration]


def shown(render: Callable[[Console], None], *, width: int = 100, terminal: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    render(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run_text(*cells: CellResult, path: Path | None = None, width: int = 100, terminal: bool = False) -> str:
    return shown(lambda console: render_run(cells, console, path), width=width, terminal=terminal)


def columns(text: str, first: str) -> list[list[str]]:
    """The rows under the heading that starts with `first`, split at two blanks or more."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.split()[:1] == [first])
    rows = []
    for line in lines:
        row = re.split(r"\s{2,}", line.strip())
        if len(row) < 6:
            break
        rows.append(row)
    return rows


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_what_was_skipped_is_counted_by_client_and_reason(make_cell: MakeCell) -> None:
    skipped = {f"aria2--dsl-50--http1-put-{size}": "aria2 does not upload" for size in ("1MB", "2MB")}
    skipped["curl@7.84.0--dsl-50--sftp-get-1MB"] = "it was built without sftp"
    lines = shown(lambda console: render_run([make_cell()], console, skipped=skipped)).splitlines()
    assert lines[-4:-1] == [
        "3 skipped:",
        "  2 of aria2: aria2 does not upload",
        "  1 of curl@7.84.0: it was built without sftp",
    ]
    assert "skipped" not in run_text(make_cell())


def test_what_is_asked_besides_a_limit_is_printed_in_its_own_unit(make_cell: MakeCell) -> None:
    expectation = Expectation(kind="memory")
    plain = make_cell()
    cell = plain.model_copy(update={"expectation": expectation, "verdict": judge_samples(plain.samples, expectation, LookPlan())})
    text = run_text(cell, plain)
    assert re.search(r" deviation +memory", text)
    assert columns(text, "#")[0][-1] == "12.0 MB"
    assert re.search(r"12\.0 MB +12\.0 MB to 12\.0 MB +5 +PASS", text[text.rindex("cell ") :])


def test_a_row_per_sample(make_cell: MakeCell) -> None:
    cell = make_cell()
    rows = columns(run_text(cell), "#")
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    limit = str(cell.transfer.limit)
    assert rows[1] == ["2", limit, "dsl-50", "5.253", "5242880", "0.998", "-0.20 %"]


def test_the_wire_and_the_link_are_printed(make_cell: MakeCell) -> None:
    text = squeezed(run_text(make_cell()))
    assert "worst 100 ms window 1.250 MB/s (1.25 x limit), longest gap 44 ms, 10 retransmits" in text
    assert "link before goodput down +0.04 % of ideal, up +0.04 % of ideal; RTT +0.12 ms of 20 ms asked" in text
    assert "link after goodput down -0.07 % of ideal, up -0.07 % of ideal; RTT +0.31 ms of 20 ms asked" in text


def test_two_rates_are_both_printed(make_cell: MakeCell) -> None:
    cell = make_cell()
    assert f"over dsl-50 ({cell.topology.link.rate}, RTT 20 ms)" in run_text(cell)
    link = Link.model_validate({"rate": "50 Mbit/s", "rtt": "20 ms", "up": {"rate": "10 Mbit/s"}})
    uneven = cell.model_copy(update={"topology": cell.topology.model_copy(update={"link": link})})
    assert "over dsl-50 (50 Mbit/s down, 10 Mbit/s up, RTT 20 ms)" in run_text(uneven)


def test_the_verdict_is_a_word_with_its_reason(make_cell: MakeCell) -> None:
    cell = make_cell()
    assert f"verdict PASS: {cell.verdict.reason}" in squeezed(run_text(cell))


def test_a_lab_fault_says_what_was_wrong_with_the_link(make_cell: MakeCell, make_calibration: MakeCalibration) -> None:
    cell = make_cell()
    assert cell.certificate is not None
    bad = make_calibration(-0.2, attempt=2).model_copy(update={"ok": False, "problems": ["down: goodput -20 % [of ideal]"]})
    certificate = cell.certificate.model_copy(update={"before": [make_calibration(-0.2), bad], "after": []})
    cell = cell.model_copy(update={"certificate": certificate, "verdict": with_invalid(cell.verdict, bad.problems)})
    text = squeezed(run_text(cell))
    assert "attempt 2; beyond tolerance: down: goodput -20 % [of ideal]" in text, "brackets are text, not markup"
    assert "verdict INVALID: the lab, not the client" in text
    assert "link after" not in text


def test_a_failed_transfer_is_a_row_with_its_problem(make_cell: MakeCell) -> None:
    text = run_text(make_cell(problem="exit code 18"))
    assert "failed: exit code 18" in squeezed(text)
    assert "0 PASS, 1 FAIL, 0 INCONCLUSIVE, 0 INVALID" in text


def test_a_transfer_without_a_limit_or_samples(make_cell: MakeCell) -> None:
    free = make_cell((None,) * 5, limited=False)
    assert columns(run_text(free), "#")[0][1] == "none"
    assert "worst 100 ms window 1.250 MB/s, longest gap" in squeezed(run_text(free))
    none = make_cell(()).model_copy(update={"certificate": None})
    assert "INCONCLUSIVE: 0 of the 5 samples" in squeezed(run_text(none))


def test_several_cells_end_in_an_overview(make_cell: MakeCell, tmp_path: Path) -> None:
    good, bad = make_cell(), make_cell((0.08, 0.081, 0.079, 0.08, 0.08), cell_id="ferry--dsl-20--sftp-put-1GiB-at-2MBps")
    path = tmp_path / ("long" * 30)
    text = run_text(good, bad, path=path)
    overview = text[text.rindex("cell ") :]
    assert re.search(r"curl--dsl-50\S+ +\+0.00 % +-0.23 to \+0.23 % +5 +PASS", overview)
    assert re.search(r"ferry--dsl-20\S+ +\+8.00 % +\+7.\d\d to \+8.\d\d % +5 +FAIL", overview)
    assert text.endswith(f"1 PASS, 1 FAIL, 0 INCONCLUSIVE, 0 INVALID\nresults: {path}\n"), "a path is never broken"


def test_a_long_name_folds_and_is_not_cut(make_cell: MakeCell) -> None:
    name = "client-" + "x" * 120 + "--dsl-50--http1"
    text = run_text(make_cell(cell_id=name), make_cell())
    overview = text[text.rindex("cell ") :]
    assert overview.count("x") == 120
    assert overview.count("PASS") == 3, "one per row and the count"
    assert "…" not in text


def test_colour_only_on_a_terminal(make_cell: MakeCell) -> None:
    assert "\x1b[" not in run_text(make_cell())
    assert "\x1b[1;32mPASS" in run_text(make_cell(), terminal=True)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_figure_survives_the_width(make_cell: MakeCell, width: int) -> None:
    text = run_text(make_cell(), width=width)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert len(columns(text, "#")) == 5


def test_count_line_has_every_word() -> None:
    assert count_line([]) == "0 PASS, 0 FAIL, 0 INCONCLUSIVE, 0 INVALID"
    assert count_line(["PASS", "INVALID", "PASS"]) == "2 PASS, 0 FAIL, 0 INCONCLUSIVE, 1 INVALID"


def test_calibration_table(make_calibration: MakeCalibration) -> None:
    link = Link.model_validate({"rate": "50 Mbit/s", "rtt": "20 ms"})
    errors, excess = [0.001, -0.0005, 0.0002], [0.1, 0.2, 0.12]
    looks = [make_calibration(error, ms) for error, ms in zip(errors, excess, strict=True)]
    text = shown(lambda console: calibration_table([CalibrationRow(link, looks)], console))
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith(str(link.rate))]
    assert [row[2] for row in rows] == ["up", "down"]
    error, rtt = mean_interval([100 * value for value in errors], 0.9), mean_interval(excess, 0.9)
    assert rows[0] == [
        str(link.rate),
        "20 ms",
        "up",
        "3",
        "47.811",
        "47.800",
        f"{error.mean:+.3f} ({error.low:+.3f} to {error.high:+.3f})",
        f"{rtt.mean:+.3f} ({rtt.low:+.3f} to {rtt.high:+.3f})",
    ]
    assert max(map(len, text.splitlines())) <= 100


def test_calibration_of_a_link_without_a_rate(make_calibration: MakeCalibration) -> None:
    link = Link.model_validate({"rtt": "0 ms"})
    text = shown(lambda console: calibration_table([CalibrationRow(link, [make_calibration(None)])], console))
    row = next(line for line in text.splitlines() if line.startswith("unshaped")).split()
    assert row == ["unshaped", "0", "ms", "up", "1", "47.800", "-", "-", "+0.120"]


@pytest.mark.parametrize("width", [80, 60, 40, 30])
def test_no_number_is_cut_on_a_narrow_terminal(make_cell: MakeCell, width: int) -> None:
    text = run_text(make_cell(), width=width)
    assert all(number in squeezed(text) for number in ("5.253", "5242880", "0.998", "-0.20 %"))
    assert "\u2026" not in text


def test_bytes_of_a_client_without_a_report_are_those_that_the_lab_counted(make_cell: MakeCell) -> None:
    cell = make_cell()
    samples = [
        each.model_copy(update={"client": each.client and each.client.model_copy(update={"bytes": None})})
        for each in cell.samples
    ]
    samples[0] = samples[0].model_copy(update={"client": None})
    samples[1] = samples[1].model_copy(update={"ok": False, "problem": "17 of 5242880 bytes arrived"})
    rows = columns(run_text(cell.model_copy(update={"samples": samples})), "#")
    assert [row[4] for row in rows] == ["5242880", "-", "5242880", "5242880", "5242880"]
