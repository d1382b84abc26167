"""Reports leave the machine complete, and only into the project."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.model.errors import LabFault
from lab.run.project.reports import chosen, own_junit, write_into


def test_reports_are_chosen_by_their_names_or_paths() -> None:
    names = [
        "build/TEST-a.xml",
        "core/target/surefire-reports/x.xml",
        "cov/index.html",
        "deep/my-junit-1.xml",
        "notes.xml",
        "target/surefire-reports/x.xml",
    ]
    usual = [name for name in names if name not in ("cov/index.html", "notes.xml")]
    assert chosen(names, ()) == usual
    assert chosen(names, ("./cov/*",)) == sorted([*usual, "cov/index.html"])
    assert chosen(["sub/cov/a"], ("cov/*",)) == []


def test_a_report_is_written_and_its_folders_are_made(tmp_path: Path) -> None:
    write_into(tmp_path, "a/b/junit.xml", b"first")
    write_into(tmp_path, "a/b/junit.xml", b"second")
    assert (tmp_path / "a/b/junit.xml").read_bytes() == b"second"
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["junit.xml"]


def test_no_link_is_followed_or_replaced(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (elsewhere / "junit.xml").write_text("mine")
    (project / "reports").symlink_to(elsewhere)
    (project / "junit.xml").symlink_to(elsewhere / "junit.xml")
    for name in ("reports/junit.xml", "junit.xml"):
        with pytest.raises(LabFault, match="link"):
            write_into(project, name, b"theirs")
    assert (elsewhere / "junit.xml").read_text() == "mine"
    assert (project / "junit.xml").is_symlink()


@pytest.mark.parametrize("name", ["../junit.xml", "a/../../junit.xml"])
def test_no_path_leads_out_of_the_project(name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "a").mkdir(parents=True)
    with pytest.raises(LabFault, match="not below"):
        write_into(project, name, b"x")
    assert not (tmp_path / "junit.xml").exists()


def test_a_report_of_the_labs_own_is_one_error_with_the_last_line() -> None:
    root = ElementTree.fromstring(own_junit("pytest -k 'a<b'", "the limit", "test_x \x1b[31m&", 12.5))
    assert root.attrib["errors"] == "1"
    case = root.find("./testsuite/testcase")
    assert case is not None
    assert case.attrib["name"] == "pytest -k 'a<b'"
    error = case.find("error")
    assert error is not None
    assert error.attrib["message"] == "the limit"
    assert (error.text or "").endswith("test_x ?[31m&")
