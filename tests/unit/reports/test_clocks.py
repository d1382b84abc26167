"""Pages, Markdown and JUnit name the clock, and hold nothing that virtual time does not know."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from lab.model.results import CellResult
from lab.store.stored_run import StoredRun
from reports.build import run_page
from reports.cells import SAMPLE_HEADINGS, CellView, sample_lines
from reports.junit import junit_xml
from reports.markdown import markdown_summary
from tests.support.virtual import GUEST, in_virtual_time, without_a_rate


@pytest.fixture
def found(throttle: StoredRun) -> StoredRun:
    """The stored run: its first cell in virtual time, the others in real time."""
    return replace(throttle, cells=[in_virtual_time(throttle.cells[0]), *throttle.cells[1:]])


def column(cell: CellResult, name: str) -> set[str]:
    at = [heading for heading, _ in SAMPLE_HEADINGS].index(name)
    return {line.words[at] for line in sample_lines(cell)}


def test_a_page_names_the_clock_of_each_cell_and_of_the_run(found: StoredRun, throttle: StoredRun) -> None:
    page = run_page(found)
    assert "<dt>time<dd>virtual and real" in page or "<dt>time</dt><dd>virtual and real</dd>" in page
    # A tag next to each cell; in the matrix as well, because the run has both.
    assert page.count('<span class="tag">virtual time</span>') == 2
    assert page.count('<span class="tag">real time</span>') == 2 * (len(found.cells) - 1)
    assert f"seed {GUEST.seed}, {GUEST.charge_ns} ns per system call" in page
    alone = run_page(throttle)
    assert alone.count('<span class="tag">real time</span>') == len(throttle.cells)
    assert "virtual" not in alone.partition("<main")[2]


def test_cpu_time_is_not_shown_in_virtual_time_and_memory_is(throttle: StoredRun) -> None:
    cell = throttle.cells[0]
    assert column(in_virtual_time(cell), "CPU s") == {"-"}
    assert "-" not in column(cell, "CPU s")
    assert column(in_virtual_time(cell), "RSS MB") == column(cell, "RSS MB")


def test_a_rate_that_nothing_limits_is_not_shown_in_virtual_time(throttle: StoredRun) -> None:
    cell = throttle.cells[0]
    expectation = type(cell.expectation).model_validate({"kind": "none", "tolerance": "5 %"})
    free = cell.model_copy(
        update={
            "topology": without_a_rate(cell.topology),
            "transfer": cell.transfer.model_copy(update={"limit": None}),
            "expectation": expectation,
            "verdict": cell.verdict.model_copy(update={"interval": None}),
        }
    )
    for name in ("body s", "MB/s", "process s", "fastest 100 ms MB/s"):
        assert column(in_virtual_time(free), name) == {"-"}
        assert "-" not in column(free, name)
    assert CellView(in_virtual_time(free), "x", None).told == ("-", "")
    assert '<figure class="goodput">' not in run_page(replace(throttle, cells=[in_virtual_time(free)]))


def test_junit_has_the_clock_of_each_case(found: StoredRun) -> None:
    root = ET.fromstring(junit_xml(found))
    told = [case.find("properties/property[@name='clock']") for case in root.iter("testcase")]
    assert [each.get("value") for each in told if each is not None] == ["virtual", "real", "real"]


def test_the_summary_names_the_clocks(found: StoredRun, throttle: StoredRun) -> None:
    assert "virtual time and real time" in markdown_summary(found)
    assert "virtual time&#41;</code>" in markdown_summary(found)
    line = next(line for line in markdown_summary(throttle).splitlines() if "· run" in line)
    assert line.endswith(" · real time")
    assert "real time&#41;" not in markdown_summary(throttle)
