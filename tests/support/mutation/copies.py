"""A copy of the checkout in which mistakes are planted. The checkout itself never changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def jobs() -> str:
    """How much runs at a time: `$ROUGHWATER_JOBS`, else one per processor."""
    return os.environ.get("ROUGHWATER_JOBS") or str(os.cpu_count() or 1)


@dataclass(frozen=True)
class Done:
    """A command that ended, or that its limit ended (`code` is then None)."""

    code: int | None
    text: str


@dataclass(frozen=True)
class Copy:
    """`root` has the files that git knows, as they are in the checkout now, its environment and its ferry."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> Copy:
        """Make it, or bring an earlier one up to date; what was built in it stays."""
        if not root.exists():
            subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, root], check=True)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, names):
            source, target = ROOT / name, root / name
            if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        if not (root / ".venv").exists():
            (root / ".venv").symlink_to(sys.prefix)
        built = ROOT / "engine/target/release/ferry"
        if built.exists():
            (root / "engine/target/release").mkdir(parents=True, exist_ok=True)
            shutil.copy2(built, root / "engine/target/release/ferry")
            # As after a build of the sources that were just copied (lab/assets/engine.py).
            (root / "engine/target/.roughwater-built").touch()
        return cls(root)

    @contextmanager
    def planted(self, path: str, text: str) -> Iterator[None]:
        """Within the block the file has this text."""
        file = self.root / path
        before = file.read_text(encoding="utf-8")
        try:
            file.write_text(text, encoding="utf-8")
            yield
        finally:
            file.write_text(before, encoding="utf-8")

    def run(self, words: Sequence[str | Path], limit_s: float, *, folder: str = ".", **variables: str) -> Done:
        """Run a command in the copy, with the copy's packages before all others. Its process group ends with it."""
        env = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1", **variables}
        return run(words, limit_s, self.root / folder, env)


def run(words: Sequence[str | Path], limit_s: float, folder: Path, env: Mapping[str, str]) -> Done:
    """As `Copy.run`, anywhere."""
    with subprocess.Popen(
        words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            text, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            text, _ = process.communicate()
            return Done(None, text)
    return Done(process.returncode, text)
