"""The paths of a change: of the commits since the base, and of the working tree: staged, unstaged and untracked."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """`since` says in words what the paths are compared with. A path that was deleted or renamed away is in it too."""

    since: str
    paths: tuple[str, ...]


def changed(root: Path, base: str | None = None) -> Change:
    """Against the merge base with `base`, by default origin/main, else main; in a folder without either, against HEAD.

    Raises SystemExit if git knows no such base.
    """
    if base and not _has(root, base):
        raise SystemExit(f"make check: git knows no commit {base}; BASE takes a branch, a tag or a commit of {root}")
    main = base or next((name for name in ("origin/main", "main") if _has(root, name)), None)
    start = _git(root, "merge-base", "HEAD", main).strip() if main else "HEAD"
    # Without looking for renames: the old path is a change too, because tests may name it.
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", start, "--")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    paths = {path for text in (tracked, untracked) for path in text.split("\0") if path}
    return Change(f"the merge base with {main}, {start[:9]}" if main else "HEAD", tuple(sorted(paths)))


def _has(root: Path, name: str) -> bool:
    words = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    return subprocess.run(words, cwd=root, capture_output=True, check=False).returncode == 0


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"make check: git {' '.join(words)} failed in {root}: {done.stderr.strip()}")
    return done.stdout
