"""Candidates out of a git repository: the user's work tree is never touched, and the lab's own trees are always removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.run import revisions
from lab.run.revisions import Builder, build_folder, client_name, commit_facts, revisions_between, skipped_revisions
from tests.support.own_cache import use_own_cache
from tests.support.waiting import until

MakeBuilder = Callable[..., Builder]


def git(repo: Path, *words: str) -> str:
    config = [
        "-c",
        "user.name=T",
        "-c",
        "user.email=t@example.org",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    ]
    done = subprocess.run(["git", "-C", str(repo), *config, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_cache(tmp_path / "cache", monkeypatch)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Four revisions of a program, `one` to `four`; the third came by a merge. A fifth stands on another branch."""
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q")

    def commit(word: str) -> None:
        (made / "tool.in").write_text(f"#!/bin/sh\necho {word}\n")
        git(made, "add", "-A")
        git(made, "commit", "-q", "-m", f"say {word}")
        git(made, "tag", word)

    commit("one")
    commit("two")
    git(made, "checkout", "-q", "-b", "side")
    commit("aside")
    git(made, "checkout", "-q", "main")
    git(made, "merge", "-q", "--no-ff", "-m", "say three", "side")
    git(made, "tag", "three")
    commit("four")
    git(made, "checkout", "-q", "-b", "other", "one")
    commit("five")
    git(made, "checkout", "-q", "main")
    return made


@pytest.fixture
def builder(repo: Path, tmp_path: Path) -> MakeBuilder:
    def make(
        command: str = "cp tool.in tool && chmod +x tool",
        program: str = "tool",
        longest_s: float = 60.0,
        *,
        incremental: bool = False,
    ) -> Builder:
        builds = tmp_path / "builds"
        builds.mkdir(exist_ok=True)
        return Builder(repo, command, program, "curl", builds, longest_s, incremental)

    return make


def untouched(repo: Path, builds: Path) -> bool:
    trees = git(repo, "worktree", "list", "--porcelain").count("worktree ")
    return trees == 1 and git(repo, "status", "--porcelain") == "" and not list(builds.glob("tree-*"))


def short(repo: Path, name: str) -> str:
    return git(repo, "rev-parse", "--short", name)


def test_revisions_are_first_parents_from_good_to_bad(repo: Path) -> None:
    span = revisions_between(repo, "one", "four")
    assert [span.told(name) for name in span.names] == [
        f"{short(repo, tag)} say {tag}" for tag in ("one", "two", "three", "four")
    ]
    assert not span.fix


def test_a_good_end_that_is_newer_looks_for_the_fix(repo: Path) -> None:
    span = revisions_between(repo, "main", "two")
    assert span.names == [short(repo, tag) for tag in ("four", "three", "two")]
    assert span.fix


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("one", "nosuch", "'nosuch' is not a revision"),
        ("--all", "four", "'--all' is not a revision"),
        ("four", "main", "are the same revision"),
        ("five", "four", "neither comes before the other"),
    ],
)
def test_ends_that_span_nothing_are_one_line(repo: Path, good: str, bad: str, problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        revisions_between(repo, good, bad)


def test_a_folder_that_is_not_a_repository_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        with pytest.raises(UsageProblem) as caught:
            revisions_between(tmp_path / folder, "a", "b")
        assert "\n" not in str(caught.value)
        assert "--repo" in caught.value.remedy


def test_each_revision_is_built_in_a_tree_of_its_own_and_kept(repo: Path, builder: MakeBuilder) -> None:
    (repo / "tool.in").write_text("what the user is at work on")
    build = builder()
    for tag in ("one", "four"):
        name, _, path = build(short(repo, tag)).partition("=")
        assert name == f"curl-{short(repo, tag)}"
        assert subprocess.run([path], check=True, capture_output=True, text=True).stdout == f"{tag}\n"
    git(repo, "checkout", "-q", "tool.in")
    assert untouched(repo, build.builds)


def test_a_revision_is_built_once(repo: Path, builder: MakeBuilder, tmp_path: Path) -> None:
    build = builder(f"echo built >>{tmp_path}/times && cp tool.in tool && chmod +x tool")
    assert build(short(repo, "one")) == build(short(repo, "one"))
    assert (tmp_path / "times").read_text() == "built\n"


def test_the_command_may_name_its_tree(repo: Path, builder: MakeBuilder) -> None:
    build = builder("cd / && cp {tree}/tool.in {tree}/tool && chmod +x {tree}/tool")
    assert Path(build(short(repo, "two")).partition("=")[2]).is_file()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo first; echo 'error: no header' >&2; exit 7", "cannot be built, exit code 7: error: no header"),
        ("true", "there is no tool"),
        ("cp tool.in tool; chmod -x tool", "tool is not executable"),
        ("sleep 600 & sleep 600", "not built within 0 s"),
    ],
)
def test_what_cannot_be_built_is_one_line_and_leaves_its_log(
    repo: Path, builder: MakeBuilder, cache: Path, command: str, problem: str
) -> None:
    build = builder(command, longest_s=0.3 if "sleep" in command else 60)
    with pytest.raises(LabFault, match=problem) as caught:
        build(short(repo, "one"))
    log = cache / f"build-curl-{short(repo, 'one')}.log"
    assert str(log) in caught.value.remedy
    assert log.is_file()
    assert untouched(repo, build.builds)


WRAPPER = "#! /bin/sh\n# tool - temporary wrapper script for .libs/tool\nexec .libs/tool\n"


def test_a_program_that_needs_its_tree_is_refused(repo: Path, builder: MakeBuilder) -> None:
    """Only the program is kept; what it loads from its tree would be gone, or another revision's."""
    wrapper = builder(f"printf '{WRAPPER}' > tool && chmod +x tool".replace("\n", "\\n"))
    with pytest.raises(LabFault, match="tool is libtool's wrapper, not the program") as caught:
        wrapper(short(repo, "one"))
    assert "link it statically" in caught.value.remedy
    source = "echo 'int one(void) { return 1; }' > one.c && echo 'int one(void); int main(void) { return one(); }' > main.c"
    linked = builder(f'{source} && cc -shared -fPIC one.c -o libone.so && cc main.c ./libone.so -Wl,-rpath,"$PWD" -o tool')
    with pytest.raises(LabFault, match="libone"):
        linked(short(repo, "one"))


def test_revisions_can_share_a_tree_in_which_builds_are_incremental(repo: Path, builder: MakeBuilder, tmp_path: Path) -> None:
    """Files that an earlier build made are still there; git's own are of the revision."""
    command = "if [ -e made ]; then echo reused; else echo new; fi >>%s/log; touch made; cp tool.in tool; chmod +x tool"
    build = builder(command % tmp_path, incremental=True)
    for tag in ("one", "three", "two"):
        path = build(short(repo, tag)).partition("=")[2]
        assert (
            subprocess.run([path], check=True, capture_output=True, text=True).stdout == f"{'aside' if tag == 'three' else tag}\n"
        )
    assert (tmp_path / "log").read_text().split() == ["new", "reused", "reused"]
    assert git(repo, "status", "--porcelain") == ""
    build.remove_tree()
    assert untouched(repo, build.builds)


def test_an_incremental_build_that_fails_is_repeated_from_a_clean_tree(repo: Path, builder: MakeBuilder) -> None:
    build = builder("test ! -e made || { echo stale; exit 1; }; touch made; cp tool.in tool; chmod +x tool", incremental=True)
    assert build(short(repo, "one"))
    assert build(short(repo, "two")), "the first attempt finds what revision one has made"
    build.remove_tree()


def test_an_earlier_program_is_removed_before_the_next_build(repo: Path, builder: MakeBuilder) -> None:
    build = builder("grep -q two tool.in || { cp tool.in tool && chmod +x tool; }", incremental=True)
    build(short(repo, "one"))
    with pytest.raises(LabFault, match="there is no tool"):
        build(short(repo, "two"))
    build.remove_tree()


def test_kept_builds_serve_a_further_search_with_the_same_command(tmp_path: Path) -> None:
    with build_folder(tmp_path / "keep", "make") as first, build_folder(tmp_path / "keep", "make -j2") as other:
        assert first != other
        with pytest.raises(UsageProblem, match="another search is using"), build_folder(tmp_path / "keep", "make"):
            pass
    with build_folder(tmp_path / "keep", "make") as again:
        assert again == first
    (tmp_path / "file").touch()
    with pytest.raises(UsageProblem, match="--keep"), build_folder(tmp_path / "file", "make"):
        pass


def test_revisions_to_skip_are_named_singly_or_as_a_range(repo: Path) -> None:
    span = revisions_between(repo, "one", "four")
    two, three = short(repo, "two"), short(repo, "three")
    assert skipped_revisions(repo, span, ["two", "two..three"]) == [two, three]
    assert skipped_revisions(repo, span, ["other"]) == [], "it lies outside the span"
    for word, problem in (("four", "would skip an end"), ("nosuch", "names no revision"), ("--all", "names no revision")):
        with pytest.raises(UsageProblem, match=problem):
            skipped_revisions(repo, span, [word])


def test_a_commit_is_named_with_what_it_changed(repo: Path) -> None:
    found = commit_facts(repo, "three")
    assert found.name == git(repo, "rev-parse", "three")
    assert (found.subject, found.author) == ("say three", "T")
    assert found.date == git(repo, "log", "-1", "--format=%as", "three")
    assert found.changed[0].split() == ["tool.in", "|", "2", "+-"]
    assert found.changed[-1].startswith("1 file changed")


def test_an_interrupted_build_leaves_no_tree(repo: Path, builder: MakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    build = builder()

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(revisions, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(short(repo, "one"))
    assert untouched(repo, build.builds)


def test_what_an_interrupted_command_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is the command's own: a Ctrl-C of the terminal does not reach it."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(revisions, "wait_for_end", interrupted)
    started: list[subprocess.Popen[bytes]] = []
    make = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **more: started.append(make(*words, **more)) or started[-1])
    with pytest.raises(KeyboardInterrupt):
        revisions._run("sleep 600", tmp_path, tmp_path / "log", 5.0)
    assert started[0].returncode == -9


def test_a_signal_while_the_command_starts_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs before Popen returns, and its number is not known yet."""
    started: list[subprocess.Popen[bytes]] = []
    make = subprocess.Popen

    def interrupted(*words: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(make(*words, **more))
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        revisions._run("sleep 600", tmp_path, tmp_path / "log", 5.0)
    assert started[0].returncode == -9


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_search_that_is_stopped_in_a_build_leaves_nothing(repo: Path, tmp_path: Path, number: int, code: int) -> None:
    """The complete command: it is stopped while the first candidate is being built, before any network is up."""
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    words = ["curl--link-local--http1-get-1MB-at-1MBps", "--good", "one", "--bad", "four", "--repo", str(repo)]
    words += ["--build-command", "echo $$ && exec sleep 600", "--program", "tool"]
    own = {"TMPDIR": tmp, "ROUGHWATER_RESULTS": tmp_path / "results", "ROUGHWATER_LOCK": tmp_path / "lock"}
    env = {**os.environ, **{name: str(path) for name, path in own.items()}}
    log = tmp_path / "cache" / f"build-curl-{short(repo, 'one')}.log"
    argv = [sys.executable, "-m", "lab.cli.main", "bisect", *words]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

        def building() -> bool:
            assert process.poll() is None, process.communicate()
            return log.is_file() and log.read_text().endswith("\n")

        until(building, "the first candidate is being built", 60)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code
    assert not Path(f"/proc/{log.read_text().strip()}").exists(), "what the command started runs on"
    assert untouched(repo, tmp)
    assert list(tmp.iterdir()) == []
    assert not list((tmp_path / "results").glob("*"))


@pytest.mark.parametrize(("program", "name"), [("src/curl", "curl"), ("target/release/ferry", "ferry"), ("build/tool", "curl")])
def test_the_adapter_is_the_programs_or_the_scenarios(program: str, name: str) -> None:
    assert client_name(program, "curl") == name


def test_a_commit_of_many_files_is_shown_with_some_of_them_and_their_number(repo: Path) -> None:
    for number in range(40):
        (repo / f"file{number:02}").write_text("x\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "add many")
    files = commit_facts(repo, "HEAD").changed
    assert files[0].startswith("file00 ")
    assert files[-2].endswith(" more files")
    assert files[-1].startswith("40 files changed")
    assert len(files) - 2 + int(files[-2].split()[1]) == 40
