"""A revision as a checkout of its own, and commands of its lab with this checkout's programs."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lab.model.paths import cache_dir, project_root
from tests.nets.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = project_root()
_LONGEST_S = 3600
_OWN = "certificates"
"""What each tree makes for itself: a certificate of the other's would hide a difference of its calibration."""


class Tree:
    """A checkout of one revision. Its lab runs in this environment, with its own results and certificates."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self._work = folder, work
        cache = work / "cache"
        (cache / _OWN).mkdir(parents=True)
        for each in cache_dir().iterdir():
            if each.name != _OWN:
                (cache / each.name).symlink_to(each)
        self._environment = {**os.environ, "ROUGHWATER_CACHE": str(cache), "PYTHONPATH": str(folder), "COLUMNS": "200"}

    def run(self, row: Row) -> tuple[str, Path | None]:
        """What the command printed, and the run that it stored. Verdicts may be any; a command that fails stops the nets."""
        results = self._work / row.name
        said = self._lab(row.words, results)
        runs = sorted(results.iterdir()) if results.is_dir() else []
        return said, next((each for each in reversed(runs) if (each / "run.json").is_file()), None)

    def page(self, run: Path) -> tuple[str, str]:
        """The page and the summary that this tree makes of a stored run, wherever that was stored."""
        page = self._work / "page.html"
        summary = self._lab(("report", str(run), "-o", str(page), "--markdown", "-"), self._work / "reports")
        return page.read_text(encoding="utf-8"), summary

    def _lab(self, words: tuple[str, ...], results: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "lab.cli.main", *words],
            cwd=self.folder,
            env={**self._environment, "ROUGHWATER_RESULTS": str(results)},
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"nets: lab {' '.join(words)} ended with {done.returncode} in {self.folder}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def two_trees(base: str, work: Path) -> Iterator[tuple[Tree, Tree]]:
    """The revision `base` in a worktree that goes away again, and this checkout. Both have this one's engine."""
    with ExitStack() as stack:
        old = work / "checkout"
        _git("worktree", "add", "--detach", "--force", str(old), base)
        stack.callback(_git, "worktree", "remove", "--force", str(old))
        (old / "engine" / "target").symlink_to(_ROOT / "engine" / "target")
        for name in ("base", "here"):
            (work / name).mkdir()
        yield Tree(old, work / "base"), Tree(_ROOT, work / "here")


def _git(*words: str) -> None:
    done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"nets: git {' '.join(words)}: {done.stderr.strip()}")
