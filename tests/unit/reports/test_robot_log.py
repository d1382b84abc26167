"""What Robot's log shows of a cell: its message as text and its plot, without executing a client's text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.robot import current
from lab.robot.suite import read_suites, run_suite
from lab.store.stored_run import StoredRun
from reports.cells import log_html
from tests.unit.reports.conftest import HOSTILE
from tests.unit.store.conftest import MakeCell


def test_the_plot_brings_its_own_colours_and_is_one_line(make_cell: MakeCell) -> None:
    text = log_html(make_cell(), "PASS: it is")
    svg = ET.fromstring(text[text.index("<svg") :])
    assert svg.attrib["width"]
    assert "<style>" in text
    assert "\n" not in text


def test_hostile_words_stay_words(hostile: StoredRun) -> None:
    text = log_html(hostile.cells[0], HOSTILE)
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.parametrize("name", ["PASS", "FAIL", "INCONCLUSIVE"])
def test_the_log_of_a_run_has_the_plot(make_cell: MakeCell, tmp_path: Path, name: str) -> None:
    deviations = {"PASS": (0.0, 0.001, -0.001, 0.0, 0.001), "FAIL": (0.2, 0.21, 0.2, 0.19, 0.2), "INCONCLUSIVE": (0.0, 0.01)}
    cell = make_cell(deviations[name])
    assert cell.verdict.name == name
    session: Any = SimpleNamespace(
        run=SimpleNamespace(path=tmp_path),
        results=[cell],
        answers=[],
        found_something=True,
        options=SimpleNamespace(flamegraph=None, syscalls=False, clock="real"),
        run_cell=lambda _: cell,
        noting_skip=lambda _: nullcontext(),
    )

    suite = tmp_path / "one.robot"
    suite.write_text(
        f"*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n*** Test Cases ***\nOne\n    Judge Cell    {cell.id}\n"
    )
    assert current.get() is None
    run_suite(read_suites([suite]), session)
    output = (tmp_path / "robot" / "output.xml").read_text()
    assert "&lt;svg" in output
    assert "svg" not in (tmp_path / "robot" / "xunit.xml").read_text()
