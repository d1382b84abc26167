"""Builds and revisions at their edges: compilers, programs that need their tree, and git's own words."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.assets import store
from lab.model.errors import LabFault, UsageProblem
from lab.run import revisions
from lab.run.revisions import Range, build, build_folder, commit_facts, revisions_between
from tests.support.own_cache import use_own_cache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_own_cache(tmp_path / "cache", monkeypatch)


def test_compilers_go_by_ccache_where_it_is_there(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "_CCACHE", tmp_path / "ccache")
    monkeypatch.setenv("PATH", "/usr/bin")
    assert revisions._environment(tmp_path) == dict(os.environ)
    (tmp_path / "ccache").mkdir()
    found = revisions._environment(tmp_path / "tree")
    assert found["PATH"] == f"{tmp_path}/ccache:/usr/bin"
    assert (found["CCACHE_BASEDIR"], found["CCACHE_NOHASHDIR"]) == (f"{tmp_path}/tree", "1")
    assert found["CCACHE_DIR"] == str(cache / "ccache")
    monkeypatch.setenv("CCACHE_DIR", "/own")
    assert revisions._environment(tmp_path)["CCACHE_DIR"] == "/own", "the user's own setting stays"


@pytest.mark.parametrize(
    ("said", "needed"),
    [
        ("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlinux-vdso.so.1 (0x2)\n", ""),
        ("\tlibone.so => {tree}/libone.so (0x1)\n", "needs libone.so, which is in its tree"),
        ("\tlibtwo.so => not found\n", "needs libtwo.so, which is not found"),
        ("\tlibone.so => {tree}-other/libone.so (0x1)\n", ""),
        ("not a dynamic executable\n", ""),
    ],
)
def test_a_program_needs_its_tree_for_a_library_there_or_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, needed: str
) -> None:
    program, tree = tmp_path / "tool", tmp_path / "tree"
    program.write_bytes(b"\x7fELF")
    monkeypatch.setattr(store, "run", lambda *_, **__: (0, said.replace("{tree}", str(tree))))
    assert revisions._needs_tree(program, tree) == needed


def test_a_script_stands_on_its_own_unless_it_is_libtools(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho temporary\n")
    assert revisions._needs_tree(program, tmp_path) == ""
    program.write_text("#!/bin/sh\n# tool - temporary wrapper script for .libs/tool\n")
    assert revisions._needs_tree(program, tmp_path) == "is libtool's wrapper, not the program"


def make(command: str, tmp_path: Path, **more: Any) -> Path:
    tree = tmp_path / "a tree"
    tree.mkdir(exist_ok=True)
    return build(command, "tool", tree, tmp_path / "log", **more)


def test_a_build_is_run_in_its_tree_and_its_program_is_new(tmp_path: Path) -> None:
    (tmp_path / "a tree").mkdir()
    (tmp_path / "a tree" / "tool").write_text("old")
    made = make("printf '#!/bin/sh\\n' > {tree}/tool; chmod +x tool; echo said; echo so >&2", tmp_path)
    assert (made, made.read_text()) == (tmp_path / "a tree" / "tool", "#!/bin/sh\n")
    assert (tmp_path / "log").read_text() == "said\nso\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo 'error: no header'; exit 7", "mine cannot be built, exit code 7: error: no header"),
        ("true", "mine was built, and there is no tool"),
        ("mkdir tool", "mine was built, and there is no tool"),
        ("touch tool", "mine was built, and tool is not executable"),
    ],
)
def test_a_build_that_fails_names_its_log(tmp_path: Path, command: str, message: str) -> None:
    with pytest.raises(LabFault) as caught:
        make(command, tmp_path, name="mine")
    assert (caught.value.message, caught.value.remedy) == (message, f"all of it is in {tmp_path / 'log'}")


def test_a_build_has_its_time_and_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(process: subprocess.Popen[bytes], longest_s: float) -> int:
        raise subprocess.TimeoutExpired(process.args, longest_s)

    monkeypatch.setattr(revisions, "wait_for_end", late)
    with pytest.raises(LabFault, match=r"^mine was not built within 90 s"):
        make("sleep 600", tmp_path, name="mine", longest_s=90.0)


def test_a_folder_for_builds_is_named_by_its_command_or_temporary(tmp_path: Path) -> None:
    with build_folder(tmp_path / "keep", "make") as kept:
        assert kept.parent == tmp_path / "keep"
        assert len(kept.name) == 12
    with build_folder(None, "make") as first, build_folder(None, "make") as second:
        assert first != second
    assert not first.exists()
    (tmp_path / "file").touch()
    with pytest.raises(UsageProblem) as caught, build_folder(tmp_path / "file", "make"):
        pass
    assert caught.value.message.endswith(": Not a directory")
    assert caught.value.remedy == "give another folder with --keep"


def test_a_revision_is_shown_with_its_subject() -> None:
    assert Range(["a"], {"a": "double the limit"}, fix=False).told("a") == "a double the limit"


# --- git --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, str]]:
    """Git's exit code and answer, by its first word."""
    answers: dict[str, tuple[int, str]] = {}

    def run(words: list[Any], **_: object) -> tuple[int, str]:
        return answers.get(str(words[3]), (1, "fatal: unknown"))

    monkeypatch.setattr(store, "run", run)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/git")
    return answers


@pytest.mark.parametrize(("files", "shown"), [(29, 30), (30, 31), (31, 32), (45, 32)])
def test_of_many_files_thirty_are_shown_and_the_sum(said: dict[str, tuple[int, str]], files: int, shown: int) -> None:
    said["log"] = (0, "full\0subject\0author\x002026-01-01")
    said["show"] = (0, "".join(f" file{number} | 1 +\n" for number in range(files)) + f" {files} files changed\n")
    found = commit_facts(Path("/repo"), "HEAD")
    assert (found.name, found.subject, found.author, found.date) == ("full", "subject", "author", "2026-01-01")
    assert len(found.changed) == shown
    assert (found.changed[0], found.changed[-1]) == ("file0 | 1 +", f"{files} files changed")
    assert (found.changed[-2] == f"... {files - 30} more files") == (files > 30)
    said["log"] = (0, "full")
    assert commit_facts(Path("/repo"), "HEAD").date == ""


@pytest.mark.parametrize("why", ["not a git repository (or any)", "detected dubious ownership", "cannot change to '/repo'"])
def test_a_folder_without_a_repository_is_named_with_gits_reason(said: dict[str, tuple[int, str]], why: str) -> None:
    said["rev-parse"] = (128, f"fatal: {why}\nmore\n")
    with pytest.raises(UsageProblem) as caught:
        revisions_between(Path("/repo"), "a", "b")
    assert (caught.value.message, caught.value.remedy) == (f"/repo: {why}", "--repo names the repository")


def test_without_git_there_are_no_revisions(said: dict[str, tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    del said
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UsageProblem, match="there is no git to look for revisions with"):
        revisions_between(Path("/repo"), "a", "b")


def test_what_git_must_do_and_cannot_is_the_labs_fault(said: dict[str, tuple[int, str]]) -> None:
    said["checkout"] = (1, "error: your files would be lost\n")
    with pytest.raises(LabFault, match=r"^git checkout failed in /tree: .*would be lost"):
        revisions._git_must(Path("/tree"), "checkout", "x")
    said["clean"] = (0, "")
    revisions._git_must(Path("/tree"), "clean")
