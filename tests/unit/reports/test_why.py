"""What held a cell's samples back, in the terminal and on its page."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from lab.model.diagnosis import Cause, Diagnosis
from lab.model.results import CellResult
from lab.store.stored_run import StoredRun
from reports.build import run_page
from reports.text import render_cell

LINE, LOSS = "limited by the line: 2.33 MB/s, with it full for 92 % of the time", "limited by loss: 3 of 400 segments"


def watched(cell: CellResult, *causes: tuple[Cause, str] | None) -> CellResult:
    """The cell with one sample for each cause; None for a sample that was not watched."""
    found = [Diagnosis(cause=each[0], share=0.9, sentence=each[1]) if each else None for each in causes]
    return cell.model_copy(
        update={"samples": [cell.samples[0].model_copy(update={"why": why, "index": at}) for at, why in enumerate(found)]}
    )


def printed(cell: CellResult) -> str:
    screen = io.StringIO()
    render_cell(cell, Console(file=screen, width=200))
    return screen.getvalue()


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([("line", LINE)], LINE),
        ([("loss", LOSS), ("line", LINE), ("line", LINE)], f"{LINE} (2 of 3 samples)"),
        ([None, ("line", LINE)], LINE),
    ],
    ids=("one", "the most frequent", "only one was watched"),
)
def test_one_line_for_all_samples(throttle: StoredRun, causes: list[tuple[Cause, str] | None], expected: str) -> None:
    (line,) = (line for line in printed(watched(throttle.cells[0], *causes)).splitlines() if line.startswith("  why "))
    assert line.split(maxsplit=1)[1].strip() == expected


def test_no_line_where_nothing_was_watched(throttle: StoredRun) -> None:
    assert "why " not in printed(watched(throttle.cells[0], None))


def test_the_page_has_it(throttle: StoredRun) -> None:
    cell = watched(throttle.cells[0], ("line", LINE))
    assert LINE in run_page(replace(throttle, cells=[cell]))
    assert "why this speed" not in run_page(throttle)
