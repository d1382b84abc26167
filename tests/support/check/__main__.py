"""The quick checks of a change: `python -m tests.support.check`; README.md says how it chooses.

The last line is `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab.assets import engine
from tests.support.check import crates, imports, selection
from tests.support.check.changes import changed
from tests.support.check.running import run
from tests.support.check.steps import chains

ROOT = Path(__file__).resolve().parents[3]
LOGS = ROOT / "build" / "check"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--base", metavar="COMMIT", help="compare with the merge base of HEAD and this; by default origin/main or main"
    )
    asked = parser.parse_args(words)
    begun = time.monotonic()
    change = changed(ROOT, asked.base or None)
    dependents = crates.dependents(ROOT)
    checkout = selection.Checkout(lambda path: (ROOT / path).exists(), imports.build(ROOT), dependents)
    chosen = selection.select(change.paths, checkout)
    print(f"check: {len(change.paths)} changed paths since {change.since}", flush=True)
    for note in chosen.notes:
        print(f"check: {note}", flush=True)
    cargo, tools = _cargo() if chosen.rust or chosen.crates or chosen.fuzz else (None, frozenset[str]())
    notes = LOGS / "engine-skipped.txt"
    notes.unlink(missing_ok=True)
    ends = run(chains(chosen, tools, processors=os.cpu_count() or 1, cargo=cargo, notes=notes), ROOT, LOGS)
    skipped = {line.partition(": ")[0] for line in notes.read_text().splitlines()} if notes.exists() else set()
    passed, failed = (sum(getattr(end, kind) for end in ends) for kind in ("passed", "failed"))
    print(f"check: {time.monotonic() - begun:.0f} s; each step's output is in {LOGS.relative_to(ROOT)}/")
    # A test of Rust that lacks a part has passed for cargo.
    print(f"{passed - len(skipped)} passed, {failed} failed, {sum(end.skipped for end in ends) + len(skipped)} skipped")
    return 1 if failed else 0


def _cargo() -> tuple[Path, frozenset[str]]:
    """The cargo that builds ferry, and those of its subcommands that are there; each that lacks is named."""
    cargo = engine.find_cargo()
    if cargo is None:
        raise SystemExit("make check: the engine changed, and no cargo on this machine can build it; `make setup` brings one")
    there = set()
    for tool in ("fmt", "clippy", "nextest"):
        words = [str(cargo), tool, "--version"]
        done = subprocess.run(words, cwd=ROOT / "engine", env=engine.environment(cargo), capture_output=True, check=False)
        if done.returncode == 0:
            there.add(tool)
        else:
            print(f"check: no cargo {tool} beside {cargo}: that step is left out, or done by cargo test", flush=True)
    return cargo, frozenset(there)


if __name__ == "__main__":
    sys.exit(main())
