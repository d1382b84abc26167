"""Candidates out of a git repository: which revisions there are, and the client of each, built in a work tree of its own.

The user's own work tree is never touched: `git worktree add --detach` into a temporary folder, removed whatever happens.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from lab.assets import store
from lab.clients.registry import list_clients
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

LONGEST_BUILD_S = 1800.0
_LONGEST_GIT_S = 120.0
_TREE = "{tree}"


@dataclass(frozen=True)
class Range:
    """Revisions by short name, from the good end to the bad one, and their subjects; `fix` when good is the newer one."""

    names: list[str]
    subjects: Mapping[str, str]
    fix: bool

    def told(self, name: str) -> str:
        """`1a2b3c4 double the limit`."""
        return f"{name} {self.subjects[name]}"


@dataclass(frozen=True)
class Builder:
    """How a revision becomes a client. `command` is for sh, in the tree, which `{tree}` in it names; `program` is below it.

    `builds` keeps the programs, because a candidate may be tried again. A program must stand on its own: it is all that is kept.
    """

    repo: Path
    command: str
    program: str
    client: str
    builds: Path
    longest_s: float = field(default=LONGEST_BUILD_S)

    def __call__(self, revision: str) -> str:
        """The client of that revision, `curl-1a2b3c4=PATH`. Raises LabFault, one line, when it cannot be built."""
        name, kept = self._kept(revision)
        if not kept.exists():
            with _tree(self.repo, revision, self.builds) as tree:
                self._build(tree, name)
                kept.parent.mkdir(exist_ok=True)
                shutil.copy2(tree / self.program, kept)
        return f"{name}={kept}"

    def built(self, revision: str) -> bool:
        """Whether it has been asked for before, and could be built."""
        return self._kept(revision)[1].exists()

    def _kept(self, revision: str) -> tuple[str, Path]:
        name = f"{self.client}-{revision}"
        return name, self.builds / name / PurePath(self.program).name

    def _build(self, tree: Path, name: str) -> None:
        log = cache_dir() / f"build-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        code = _run(self.command.replace(_TREE, shlex.quote(str(tree))), tree, log, self.longest_s)
        remedy = f"all of it is in {log}"
        if code is None:
            raise LabFault(f"{name} was not built within {self.longest_s:.0f} s", remedy=remedy)
        if code:
            why = store.reason(log.read_text(encoding="utf-8", errors="replace"))
            raise LabFault(f"{name} cannot be built, exit code {code}: {why}", remedy=remedy)
        if not (tree / self.program).is_file():
            raise LabFault(f"{name} was built, and there is no {self.program}", remedy=remedy)
        if not os.access(tree / self.program, os.X_OK):
            raise LabFault(f"{name} was built, and {self.program} is not executable", remedy=remedy)
        log.unlink()


def revisions_between(repo: Path, good: str, bad: str) -> Range:
    """The first parents from one to the other, both included. Raises UsageProblem where neither comes from the other."""
    ends = {end: _git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{end}^{{commit}}") for end in (good, bad)}
    if unknown := [end for end, found in ends.items() if not found]:
        raise UsageProblem(f"{unknown[0]!r} is not a revision of {repo}")
    if len(set(ends.values())) < 2:
        raise UsageProblem(f"{good} and {bad} are the same revision", remedy="give two")
    for fix, (old, new) in ((False, (good, bad)), (True, (bad, good))):
        if _git(repo, "merge-base", ends[good], ends[bad]) == ends[old]:
            between = _git(repo, "rev-list", "--first-parent", "--reverse", f"{ends[old]}..{ends[new]}").split()
            whole = [ends[old], *between]
            told = dict(_told(repo, revision) for revision in (reversed(whole) if fix else whole))
            return Range(list(told), told, fix)
    raise UsageProblem(f"of {good} and {bad} neither comes before the other", remedy="name two revisions of one branch")


def client_name(program: str, otherwise: str) -> str:
    """Which adapter speaks for the builds: the client that is called as their program, else the scenario's."""
    stem = PurePath(program).name
    return stem if stem in list_clients() else otherwise


def _told(repo: Path, revision: str) -> tuple[str, str]:
    short, _, subject = _git(repo, "log", "-1", "--no-show-signature", "--format=%h %s", revision).partition(" ")
    return short, subject


def _git(repo: Path, *words: str) -> str:
    """What it prints; empty where it says no. Raises UsageProblem where there is no repository."""
    if shutil.which("git") is None:
        raise UsageProblem("there is no git to look for revisions with", remedy="sudo apt-get install git")
    code, said = store.run(["git", "-C", repo, *words], timeout_s=_LONGEST_GIT_S)
    if re.match(r"fatal: (not a git|detected dubious|cannot change)", said):
        raise UsageProblem(f"{repo}: {said.splitlines()[0].removeprefix('fatal: ')}", remedy="--repo names the repository")
    return said.strip() if code == 0 else ""


@contextmanager
def _tree(repo: Path, revision: str, parent: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tree-", dir=parent, ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        words: list[str | Path] = ["git", "-C", repo, "worktree", "add", "--quiet", "--detach", tree, revision]
        try:
            code, said = store.run(words, timeout_s=_LONGEST_GIT_S)
            if code:
                raise LabFault(f"{revision} cannot be checked out: {store.reason(said)}")
            yield tree
        finally:
            store.run(["git", "-C", repo, "worktree", "remove", "--force", "--force", tree], timeout_s=_LONGEST_GIT_S)


def _run(command: str, tree: Path, log: Path, longest_s: float) -> int | None:
    """The exit code, None after `longest_s`. Whatever it started ends with it, also when it is interrupted."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=tree,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(longest_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
