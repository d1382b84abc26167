"""The pytest plugin as a project uses it: pytest in a process of its own, which finds it by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.docs.run_pages import blocks
from tests.support.entry_points import ROOT, entry_points

EXAMPLE = ROOT / "docs" / "examples" / "pytest"
PAGE = ROOT / "docs" / "how-to" / "pytest.md"


class Project:
    """A folder with tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        self._python_path = os.pathsep.join([str(ROOT), str(entry_points(folder / "metadata"))])

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        results = str(self.folder / "results")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": self._python_path,
                "ROUGHWATER_RESULTS": results,
                "NO_COLOR": "1",
                "COLUMNS": "120",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def copy_example(project: Project) -> None:
    for path in EXAMPLE.glob("*.py"):
        project.write(path.name, path.read_text(encoding="utf-8"))


def test_the_example_project_passes_and_leaves_its_cell(project: Project) -> None:
    copy_example(project)
    done = project.run()
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
    (run,) = (path for path in (project.folder / "results").iterdir() if not path.is_symlink())
    assert f"lab: results: {run}" in done.stdout
    assert json.loads((run / "run.json").read_text())["verdicts"] == {
        "curl--link-rate-50-mbit-s-rtt-20-ms--http1-put-2MB-at-1MBps": "PASS"
    }
    assert (run / "report.html").is_file()


def test_the_page_shows_the_example_project() -> None:
    shown = {block.notes["file"]: block.body for block in blocks(PAGE) if "file" in block.notes}
    for path in EXAMPLE.glob("*.py"):
        assert shown[path.name] == path.read_text(encoding="utf-8")


def test_an_uploader_that_begins_again_fails_and_the_report_has_what_crossed_the_link(project: Project) -> None:
    copy_example(project)
    text = (EXAMPLE / "uploader.py").read_text(encoding="utf-8")
    project.write("uploader.py", text.replace("256 * 1024", "2048 * 1024"))
    test = (EXAMPLE / "test_uploader.py").read_text(encoding="utf-8")
    project.write(
        "test_uploader.py", test.replace('b"".join(lab_server.uploaded(f"film.bin.{number:04}") for number in range(8))', "FILM")
    )
    done = project.run("-k", "resumes")
    assert done.returncode == 1
    assert "it began again instead of going on" in done.stdout
    captured = done.stdout.partition("Captured lab call")[2]
    assert "exit code 0 after" in captured
    assert "bytes up" in captured


SEEDED = """
import pytest

@pytest.mark.lab_link("lte", loss="2 %")
def test_one(lab_server, lab_transfer):
    done = lab_transfer(["curl", "-sS", "-f", "-o", "got", lab_server.offer("200 kB").http])
    assert done.exit_code == 0
    assert done.down.payload_bytes >= 200_000
    print("took", done.seconds, done.down.wire_bytes)
"""


def test_a_seed_gives_the_same_seconds_and_bytes_and_another_seed_others(project: Project) -> None:
    project.write("test_seeded.py", SEEDED)
    took = [
        next(line for line in project.run("-s", *words).stdout.splitlines() if "took" in line)
        for words in ([], [], ["--lab-seed", "5"])
    ]
    assert took[0] == took[1]
    assert took[0] != took[2]


VERDICTS = """
import pytest

@pytest.mark.lab_link("dsl-20")
def test_fail(assert_limit_kept):
    client = {"name": "deaf", "program": "curl", "version": ["--version"], "protocols": ["http1"],
              "get": "curl -s -o {output} {url}", "limit": "--connect-timeout {limit}"}
    assert_limit_kept(client, limit="1 MB/s", size="1 MB")

@pytest.mark.lab_link("dsl-20")
def test_not_supported(assert_limit_kept):
    client = {"name": "getter", "program": "curl", "version": ["--version"], "protocols": ["http1"],
              "get": "curl -o {output} {url}"}
    assert_limit_kept(client, limit="1 MB/s", direction="put")

@pytest.mark.lab_link("dsl-20")
def test_invalid(assert_limit_kept):
    assert_limit_kept("curl", limit="4 MB/s", size="1 MB")

@pytest.mark.lab_link("dsl-20")
def test_too_late(lab_link, lab_transfer):
    lab_link.cut("1 s", after="30 s")
    lab_transfer(["true"])

def test_undecided():
    from lab.testing.limits import Undecided
    raise Undecided("INCONCLUSIVE: the interval straddles the band")

def test_no_network(lab_transfer):
    pass

@pytest.mark.lab_link("dsl-20", lost="3 %")
def test_no_such_setting(lab_transfer):
    pass
"""


def outcomes(file: Path) -> dict[str, tuple[str, str]]:
    """Each test in the JUnit file: the kind of its outcome, and the message."""
    found = {}
    for case in ET.parse(file).iter("testcase"):
        child = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        found[case.get("name", "")] = (
            (child.tag, child.get("message", "") + (child.text or "")) if child is not None else ("", "")
        )
    return found


def test_no_verdict_is_neither_a_pass_nor_a_failure_of_the_client(project: Project) -> None:
    project.write("test_verdicts.py", VERDICTS)
    done = project.run("--junit-xml", "junit.xml")
    assert done.returncode == 1
    assert "1 failed, 1 skipped, 2 errors, 2 invalid, 1 inconclusive" in done.stdout
    section = done.stdout.partition("INVALID: no verdict on the client")[2]
    assert ": INVALID: the lab, not the client: the link carries" in section
    assert "before the link could change after 30 s" in section
    found = outcomes(project.folder / "junit.xml")
    assert found["test_fail"][0] == "failure"
    assert "FAIL: mean" in found["test_fail"][1]
    assert found["test_not_supported"][0] == "skipped"
    assert "no network is given for this test (@pytest.mark.lab_link(" in found["test_no_network"][1]
    assert "a link has no 'lost'; did you mean 'loss'?" in found["test_no_such_setting"][1]


def test_no_verdict_is_a_skip_with_its_reason_where_that_is_asked_for(project: Project) -> None:
    project.write("test_verdicts.py", VERDICTS)
    done = project.run("--lab-no-verdict", "skip", "--junit-xml", "junit.xml", "-k", "undecided or too_late")
    assert done.returncode == 0, done.stdout
    found = outcomes(project.folder / "junit.xml")
    assert found["test_undecided"][0] == found["test_too_late"][0] == "skipped"
    assert "INCONCLUSIVE: the interval straddles the band" in found["test_undecided"][1]


LOADED = """
import sys

def pytest_sessionfinish():
    rooms = ("lab", "reports", "pydantic", "scipy", "robot")
    print("loaded", sorted(name for name in sys.modules if name.split(".")[0] in rooms))
"""


def test_a_project_that_does_not_use_it_does_not_load_the_lab(project: Project) -> None:
    project.write("conftest.py", LOADED)
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    done = project.run("-s")
    assert done.returncode == 0, done.stdout
    assert "loaded ['lab', 'lab.testing', 'lab.testing.plugin']" in done.stdout
    assert "lab_transfer" in project.run("--fixtures").stdout
