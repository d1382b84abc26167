"""Candidates out of a git repository: which revisions there are, and the client of each, built in a work tree of its own.

The user's own work tree is never touched: `git worktree add --detach` into a temporary folder, removed whatever happens.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from lab.assets import store
from lab.clients.registry import list_clients
from lab.model.ended import wait_for_end
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir
from lab.model.scratch import scratch_folder

LONGEST_BUILD_S = 1800.0
_LONGEST_GIT_S = 120.0
_TREE = "{tree}"
_HEAD_BYTES = 4096
_MOST_FILES = 30
_CCACHE = Path("/usr/lib/ccache")
"""The folder in which Debian's ccache has its own cc and gcc."""


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
class Commit:
    """A revision as git shows it, for people."""

    name: str
    subject: str
    author: str
    date: str
    changed: tuple[str, ...]
    """The commit's changes: a line per file, then the sum."""


@dataclass(frozen=True)
class Builder:
    """The recipe for a client from a revision. sh runs `command` in the tree, which `{tree}` names; `program` is below the tree.

    `builds` keeps the programs, because a candidate may be tried again. A program must be standalone: nothing else is kept.
    With `incremental` all revisions share one tree below `builds`, so that a build finds the products of the build before; a
    build that fails there is repeated from a clean tree. Without `incremental` every revision has a fresh tree.
    """

    repo: Path
    command: str
    program: str
    client: str
    builds: Path
    longest_s: float = field(default=LONGEST_BUILD_S)
    incremental: bool = False

    def __call__(self, revision: str) -> str:
        """The client of that revision, `curl-1a2b3c4=PATH`. Raises LabFault, one line, when it cannot be built."""
        name, kept = self._kept(revision)
        if not kept.exists():
            if self.incremental:
                tree = self._shared_tree(revision)
                try:
                    self._build(tree, name)
                except LabFault:
                    _git_must(tree, "clean", "-ffdxq")
                    self._build(tree, name)
                self._keep(tree, kept)
            else:
                with _tree(self.repo, revision, self.builds) as tree:
                    self._build(tree, name)
                    self._keep(tree, kept)
        return f"{name}={kept}"

    def built(self, revision: str) -> bool:
        """True if the revision has been asked for before, and could be built."""
        return self._kept(revision)[1].exists()

    def remove_tree(self) -> None:
        """Remove the tree that the revisions share, if there is one."""
        store.run(["git", "-C", self.repo, "worktree", "remove", "--force", "--force", self._tree_path], timeout_s=_LONGEST_GIT_S)

    @property
    def _tree_path(self) -> Path:
        return self.builds / "tree"

    def _kept(self, revision: str) -> tuple[str, Path]:
        name = f"{self.client}-{revision}"
        return name, self.builds / name / PurePath(self.program).name

    def _keep(self, tree: Path, kept: Path) -> None:
        kept.parent.mkdir(exist_ok=True)
        # A program that is there is complete, also when the copy is interrupted.
        half = kept.with_name(f".{kept.name}")
        shutil.copy2(tree / self.program, half)
        half.replace(kept)

    def _shared_tree(self, revision: str) -> Path:
        tree = self._tree_path
        if tree.exists():
            _git_must(tree, "checkout", "--quiet", "--force", "--detach", revision)
        else:
            _git_must(self.repo, "worktree", "prune")
            _git_must(self.repo, "worktree", "add", "--quiet", "--detach", str(tree), revision)
        return tree

    def _build(self, tree: Path, name: str) -> None:
        log = cache_dir() / f"build-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        build(self.command, self.program, tree, log, name=name, longest_s=self.longest_s)
        log.unlink()


def build(command: str, program: str, tree: Path, log: Path, *, name: str = "it", longest_s: float = LONGEST_BUILD_S) -> Path:
    """Run a build command in a tree; the program that it makes, which runs on its own.

    An earlier program is removed first, so that a command that makes none cannot pass it off as its own. Raises LabFault, one
    line, with the log as remedy.
    """
    made = tree / program
    made.unlink(missing_ok=True)
    code = _run(command.replace(_TREE, shlex.quote(str(tree))), tree, log, longest_s)
    remedy = f"all of it is in {log}"
    if code is None:
        raise LabFault(f"{name} was not built within {longest_s:.0f} s", remedy=remedy)
    if code:
        why = store.reason(log.read_text(encoding="utf-8", errors="replace"))
        raise LabFault(f"{name} cannot be built, exit code {code}: {why}", remedy=remedy)
    if not made.is_file():
        raise LabFault(f"{name} was built, and there is no {program}", remedy=remedy)
    if not os.access(made, os.X_OK):
        raise LabFault(f"{name} was built, and {program} is not executable", remedy=remedy)
    if needed := _needs_tree(made, tree):
        raise LabFault(f"{name} was built, but {program} {needed}", remedy="link it statically, because only the program is kept")
    return made


def _needs_tree(program: Path, tree: Path) -> str:
    """The reason why a program cannot run without its tree; empty if it can, or if nothing is known against it."""
    with program.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"#!"):
        return "is libtool's wrapper, not the program" if b"temporary wrapper script for .libs" in head else ""
    _, said = store.run(["ldd", program], timeout_s=_LONGEST_GIT_S)
    for line in said.splitlines():
        library, _, place = line.strip().partition(" => ")
        if place.startswith(f"{tree}{os.sep}") or place == "not found":
            return f"needs {library}, which is in its tree" if place != "not found" else f"needs {library}, which is not found"
    return ""


@contextmanager
def build_folder(keep: Path | None, command: str) -> Iterator[Path]:
    """A folder for the builds of a search: below `keep` by a digest of the command, so that a search finds those of the last one.

    Without `keep` a temporary one. Raises UsageProblem where another search is using it or it cannot be made.
    """
    if keep is None:
        with scratch_folder("roughwater-bisect-") as folder:
            yield folder
        return
    kept = keep.absolute() / hashlib.sha256(command.encode()).hexdigest()[:12]
    try:
        kept.mkdir(parents=True, exist_ok=True)
        lock = (kept / ".lock").open("a")
    except OSError as error:
        raise UsageProblem(f"{kept}: {error.strerror or error}", remedy="give another folder with --keep") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageProblem(f"another search is using {keep}", remedy="wait for it, or give another --keep") from None
        yield kept


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


def skipped_revisions(repo: Path, span: Range, words: Sequence[str]) -> list[str]:
    """The revisions of the span that `words` name, each a revision or OLD..NEW.

    Raises UsageProblem for a word that names none, and for an end of the span.
    """
    ends = {span.names[0], span.names[-1]}
    found: list[str] = []
    for word in words:
        listed = _git(repo, "rev-list", *([] if ".." in word else ["--max-count=1"]), "--abbrev-commit", "--end-of-options", word)
        if not listed:
            raise UsageProblem(f"--skip {word}: {word!r} names no revision of {repo}")
        named = [name for name in listed.split() if name in span.subjects]
        if ends & set(named):
            raise UsageProblem(f"--skip {word} would skip an end of the search", remedy="give another end")
        found += named
    return found


def commit_facts(repo: Path, revision: str) -> Commit:
    """Subject, author, date and the files that it changed against its first parent."""
    said = _git(repo, "log", "-1", "--no-show-signature", "--format=%H%x00%s%x00%an%x00%as", revision)
    name, subject, author, date = (said.split("\0") + [""] * 4)[:4]
    changed = _git(repo, "show", "--no-show-signature", "-m", "--first-parent", "--stat=100", "--format=", revision)
    lines = [line.strip() for line in changed.splitlines()]
    if len(lines) > _MOST_FILES + 1:
        lines = [*lines[:_MOST_FILES], f"... {len(lines) - 1 - _MOST_FILES} more files", lines[-1]]
    return Commit(name, subject, author, date, tuple(lines))


def client_name(program: str, otherwise: str) -> str:
    """The client whose adapter speaks for the builds: the client with their program's name, else the scenario's."""
    stem = PurePath(program).name
    return stem if stem in list_clients() else otherwise


def _told(repo: Path, revision: str) -> tuple[str, str]:
    short, _, subject = _git(repo, "log", "-1", "--no-show-signature", "--format=%h %s", revision).partition(" ")
    return short, subject


def _git(repo: Path, *words: str) -> str:
    """The output of git; empty where git fails. Raises UsageProblem where there is no git or no repository."""
    if shutil.which("git") is None:
        raise UsageProblem("there is no git to look for revisions with", remedy="sudo apt-get install git")
    code, said = store.run(["git", "-C", repo, *words], timeout_s=_LONGEST_GIT_S)
    if re.match(r"fatal: (not a git|detected dubious|cannot change)", said):
        raise UsageProblem(f"{repo}: {said.splitlines()[0].removeprefix('fatal: ')}", remedy="--repo names the repository")
    return said.strip() if code == 0 else ""


def _git_must(repo: Path, *words: str) -> None:
    """Raises LabFault with git's reason."""
    code, said = store.run(["git", "-C", repo, *words], timeout_s=_LONGEST_GIT_S)
    if code:
        raise LabFault(f"git {words[0]} failed in {repo}: {store.reason(said)}")


@contextmanager
def _tree(repo: Path, revision: str, parent: Path) -> Iterator[Path]:
    with scratch_folder("tree-", parent) as folder:
        tree = folder / "tree"
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
    process = None
    with log.open("wb") as said:
        try:
            with _signals_held():
                process = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    cwd=tree,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=_environment(tree),
                )
            return wait_for_end(process, longest_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def _signals_held() -> Iterator[None]:
    """SIGINT and SIGTERM are handled on leaving: a process that started before its number is known would outlive them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda came_in, _: came.append(came_in)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def _environment(tree: Path) -> dict[str, str]:
    """Compilers by ccache where it is installed. It ignores where the tree is, because every fresh tree has another name."""
    if not _CCACHE.is_dir():
        return {**os.environ}
    path = os.pathsep.join([str(_CCACHE), os.environ.get("PATH", os.defpath)])
    own = {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1", "CCACHE_DIR": str(cache_dir() / "ccache")}
    return {**own, **os.environ, "PATH": path}
