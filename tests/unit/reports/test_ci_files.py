"""What a CI reads: JUnit XML and the Markdown of a pull request; and the command that writes them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import report
from lab.model.errors import LabFault, UsageProblem
from lab.model.results import RunRecord
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun
from reports import files
from reports.build import run_page
from reports.junit import junit_xml
from reports.markdown import MOST_CHARACTERS, markdown_summary
from tests.unit.store.conftest import MakeCell

# JUnit's schema as Jenkins and Ant share it: which attributes must and which may be, and what may be inside.
RULES: dict[str, tuple[set[str], set[str], tuple[str, ...]]] = {
    "testsuites": ({"name"}, {"tests", "failures", "errors", "skipped", "time"}, ("testsuite",)),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped"},
        {"time", "timestamp", "hostname"},
        ("properties", "testcase"),
    ),
    "properties": (set(), set(), ("property",)),
    "property": ({"name", "value"}, set(), ()),
    "testcase": ({"name", "classname"}, {"time"}, ("properties", "skipped", "error", "failure")),
    "failure": ({"message", "type"}, set(), ()),
    "error": ({"message", "type"}, set(), ()),
    "skipped": ({"message"}, set(), ()),
}


def check(text: str) -> ET.Element:
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, inside = RULES[element.tag]
        assert must <= set(element.attrib) <= must | may, element.tag
        assert [child.tag for child in element] == sorted((child.tag for child in element), key=inside.index)
    cases = root.findall(".//testcase")
    for suite in (root, root[0]):
        assert int(suite.attrib["tests"]) == len(cases)
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[key]) == len(root.findall(f".//testcase/{tag}"))
    assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)
    return root


def test_one_case_per_cell_with_its_figures(throttle: StoredRun) -> None:
    root = check(junit_xml(throttle))
    found = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert set(found) == {cell.id for cell in throttle.cells}
    for cell in throttle.cells:
        told = [child for child in found[cell.id] if child.tag != "properties"]
        outcome = {"PASS": [], "FAIL": ["failure"], "INVALID": ["error"], "INCONCLUSIVE": ["skipped"]}[cell.verdict.name]
        assert [child.tag for child in told] == outcome
        assert all(cell.verdict.reason in child.attrib["message"] for child in told)
        figures = {each.attrib["name"]: each.attrib["value"] for each in found[cell.id].iter("property")}
        assert cell.verdict.interval is not None
        assert float(figures["mean"]) == cell.verdict.interval.mean


def test_a_baseline_is_never_red(qualify: StoredRun) -> None:
    root = check(junit_xml(qualify))
    assert root.findall(".//testcase/failure") == []
    assert any("baseline" in each.attrib["message"] for each in root.iter("skipped"))


def test_findings_are_cases(quirks: StoredRun) -> None:
    root = check(junit_xml(quirks))
    assert {case.attrib["name"] for case in root.iter("testcase")} == {finding.id for finding in quirks.answers}


def test_skipped_and_unreadable_are_cases_and_hostile_words_stay_words(hostile: StoredRun) -> None:
    root = check(junit_xml(hostile))
    assert [case[-1].tag for case in root.iter("testcase")] == ["failure", "skipped", "error"]
    assert "<script>" in root.findall(".//failure")[0].attrib["message"]


def test_the_summary_has_what_did_not_pass_first_and_folds_the_rest(throttle: StoredRun) -> None:
    text = markdown_summary(throttle)
    assert text.startswith("## ✕ **FAIL**: ")
    assert text.index("✕ **FAIL** |") < text.index("<details>") < text.index("● **PASS** |") < text.index("</details>")
    for cell in throttle.cells:
        assert cell.id in text


def test_the_summary_of_many_cells_stays_below_the_limit(throttle: StoredRun) -> None:
    cells = [throttle.cells[at % 3].model_copy(update={"id": f"{throttle.cells[at % 3].id}--{at}"}) for at in range(900)]
    run = StoredRun(path=throttle.path, cells=cells)
    text = markdown_summary(run)
    assert len(text) < MOST_CHARACTERS
    more = re.search(r"… and ([0-9]+) more", text)
    assert more is not None
    assert text.count("<details>") == text.count("</details>")
    assert text.count("| <code>") + sum(map(int, re.findall(r"… and ([0-9]+) more", text))) == 900


def test_hostile_words_of_a_summary_stay_text(hostile: StoredRun) -> None:
    text = markdown_summary(hostile)
    assert "<script" not in text
    assert "<img" not in text
    assert "@here" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {3, 4}


def test_a_summary_without_results_has_no_verdict(tmp_path: Path) -> None:
    assert "This run is not complete" in markdown_summary(StoredRun(path=tmp_path))


# ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.callback()(lambda: None)
    report.register(made)
    return made


@pytest.fixture
def run(make_cell: MakeCell, record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    folder = RunDir.create("throttle")
    folder.write_cell(make_cell())
    folder.write_run(record)
    return folder


def test_report_writes_the_latest_runs_page_into_its_folder(app: typer.Typer, run: RunDir) -> None:
    found = CliRunner().invoke(app, ["report"])
    assert found.exit_code == 0, found.output
    assert (run.path / "report.html").read_text().startswith("<!doctype html>")
    assert "report.html" in found.stdout
    assert not list(run.path.glob(".report*"))


def test_report_writes_what_a_ci_reads(app: typer.Typer, run: RunDir, tmp_path: Path) -> None:
    page, xml, summary = tmp_path / "p.html", tmp_path / "j.xml", tmp_path / "s.md"
    args = ["report", str(run.path), "--output", str(page), "--junit", str(xml), "--markdown", str(summary)]
    found = CliRunner().invoke(app, args)
    assert found.exit_code == 0, found.output
    check(xml.read_text())
    assert page.exists()
    assert summary.read_text().startswith("## ")
    assert not (run.path / "report.html").exists()


def test_the_summary_alone_is_on_stdout(app: typer.Typer, run: RunDir) -> None:
    found = CliRunner().invoke(app, ["report", "--markdown", "-"])
    assert found.stdout.startswith("## ")
    assert "report:" not in found.stdout


def test_a_file_that_cannot_be_read_is_one_line_and_the_rest_is_shown(app: typer.Typer, run: RunDir) -> None:
    (run.cells / "torn.json").write_text('{"schema_version": "1.')
    (run.cells / "newer.json").write_text('{"schema_version": "9.0"}')
    found = CliRunner().invoke(app, ["report"])
    assert found.exit_code == 0, found.output
    lines = found.stderr.splitlines()
    assert sum("torn.json" in line for line in lines) == 1
    assert sum("newer.json" in line for line in lines) == 1
    page = (run.path / "report.html").read_text()
    assert "torn.json" in page
    assert "newer.json" in page
    assert "curl--dsl-50" in page


@pytest.mark.parametrize("option", ["--output", "--junit", "--markdown"])
def test_a_folder_cannot_be_overwritten(app: typer.Typer, run: RunDir, tmp_path: Path, option: str) -> None:
    found = CliRunner().invoke(app, ["report", option, str(tmp_path)])
    assert isinstance(found.exception, UsageProblem)


def test_a_place_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(LabFault, match="cannot be written"):
        files.write_text(tmp_path / "not" / "there.html", "x")
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        files.write_text(page, "\ud800")
    assert page.read_text() == "old"
    assert list(tmp_path.iterdir()) == [page]


def test_after_a_run_all_three_are_there(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    files.make_reports(run)
    assert {"report.html", "junit.xml", "summary.md"} <= {path.name for path in run.path.iterdir()}
    assert "report.html" in capsys.readouterr().err


def test_a_report_that_fails_raises_nothing(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug\nof two lines")

    monkeypatch.setattr(files, "write_all", fail)
    files.make_reports(run)
    told = capsys.readouterr().err
    assert "ValueError: a bug of two lines" in told
    assert len(told.splitlines()) == 1


def test_the_run_of_a_page_is_read_from_its_folder_alone(throttle: StoredRun) -> None:
    renamed = replace(throttle, path=throttle.path.with_name("another"))
    assert "another" in markdown_summary(renamed)


def test_a_cell_that_was_not_asked_has_its_own_reason(throttle: StoredRun) -> None:
    """The clock may be the reason as well as the client."""
    why = "nothing limits this transfer but the machine itself"
    assert throttle.record is not None
    record = throttle.record.model_copy(update={"skipped": {"mine--lan--http1-get-5MiB": why}})
    run = replace(throttle, record=record)
    (case,) = [each for each in check(junit_xml(run)).iter("testcase") if each.attrib["name"].startswith("mine--")]
    assert case[-1].attrib["message"] == f"not asked: {why}"
    assert "client cannot do it" not in run_page(run)
