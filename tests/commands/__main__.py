"""`python -m tests.commands`: see `--help`. Ends with exit 1 where a command did not do what its row says."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.commands.evidence import Done
from tests.commands.rows import ROWS, Row
from tests.support.processes import adopting, command, descendants

_HERE = Path(__file__).resolve().parents[2]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.commands", description=__doc__)
    parser.add_argument("--row", action="append", default=[], help="only this row of tests/commands/rows.py; may be repeated")
    parser.add_argument("--here", action="store_true", help="in this checkout, not in a clean clone of its HEAD")
    parser.add_argument("--list", action="store_true", help="print the rows and run none")
    given = parser.parse_args(words)
    if unknown := set(given.row) - {row.name for row in ROWS}:
        parser.error(f"no row {', '.join(sorted(unknown))}; --list has them")
    rows = [row for row in ROWS if not given.row or row.name in given.row]
    if given.list:
        print("\n".join(f"{row.name}: {' '.join(row.words)}" for row in rows))
        return 0
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with adopting(), ExitStack() as stack:
        checkout = _HERE if given.here else stack.enter_context(_clone())
        results = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roughwater-commands-")))
        print("| row | exit code | seconds | problems |\n|---|--:|--:|---|", flush=True)
        for row in rows:
            outcome, line = _run(row, checkout, results)
            count[outcome] += 1
            print(line, flush=True)
    print(", ".join(f"{number} {outcome}" for outcome, number in count.items()))
    return 1 if count["failed"] else 0


@contextmanager
def _clone() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="roughwater-clone-") as name:
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", _HERE.as_uri(), name], check=True)
        yield Path(name)


def _run(row: Row, checkout: Path, results: Path) -> tuple[str, str]:
    """The outcome, and a line of the table."""
    if row.needs and shutil.which(row.needs) is None:
        return "skipped", f"| {row.name} | | | skipped: there is no {row.needs} |"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="roughwater-work-") as name:
        work = Path(name)
        if row.prepare:
            row.prepare(work)
        code, output = _type([word.format(work=work) for word in row.words], checkout, results, row.longest_s)
        seconds = time.monotonic() - begun
        problems = [f"it ran for more than {row.longest_s:.0f} s"] if code is None else []
        if code is not None and code not in row.codes:
            problems.append(f"it said {output.strip().splitlines()[-1][-200:] if output.strip() else 'nothing'}")
        problems = problems or row.check(Done(checkout, results, work, output))
    problems += [f"it left {line[:80]}" for line in map(command, descendants(os.getpid())) if line]
    outcome = "failed" if problems else "passed"
    return outcome, f"| {row.name} | {'' if code is None else code} | {seconds:.0f} | {'; '.join(problems)} |"


def _type(words: list[str], checkout: Path, results: Path, longest_s: float) -> tuple[int | None, str]:
    """Exit code and all that was printed; no exit code where it had to be ended."""
    env = {**os.environ, "ROUGHWATER_RESULTS": str(results), "ROUGHWATER_LAUNCHER": "no"}
    try:
        done = subprocess.run(
            words,
            cwd=checkout,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=longest_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, (late.output or b"").decode(errors="replace") if isinstance(late.output, bytes) else str(late.output or "")
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
