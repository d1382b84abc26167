"""`lab test` around the machine: wrong usage, exit codes, the files it writes, the lines it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import test as command
from lab.model.errors import UsageProblem
from lab.run.project.plan import Step
from lab.run.project.suite import Asked, SuiteOutcome, variables

Runs = Callable[..., Any]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def lab(project: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs the command with these words, with this outcome in place of a machine's; what was asked is in `asked`."""
    asked: list[Asked] = []
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app)

    def run(*words: str, outcome: SuiteOutcome | None = None) -> Any:
        monkeypatch.setattr(command, "run_suite", lambda what, *_: asked.append(what) or outcome or SuiteOutcome(virtual_s=1.5))
        done = CliRunner().invoke(app, ["test", *words])
        done.asked = asked[-1] if asked else None  # type: ignore[attr-defined]
        return done

    return run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no command"),
        (["--", "no-such-program"], "no-such-program"),
        (["--", "./no-such-program"], "no-such-program"),
        (["--project", "nowhere", "--", "true"], "there is no folder"),
        (["--project", "/proc", "--", "true"], "the machine's own"),
        (["--memory", "64M", "--", "true"], "too little"),
        (["--junit", "nowhere/j.xml", "--", "true"], "no such folder"),
        (["--env", "NOT_THERE_1", "--", "true"], "NOT_THERE_1"),
        (["--servers", "--topology", "dsl-20", "--", "true"], "--servers"),
        (["--topology", "dls-20", "--", "true"], "dsl-20"),
    ],
)
def test_wrong_usage_is_one_line(words: list[str], says: str, lab: Runs) -> None:
    done = lab(*words)
    assert isinstance(done.exception, UsageProblem)
    assert done.exception.exit_code == 2
    assert says in str(done.exception)
    assert done.asked is None


def test_the_suite_gets_what_was_asked_for(lab: Runs, project: Path) -> None:
    words = ["--memory", "2G", "--time-limit", "5s", "--cpu-limit", "7s", "--seed", "4", "--out", "cov/*", "--env", "A=b"]
    asked = lab(*words, "--", "sh", "-c", "x").asked
    assert (asked.project, asked.memory_bytes, asked.limit_s, asked.cpu_limit_s) == (project, 2 << 30, 5.0, 7.0)
    assert (asked.seed, asked.patterns, asked.variables) == (4, ("cov/*",), {"A": "b"})
    assert asked.plan.steps[0].argv[1:] == ("-c", "x")
    assert Path(asked.plan.steps[0].argv[0]).is_absolute()


def test_the_command_runs_where_it_was_given_if_that_is_in_the_project(
    lab: Runs, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lab("--project", "sub", "--", "true").asked.plan.steps[0].folder == project / "sub"
    monkeypatch.chdir(project / "sub")
    assert lab("--project", "..", "--", "true").asked.plan.steps[0].folder == project / "sub"


def test_the_suites_exit_code_is_the_commands(lab: Runs) -> None:
    done = lab("--", "true", outcome=SuiteOutcome(exit_code=7, virtual_s=1.25, real_s=3, cpu_s=2))
    assert done.exit_code == 7
    assert done.stderr.splitlines() == ["lab: 1.250 s of virtual time, 3.0 s of this machine's, 2.0 s of CPU time"]


def test_a_limit_is_one_line_and_a_report_of_the_labs_own(lab: Runs, project: Path) -> None:
    ended = SuiteOutcome(exit_code=124, ended="lab", limit="virtual time", last_line="test_hangs", virtual_s=5.0)
    done = lab("--junit", "own.xml", "--json", "out.json", "--time-limit", "5s", "--", "true", outcome=ended)
    assert done.exit_code == 124
    assert [line for line in done.stderr.splitlines() if "--time-limit" in line] == [
        "lab: the lab ended the suite at its limit of 5 s of virtual time (--time-limit)"
    ]
    error = ElementTree.parse(project / "own.xml").find(".//error")
    assert error is not None
    assert "test_hangs" in (error.text or "")
    found = json.loads((project / "out.json").read_text())
    assert (found["ended"], found["limit"], found["exit_code"], found["command"]) == ("lab", "virtual time", 124, ["true"])


def test_a_suite_that_ended_by_itself_keeps_the_report_that_is_there(lab: Runs, project: Path) -> None:
    (project / "own.xml").write_text("the suite's")
    lab("--junit", "own.xml", "--", "true")
    assert (project / "own.xml").read_text() == "the suite's"


def test_interruptions_are_one_line(lab: Runs) -> None:
    assert "may not repeat" in lab("--", "true", outcome=SuiteOutcome(interruptions=3)).stderr
    assert "may not repeat" not in lab("--", "true").stderr


def test_a_tool_that_does_not_compile_gives_its_exit_code(lab: Runs, project: Path) -> None:
    tool = project / "cargo"
    tool.write_text("#!/bin/sh\nexit 101\n")
    tool.chmod(0o755)
    done = lab("--", "./cargo", "test")
    assert (done.exit_code, done.asked) == (101, None)


def test_variables_have_the_programs_folder_first_and_the_callers_values_last() -> None:
    step = Step("x", ("/venv/bin/pytest",), Path("/p"), {"PATH": "/node/.bin", "B": "step"})
    found = variables(step, "/venv/bin/pytest", {"B": "server", "C": "server"}, {"GOMAXPROCS": "2"})
    assert found["PATH"].startswith("/node/.bin:/venv/bin:/usr/local/sbin:")
    assert (found["B"], found["C"], found["GOMAXPROCS"]) == ("step", "server", "2")
