"""`python -m tests.support.coverage_lab [PATH...]`: which part of `lab` the tests run, by statement and branch, per room.

Without a path: tests/unit and tests/cells. It also writes which test ran which line to build/coverage/tests.json, where
`planted_noops` and `mutants_lab` find the tests that may see a mistake. Only pytest's own process counts: a program that a
test starts on a host does not. coverage.py comes from PyPI into a folder of its own, in build/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.mutation.copies import ROOT, jobs

PACKAGE = "coverage==7.17.5"
FOLDER = ROOT / "build" / "coverage"
LINES = FOLDER / "tests.json"
_DEFAULT = ("tests/unit", "tests/cells")
_CONFIG = """[run]
branch = True
source = lab
dynamic_context = test_function
parallel = True
relative_files = True
data_file = {folder}/data
[report]
precision = 1
exclude_also =
    if TYPE_CHECKING:
    \\.\\.\\.$
[json]
show_contexts = True
"""
_TEST = re.compile(r"(tests\.\S+?\.test_\w+)\.(.+)")


def installed() -> Path:
    """The folder that has coverage.py; made once."""
    place = FOLDER / "package"
    if not (place / "coverage").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", place, PACKAGE], check=True)
    return place


def lines_by_test(report: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    """For every file, the lines that each test ran, from coverage's own JSON."""
    found: dict[str, dict[str, list[int]]] = {}
    for path, file in report["files"].items():
        ran: dict[str, list[int]] = defaultdict(list)
        for line, contexts in file["contexts"].items():
            for test in filter(None, map(test_of, contexts)):
                ran[test].append(int(line))
        found[path] = dict(ran)
    return found


def test_of(context: str) -> str | None:
    """A test as pytest names it, from coverage's `tests.unit.run.test_faults.test_name`."""
    if not (found := _TEST.fullmatch(context)):
        return None
    return f"{found[1].replace('.', '/')}.py::{found[2].replace('.', '::')}"


def by_room(report: dict[str, Any]) -> list[tuple[str, int, int, int, int]]:
    """Room, statements, those that ran, branches, those that ran."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for path, file in report["files"].items():
        parts = path.split("/")
        numbers = [file["summary"][name] for name in ("num_statements", "covered_lines", "num_branches", "covered_branches")]
        for room in ("lab", "/".join(parts[:2])) if len(parts) > 2 else ("lab",):
            rooms[room] = [a + b for a, b in zip(rooms[room], numbers, strict=True)]
    return [(room, *numbers) for room, numbers in sorted(rooms.items())]  # type: ignore[misc]


def run(paths: Sequence[str]) -> list[int]:
    """Run tests, as many processes at a time as there are jobs; returns the exit codes."""
    config = FOLDER / "rc"
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("data*"):
        old.unlink()
    config.write_text(_CONFIG.format(folder=FOLDER))
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{installed()}"}
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-p", "no:cacheprovider"]

    def one(path: str) -> int:
        return subprocess.run([*command, path], cwd=ROOT, env=env, check=False, timeout=7200).returncode

    with ThreadPoolExecutor(int(jobs())) as pool:
        return list(pool.map(one, paths))


def report() -> dict[str, Any]:
    """coverage's report of all runs."""
    env = {**os.environ, "PYTHONPATH": str(installed())}
    for words in (["combine", "-q"], ["json", "-q", "-o", str(FOLDER / "report.json")]):
        command = [sys.executable, "-m", "coverage", words[0], f"--rcfile={FOLDER / 'rc'}", *words[1:]]
        subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=1200)
    return dict(json.loads((FOLDER / "report.json").read_text()))


def spread(paths: Iterable[str]) -> list[str]:
    """Folders of rooms, so that they run side by side."""
    found = []
    for path in paths:
        folders = [each for each in sorted((ROOT / path).iterdir()) if each.is_dir() and any(each.rglob("test_*.py"))]
        files = sorted((ROOT / path).glob("test_*.py"))
        found += [str(each.relative_to(ROOT)) for each in (*folders, *files)]
    return found


def main(words: Sequence[str]) -> int:
    codes = run(list(words) or spread(_DEFAULT))
    found = report()
    LINES.write_text(json.dumps(lines_by_test(found)))
    print("| room | statements | ran | branches | ran |\n|---|---|---|---|---|")
    for room, statements, ran, branches, taken in by_room(found):
        print(f"| {room} | {statements:,} | {ran / statements:.1%} | {branches:,} | {taken / branches if branches else 1:.1%} |")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
