"""`lab run @PROFILE`: one run, one page, one exit code, and old runs of the profile go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.model.paths import shipped_suites_dir
from lab.store.run_dir import run_folders
from tests.support.command import lab

PROFILE = """\
name: mine
description: Two suites, of which one is in steps.
keep: 2
clock: virtual
junit_no_verdict: skip
parts:
  - suites: [throttle]
    clients: [curl]
    tests: ["DSL 20, H1 Get, 8 Mbit/s"]
  - suites: [SUITES/examples/link-change.robot]
    clients: [curl]
    tests: ["A Link That Goes Down*"]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    folder = tmp_path / "suites" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(PROFILE.replace("SUITES", str(shipped_suites_dir())))


def test_its_suites_are_one_run_and_older_runs_of_it_are_removed(tmp_path: Path) -> None:
    other = tmp_path / "results" / "20200101T000000-throttle-0000" / "cells"
    other.mkdir(parents=True)
    runs = []
    for _ in range(3):
        done = lab("run", "@mine", "--json")
        assert done.returncode in (0, 1), done.stderr
        record = json.loads(done.stdout)
        runs.append(record["run"])
        assert len(record["cells"]) == 1
        assert len(record["answers"]) == 1
    assert "keeps 2 runs" in done.stderr
    assert [path.name for path in run_folders(tmp_path / "results")] == [other.parent.name, *runs[1:]]
    newest = tmp_path / "results" / runs[-1]
    page = (newest / "report.html").read_text()
    assert all(name in page for name in (*record["cells"], *record["answers"]))
