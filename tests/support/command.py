"""The `lab` command as a person starts it, and what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

EXIT_CODES = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}
"""Exit codes of a cell with a verdict."""


def lab(*words: str, env: dict[str, str] | None = None, timeout: float = 540) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("lab: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


class WrongVerdict(AssertionError):
    """A verdict that a cell must not have. Noise does not explain it: the lab judges only samples that nothing disturbed."""


def verdict_of(cell: str, *, clock: str, results: Path) -> str:
    """Run a cell as a user does, and return its verdict. AssertionError if it has none (usage, INVALID, a crash)."""
    words = ("run", cell, "--clock", clock, "--max-samples", "10", "--json")
    done = lab(*words, env={"ROUGHWATER_RESULTS": str(results)})
    assert done.returncode in EXIT_CODES, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    verdict = str(json.loads(done.stdout)["verdicts"][cell])
    assert EXIT_CODES[done.returncode] == verdict, done.stdout
    return verdict
