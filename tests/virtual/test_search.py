"""Search, repros and release sets in virtual time, side by side: scripts are clients, and which of them are bad is known."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import bisect, qualify, repro
from lab.judge.decide import LookPlan
from lab.model.answer import Answer, asking
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.robot.bugs import find_scenario
from lab.run.comparison import Comparing, compare_release
from lab.run.pair import told_apart
from lab.run.probes import search
from lab.run.qualify import Outcome, plan
from lab.run.qualify import qualify as run_set
from lab.run.release import ReleaseRow
from lab.run.search import Found
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir
from lab.store.validate import validate

SCENARIO = "curl--dsl-20--http1-put-2MB-at-1MBps"
V = [f"v{index}" for index in range(5)]
FIRST_BAD = 3
MINE = """*** Settings ***
Library    lab.robot.library.LabLibrary
*** Test Cases ***
mine
    Reproduce Bug    mine    dsl-20    http1-put-2MB-at-1MBps    limit    curl-v4={bad}    curl-v0={good}    none
"""
_SCRIPT = '#!/bin/sh\nexec /usr/bin/curl "$@" {more}\n'


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def clients(tmp_path: Path) -> dict[str, Path]:
    """From the fourth version on the client runs at twice its limit."""
    made = {}
    for index, name in enumerate(V):
        made[name] = script(tmp_path / name, "--limit-rate 2000000" if index >= FIRST_BAD else "")
    return made


def script(path: Path, more: str = "") -> Path:
    path.write_text(_SCRIPT.format(more=more))
    path.chmod(0o755)
    return path


def invoke(command: object, *words: str) -> Result:
    app = typer.Typer()
    command.register(app)  # type: ignore[attr-defined]
    return CliRunner().invoke(app, list(words))


# -- bisect ---------------------------------------------------------------------------------------------------------


def found_among(clients: dict[str, Path], seed: int = 1) -> tuple[Found, list[Answer]]:
    steps: list[Answer] = []
    found = search(
        V,
        find_scenario(SCENARIO),
        lambda name: f"curl-{name}={clients[name]}",
        Options(clock="virtual", seed=seed),
        steps.append,
        ready=lambda _: True,
    )
    return found, steps


def test_the_planted_defect_is_found_and_the_same_seed_walks_the_same_way(clients: dict[str, Path], results: Path) -> None:
    found, steps = found_among(clients)
    assert found.conclusion.kind == "found", found.headline
    assert (found.conclusion.last_good, found.conclusion.suspects, found.exit_code) == ("v2", ("v3",), 0)
    confirmed = [step.id for step in steps if step.facts["why"].startswith("once more")]
    assert confirmed == ["v2", "v3"], "both neighbours say it twice"
    again, once_more = found_among(clients)
    assert [(step.id, step.facts["why"], step.judged.reason) for step in once_more] == [
        (step.id, step.facts["why"], step.judged.reason) for step in steps
    ]
    assert again.conclusion == found.conclusion
    twice = [step for step in steps if step.id == "v2"]
    cells = [RunDir.find(step.run, results=results).read_cells()[0] for step in twice]
    assert {cell.clock for cell in cells} == {"virtual"}
    seeds = [{sample.seed for sample in cell.samples} for cell in cells]
    assert not seeds[0] & seeds[1], "a second try is of samples of its own"


def test_ends_that_contradict_what_was_said_are_exit_code_2(clients: dict[str, Path]) -> None:
    clients["v4"] = clients["v0"]
    found, steps = found_among(clients)
    assert (found.conclusion.kind, found.exit_code, len(steps)) == ("refused", 2, 2)


FAST = "--limit-rate 2000000"
BUILD = "! grep -q broken {tree}/client.in && cp {tree}/client.in client && chmod +x client"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Seven revisions of a client. The third cannot be built; the fifth makes it run at twice its limit."""
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q")
    (made / ".gitignore").write_text("client\n")
    subjects = {"begin": "", "tidy up": "", "broken": "", "mend": "", "go faster": FAST, "tidy": FAST, "end": FAST}
    for subject, more in subjects.items():
        (made / "client.in").write_text(f"{_SCRIPT.format(more=more)}# {subject}\n")
        git(made, "add", "-A")
        git(made, "commit", "-q", "-m", subject)
    return made


def test_revisions_are_built_when_they_are_due(repo: Path, results: Path) -> None:
    build = ["--build-command", BUILD, "--program", "client", "--repo", str(repo), "--incremental", "--skip", "HEAD~1"]
    done = invoke(bisect, SCENARIO, "--good", "HEAD~6", "--bad", "HEAD", *build, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (suspect,) = found["suspects"]
    assert found["subjects"][suspect] == "go faster"
    assert git(repo, "worktree", "list").count("\n") == 1
    tried = {step["id"] for step in found["steps"]}
    named = {subject: name for name, subject in found["subjects"].items()}
    assert found["skipped"].pop(named["tidy"]) == "skipped on request"
    assert named["tidy"] not in tried
    assert list(found["skipped"]) == [named["broken"]]
    assert "cannot be built, exit code 1" in found["skipped"][named["broken"]]

    page = Path(found["page"])
    text = page.read_text()
    assert text.startswith(f"## first bad {suspect}, last good {found['last_good']}\n")
    commit = git(repo, "rev-parse", suspect).strip()
    assert f"<code>{commit}</code>: go faster (T, " in text
    assert "client.in | 4 ++--" in text
    assert text.count("| <code>") == len(found["steps"])
    assert RunDir.find("latest").path == page.parent, "the search's own run is the latest"
    assert "go faster" in (page.parent / "report.html").read_text()
    assert not validate([page.parent]).problems


def test_git_bisect_run_finds_the_revision_by_the_exit_codes_of_a_step(repo: Path, tmp_path: Path) -> None:
    """git's own search, around a revision that cannot be built."""
    git(repo, "bisect", "start", "HEAD", "HEAD~6")
    step = [sys.executable, "-m", "lab.cli.main", "bisect-step", SCENARIO, "--program", "client"]
    said = git(repo, "bisect", "run", *step, "--build-command", BUILD.format(tree="."))
    assert "is the first bad commit" in said
    assert git(repo, "log", "-1", "--format=%s", "refs/bisect/bad") == "go faster\n"
    log = git(repo, "bisect", "log")
    assert log.count("# good: ") + log.count("# bad: ") >= 4
    git(repo, "bisect", "reset")
    git(repo, "checkout", "-q", "HEAD~4")
    assert "skip: " in step_of(repo, 125, "--build-command", BUILD.format(tree="."))


def test_a_mistake_ends_the_search_of_git(repo: Path) -> None:
    """Any code from 1 to 127 but 125 would call the revision bad."""
    assert "no such" in step_of(repo, 128, "--nosuch").lower()
    assert step_of(repo, 128, cell="curl--nosuch--http1-get-1MB").startswith("stop: ")
    assert "there is no " in step_of(repo, 125)


def test_a_step_in_which_transfers_fail_is_skipped_unless_that_is_the_bug(repo: Path) -> None:
    (repo / "client").write_text("#!/bin/sh\ncase $* in *--version*) exec /usr/bin/curl --version ;; esac\nexit 7\n")
    (repo / "client").chmod(0o755)
    assert "FAIL" in step_of(repo, 125)
    assert step_of(repo, 1, cell="curl--dsl-20--http1-put-100kB").startswith("bad: ")


def step_of(repo: Path, code: int, *words: str, cell: str = SCENARIO) -> str:
    argv = [sys.executable, "-m", "lab.cli.main", "bisect-step", cell, "--program", "client", *words]
    done = subprocess.run(argv, cwd=repo, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def git(repo: Path, *words: str) -> str:
    config = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(repo), *config, *words], check=True, capture_output=True, text=True).stdout


# -- repro ----------------------------------------------------------------------------------------------------------


def outcomes_of(clients: dict[str, Path], folder: Path, *words: str) -> list[dict[str, object]]:
    (folder / "mine.robot").write_text(MINE.format(good=clients["v0"], bad=clients["v4"]))
    done = invoke(repro, str(folder / "mine.robot"), "--json", *words)
    assert done.exit_code == 0, done.output
    return [
        {"round": each["round"], "client": arm["name"], "found": arm["verdict"], "figure": each["facts"]["figure"]}
        for each in json.loads(done.stdout)["answers"]
        for arm in each["arms"]
    ]


def test_a_bug_is_reproduced_in_every_round_and_a_seed_repeats_itself(clients: dict[str, Path], tmp_path: Path) -> None:
    first = outcomes_of(clients, tmp_path, "--times", "2")
    assert [(each["round"], each["client"], each["found"]) for each in first] == [
        (1, "curl-v4", "FAIL"),
        (1, "curl-v0", "PASS"),
        (2, "curl-v4", "FAIL"),
        (2, "curl-v0", "PASS"),
    ]
    assert outcomes_of(clients, tmp_path) == first[:2]


def test_what_is_not_as_it_was_said_is_exit_code_1(clients: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "mine.robot").write_text(MINE.format(good=clients["v4"], bad=clients["v3"]))
    done = invoke(repro, str(tmp_path / "mine.robot"))
    assert done.exit_code == 1, done.output
    assert "1 of 2 as expected" in done.stdout


# -- qualify --------------------------------------------------------------------------------------------------------

LIMITED = ReleaseRow.named("dsl-20--http1-put-2MB-at-1MBps", "it keeps to its limit")
WHOLE = ReleaseRow.named("metro-200--http1-put-2MB", "it is as fast as before")
LOOKS = LookPlan(looks=(5, 10))


def qualified(clients: Sequence[ClientSpec], results: Path) -> tuple[Answer, list[Outcome], Session]:
    candidate, *baseline = clients
    session = Session(RunDir.create("qualify", results=results), Options(clock="virtual", virtual_looks=LOOKS))
    with session:
        found, outcomes = run_set(
            session, candidate, next(iter(baseline), None), [LIMITED, WHOLE], set_name="quick", margin=Ratio(0.05)
        )
    return found, outcomes, session


def test_a_candidate_next_to_its_baseline(clients: dict[str, Path], results: Path) -> None:
    good, bad = (ClientSpec.parse(f"curl-{name}={clients[name]}") for name in ("v0", "v4"))
    found, outcomes, session = qualified([bad, good], results)
    assert found.judged.name == "FAIL"
    assert [part.verdict for part in found.parts] == ["FAIL", "PASS"]
    assert [result.id.partition("--")[0] for result in session.results] == ["curl-v4", "curl-v0"] * 2, "in the order of the set"
    assert [pair.id.partition("--")[2] for pair in asking(session.answers, "no-slower")] == [
        f"{each.name}--vs-curl-v0" for each in (LIMITED, WHOLE)
    ]
    ratios = [outcome.pair.ratio for outcome in outcomes if outcome.pair]
    _, again, _ = qualified([bad, good], results)
    assert [outcome.pair.ratio for outcome in again if outcome.pair] == ratios, "the same seed agrees"


def compared(candidate: ClientSpec, baseline: ClientSpec, results: Path) -> tuple[Answer, Session]:
    options = Options(clock="virtual", virtual_looks=LookPlan(looks=(5, 20)), twins={baseline.name: candidate.name})
    session = Session(RunDir.create("compare", results=results), options)
    with session:
        return compare_release(session, candidate, [LIMITED], Comparing(baseline), set_name="quick"), session


def test_a_client_passes_next_to_itself_and_a_bad_one_fails(clients: dict[str, Path], results: Path) -> None:
    good, bad = (ClientSpec.parse(f"curl-{name}={clients[name]}") for name in ("v0", "v4"))
    same, session = compared(good, told_apart(good, good), results)
    assert same.judged.name == "PASS", same.judged.reason
    ours, theirs = ([sample.seed for sample in result.samples] for result in session.results)
    assert ours == theirs, "each pair met the same losses and phases"
    found, _ = compared(bad, good, results)
    assert found.judged.name == "FAIL"
    assert any(note.startswith("regression: ") for note in found.parts[0].notes)


def test_lines_that_virtual_time_has_no_answer_to_are_skipped_where_it_was_asked_for(clients: dict[str, Path]) -> None:
    cpu = ReleaseRow.named("dsl-50--http1-get-5MiB-at-2MBps--cpu", "it waits")
    client = ClientSpec.parse(f"curl-v0={clients['v0']}")
    assert plan([LIMITED, cpu], client) == ([LIMITED, cpu], {})
    asked, skipped = plan([LIMITED, cpu], client, "virtual")
    assert asked == [LIMITED]
    assert "CPU time" in skipped[cpu.name]


def test_the_set_as_a_command_says_which_clock_each_line_has() -> None:
    done = invoke(qualify, "--list", "--with-machine", "--json")
    lines = {line["name"]: line for line in json.loads(done.stdout)["items"]}
    assert lines["dsl-50--http1-get-5MiB-at-2MBps"]["clock"] == "virtual"
    assert lines["link-local--http1-get-100MB"]["clock"] == "real"
