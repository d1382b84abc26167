"""`make check`: what counts as changed, the commands that a selection becomes, and what comes of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.check.changes import changed
from tests.support.check.running import concluded, lines, run
from tests.support.check.selection import Selection
from tests.support.check.steps import Chain, Step, chains, nextest_counts, pytest_counts

TOOLS = frozenset({"fmt", "clippy", "nextest"})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for words in (["init", "-q", "-b", "main"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        git(tmp_path, *words)
    for name in ("old.txt", "kept.txt", "staged.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("build\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_staged_unstaged_untracked_deleted_and_committed_paths_are_changes(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "topic")
    git(repository, "mv", "old.txt", "new.txt")
    git(repository, "commit", "-q", "-am", "renamed")
    (repository / "staged.txt").write_text("x")
    git(repository, "add", "staged.txt")
    (repository / "kept.txt").unlink()
    (repository / "ünt racked.txt").write_text("x")
    (repository / "build").write_text("ignored")
    assert changed(repository).paths == ("kept.txt", "new.txt", "old.txt", "staged.txt", "ünt racked.txt")
    assert "merge base with main" in changed(repository).since
    assert changed(repository, "HEAD").paths == ("kept.txt", "staged.txt", "ünt racked.txt")


def test_main_itself_is_compared_with_the_origin_s_where_there_is_one(repository: Path) -> None:
    assert changed(repository).paths == ()
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repository / "kept.txt").write_text("x")
    git(repository, "commit", "-q", "-am", "second")
    assert changed(repository).paths == ("kept.txt",)
    assert "origin/main" in changed(repository).since


def test_a_base_that_git_does_not_know_is_refused(repository: Path) -> None:
    with pytest.raises(SystemExit, match="no commit nowhere"):
        changed(repository, "nowhere")


def planned(chosen: Selection, tools: frozenset[str] = TOOLS, processors: int = 2) -> dict[str, Step]:
    made = chains(chosen, tools, processors=processors, cargo=Path("/opt/cargo"), notes=Path("/notes"))
    return {step.name: step for chain in made for step in chain}


def test_formats_are_checked_always_and_the_rest_where_it_is_chosen() -> None:
    assert set(planned(Selection())) == {"ruff check", "ruff format"}
    everything = Selection(("tests/unit/a",), ("ferry",), True, True, True, True, True, ("images/base/Dockerfile",))
    lints = {"types", "imports", "robocop", "hadolint", "waits", "cargo fmt", "clippy", "clippy of fuzz"}
    assert set(planned(everything)) == {"ruff check", "ruff format", "unit tests", "engine tests", *lints}


def test_without_nextest_cargo_runs_the_tests_and_without_clippy_nothing_lints() -> None:
    steps = planned(Selection(crates=("ferry",), rust=True), frozenset())
    assert steps["engine tests"].argv[:2] == ("cargo", "test")
    assert not {"clippy", "cargo fmt"} & steps.keys()


def test_the_crates_are_named_and_tests_in_real_time_left_out() -> None:
    steps = planned(Selection(crates=("ferry", "ferry-http")))
    argv = steps["engine tests"].argv
    assert argv[argv.index("-p") :][:4] == ("-p", "ferry", "-p", "ferry-http")
    assert argv[-1].startswith("not (")
    assert "ssh_openssh" in argv[-1]
    assert steps["clippy"].argv[-7:] == ("-p", "ferry", "-p", "ferry-http", "--", "-D", "warnings")


@pytest.mark.parametrize(
    ("tests", "processors", "spread"),
    [(("tests/unit/a/test_x.py",), 2, False), (("tests/unit/a",), 2, True), (("tests/unit/a",), 1, False)],
)
def test_a_few_files_need_no_workers(tests: tuple[str, ...], processors: int, spread: bool) -> None:
    assert ("-n" in planned(Selection(tests), processors=processors)["unit tests"].argv) == spread


def test_counts() -> None:
    assert pytest_counts("9 passed in my text\n3 failed, 40 passed, 2 skipped, 1 error in 65.20s (0:01:05)") == {
        "passed": 40,
        "failed": 4,
        "skipped": 2,
    }
    nextest = "     Summary [   1.2s] 25 tests run: 24 passed (1 slow), 1 failed, 3 skipped"
    assert nextest_counts(nextest) == {"passed": 24, "failed": 1, "skipped": 0}
    assert pytest_counts("Traceback") == {"passed": 0, "failed": 0, "skipped": 0}


def test_a_step_that_fails_is_a_failure_whatever_it_counts() -> None:
    step = Step("unit tests", ("x",), counts=pytest_counts, fine=(0, 5))
    assert concluded(step, 4, "no such file", 1.0).failed == 1
    assert concluded(step, 1, "2 failed, 1 passed in 1.00s", 1.0).failed == 2
    nothing = concluded(step, 5, "no tests ran in 0.01s", 1.0)
    assert nothing.ok
    assert nothing.failed == 0


def test_a_failure_shows_what_was_printed_and_a_pass_is_one_line() -> None:
    step = Step("unit tests", ("x",), counts=pytest_counts, what="judge")
    failed = concluded(step, 1, "..F..  [ 50%]\n\nE   wrong\n1 failed, 4 passed in 1.00s", 1.0)
    assert lines(step, failed) == [
        "E   wrong",
        "1 failed, 4 passed in 1.00s",
        "check: unit tests: FAILED, 1.0 s, 4 passed, 1 failed (judge)",
    ]
    assert lines(step, concluded(step, 0, "4 passed in 1.00s", 1.0)) == ["check: unit tests: ok, 1.0 s, 4 passed (judge)"]


def shell(name: str, script: str, otherwise: str = "") -> Step:
    words = ("/bin/sh", "-c", otherwise) if otherwise else ()
    return Step(name, ("/bin/sh", "-c", script), codes=(0, 1), otherwise=words)


def test_every_step_runs_and_leaves_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side: Chain = (shell("first one", "echo bad; exit 1"), shell("second", "pwd"))
    ends = run([side, (shell("third", "exit 0"),)], tmp_path, tmp_path / "logs")
    assert sorted(end.ok for end in ends) == [False, True, True]
    assert (tmp_path / "logs/first-one.log").read_text() == "bad\n"
    assert (tmp_path / "logs/second.log").read_text().strip() == str(tmp_path)
    assert {line.partition(",")[0] for line in capsys.readouterr().out.splitlines()} == {
        "bad",
        "check: first one: FAILED",
        "check: second: ok",
        "check: third: ok",
    }


def test_the_other_command_decides_only_where_the_first_did_not_work(tmp_path: Path) -> None:
    ends = run([(shell("crashed", "exit 2", "exit 0"), shell("found", "exit 1", "exit 0"))], tmp_path, tmp_path / "logs")
    assert [end.ok for end in ends] == [True, False]


def test_a_program_that_is_not_there_is_a_failure_with_a_remedy(tmp_path: Path) -> None:
    (end,) = run([(Step("missing", (str(tmp_path / "nothing"),)),)], tmp_path, tmp_path / "logs")
    assert not end.ok
    assert "make setup" in end.text


def test_the_command_s_own_environment_reaches_it(tmp_path: Path) -> None:
    step = Step("environment", (sys.executable, "-c", "import os; print(os.environ['CHECKED'])"), environment={"CHECKED": "yes"})
    assert run([(step,)], tmp_path, tmp_path / "logs")[0].text == "yes\n"
