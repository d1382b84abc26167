"""The search with real builds in virtual time: the revision that doubles the limit is found, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import repro as command
from lab.hosts.namespaces.launch import running_labs
from lab.model.answer import Answer
from lab.model.scenario import Scenario
from lab.model.transfer import Expectation
from lab.model.units import Ratio
from lab.run.revisions import Builder, revisions_between
from lab.run.search import judge_by_running, walk
from lab.run.session import Options
from lab.store.run_dir import RunDir
from tests.support.command import lab

# An upload: the limit of downloads is what Debian 12's curl has a bug in.
SCENARIO = Scenario.model_validate(
    {
        "name": "mine",
        "topology": "link-local",
        "transfer": "http1-put-300kB-at-1MBps",
        "expect": Expectation(kind="limit", tolerance=Ratio.parse("30 %")),
    }
)
SCRIPT = '#!/bin/sh\n# {comment}\nexec /usr/bin/curl "$@" {more}\n'
REVISIONS = (("begin", ""), ("tidy up", ""), ("go faster", "--limit-rate 2000000"), ("tidy up again", "--limit-rate 2000000"))
MINE = """*** Settings ***
Library    lab.robot.library.LabLibrary
*** Test Cases ***
mine
    Reproduce Bug    mine    link-local    http1-put-2MB-at-1MBps    limit    {bad}    {good}    none
"""


@pytest.fixture
def fast(tmp_path: Path) -> Path:
    """A client that goes at twice its limit."""
    path = tmp_path / "fast"
    path.write_text(SCRIPT.format(comment="", more="--limit-rate 2000000"))
    path.chmod(0o755)
    return path


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q")
    for subject, more in REVISIONS:
        (made / "client.in").write_text(SCRIPT.format(comment=subject, more=more))
        git(made, "add", "-A")
        git(made, "commit", "-q", "-m", subject)
    return made


def git(repo: Path, *words: str) -> str:
    config = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(repo), *config, *words], check=True, capture_output=True, text=True).stdout


def test_the_revision_that_doubles_the_limit_is_found(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    builds = tmp_path / "builds"
    builds.mkdir()
    span = revisions_between(repo, "HEAD~3", "HEAD")
    builder = Builder(repo, "cp {tree}/client.in client && chmod +x client", "client", "curl", builds)
    options = Options(clock="virtual")
    steps: list[Answer] = []
    found = walk(span.names, judge_by_running(SCENARIO, builder, options), steps.append)
    told = "\n".join(map(str, steps))
    assert found.conclusion.kind == "found", f"{found.headline}\n{told}"
    assert span.told(found.conclusion.suspects[0]).endswith(" go faster"), told
    assert (found.conclusion.last_good, found.exit_code) == (span.names[1], 0)
    runs = [RunDir.find(step.run, results=tmp_path / "results").read_cells() for step in steps]
    assert [cells[0].client.name for cells in runs] == [f"curl-{step.id}" for step in steps]
    assert git(repo, "worktree", "list").count("\n") == 1
    assert not {step.run for step in steps} & {*running_labs()}


def test_a_bug_is_reproduced_twice_each_time_in_a_run_of_its_own(fast: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.robot").write_text(MINE.format(bad=f"curl-fast={fast}", good="curl"))
    env = {"ROUGHWATER_RESULTS": str(tmp_path / "results")}
    app = typer.Typer()
    command.register(app)
    done = CliRunner().invoke(app, [str(tmp_path / "mine.robot"), "--times", "2", "--json"], env=env)
    assert done.exit_code == 0, done.output
    answers = json.loads(done.stdout)["answers"]
    assert [(each["round"], arm["name"], arm["verdict"]) for each in answers for arm in each["arms"]] == [
        (1, "curl-fast", "FAIL"),
        (1, "curl", "PASS"),
        (2, "curl-fast", "FAIL"),
        (2, "curl", "PASS"),
    ]
    assert len({each["run"] for each in answers}) == 2
    assert {each["verdict"]["name"] for each in answers} == {"PASS"}


def test_what_is_not_as_it_was_said_is_exit_code_1(fast: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.robot").write_text(MINE.format(bad="${EMPTY}", good=f"curl-fast={fast}"))
    done = lab("repro", str(tmp_path / "mine.robot"), env={"ROUGHWATER_RESULTS": str(tmp_path / "results")})
    assert done.returncode == 1, done.stderr + done.stdout
    assert "not as expected: +" in done.stdout
    assert "0 of 1 as expected" in done.stdout
