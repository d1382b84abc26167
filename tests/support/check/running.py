"""Runs chains of steps side by side, a line for each step that ends; what a step printed is shown where it failed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from tests.support import jobs
from tests.support.check.steps import Chain, Step

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CANNOT_START = 127


@dataclass(frozen=True)
class End:
    """The outcome of a step: its tests, or for a linter one failure or none."""

    ok: bool
    seconds: float
    text: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def run(chains: Sequence[Chain], root: Path, logs: Path) -> list[End]:
    """Every step runs, whatever came of those before it."""
    logs.mkdir(parents=True, exist_ok=True)
    printing = Lock()

    def chain(steps: Chain) -> list[End]:
        ends = []
        for step in steps:
            end = _run(step, root)
            (logs / f"{step.name.replace(' ', '-')}.log").write_text(end.text, encoding="utf-8")
            with printing:
                print("\n".join(lines(step, end)), flush=True)
            ends.append(end)
        return ends

    with ThreadPoolExecutor(max_workers=max(1, len(chains))) as pool:
        return [end for ends in pool.map(chain, chains) for end in ends]


def lines(step: Step, end: End) -> list[str]:
    """Where the step failed, what it printed, without pytest's dots; then the step's own line."""
    shown = [] if end.ok else list(jobs.shown(end.text))
    counted = (
        [f"{number} {kind}" for kind in ("passed", "failed", "skipped") if (number := getattr(end, kind))] if step.counts else []
    )
    words = ", ".join(["ok" if end.ok else "FAILED", f"{end.seconds:.1f} s", *counted])
    return [*shown, f"check: {step.name}: {words}" + (f" ({step.what})" if step.what else "")]


def concluded(step: Step, code: int, text: str, seconds: float) -> End:
    """A step that fails without a failed test is one failure: a red run never says `0 failed`."""
    ok = code in step.fine
    counts = step.counts(text) if step.counts else {"passed": 0, "failed": 0, "skipped": 0}
    if not ok and not counts["failed"]:
        counts["failed"] = 1
    return End(ok, seconds, text, **counts)


def _run(step: Step, root: Path) -> End:
    begun = time.monotonic()
    code, text = _printed(step, step.argv, root)
    if step.otherwise and code not in step.codes:
        code, text = _printed(step, step.otherwise, root)
    return concluded(step, code, text, time.monotonic() - begun)


def _printed(step: Step, argv: Sequence[str], root: Path) -> tuple[int, str]:
    place, environment = root / step.folder, {**os.environ, **step.environment}
    try:
        done = subprocess.run(
            argv,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as problem:
        return _CANNOT_START, f"{argv[0]} does not start: {problem}; `make setup` brings what is missing"
    return done.returncode, _COLOUR.sub("", done.stdout)
