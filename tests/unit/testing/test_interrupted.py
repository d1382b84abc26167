"""A run inside a test runner that keeps an interruption to itself is not complete either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.robot import library
from lab.run.session import Session
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from lab.testing import plugin

TESTS = """
def test_one(lab_session):
    raise KeyboardInterrupt

def test_two():
    pass
"""


def test_pytest_and_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(TESTS)
    env = {**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_own.py")]
    done = subprocess.run(command, cwd=tmp_path, env=env, check=False, capture_output=True)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    (run,) = (path for path in (tmp_path / "results").glob("*") if not path.is_symlink())
    found = read_run_folder(run)
    assert found.record
    assert (found.record.ended, found.record.exit_code, found.whole) == ("interrupted", 130, False)


@pytest.mark.parametrize("how", ["shouldfail", "shouldstop"])
def test_pytest_that_stops_early(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_interruptions", [])
    every: Any = SimpleNamespace(shouldfail=False, shouldstop=False)
    assert plugin._cut_off(every) is None
    setattr(every, how, "stopping after 1 failures")
    assert str(plugin._cut_off(every)) == "stopping after 1 failures"


def test_robot_and_a_signal(tmp_path: Path) -> None:
    session = Session(RunDir.create("robot", results=tmp_path))
    keywords = library.LabLibrary()
    keywords._own = SimpleNamespace(session=session)  # type: ignore[assignment]
    ended: list[str] = []
    steps: Any = SimpleNamespace(stop=lambda: ended.append("stop"), answer=lambda verdict, _: ended.append(verdict))
    keywords._steps = steps
    keywords.end_test(None, SimpleNamespace(message="4 of 5 transfers failed", status="FAIL"))
    assert ended == ["stop", "FAIL"], "a test in steps leaves its answer"
    session.note_end(None)
    assert session.ended == "complete"
    keywords.end_test(None, SimpleNamespace(message=library._INTERRUPTED))
    session.note_end(None)
    assert (session.ended, session.ended_code) == ("interrupted", 130)
