"""`python -m tests.support.mutants_lab [--seed N] [--count N] [ROOM...]`: cosmic-ray's mistakes in rooms of the lab.

Draws mistakes by seed, plants each in a copy of the checkout and runs the unit tests that may see it. One line per mistake that
no test sees, with its place and its change; the last lines are the scores. cosmic-ray comes from PyPI into an
environment of its own, in build/.
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.coverage_lab import LINES
from tests.support.mutation import lab_tests
from tests.support.mutation.copies import ROOT, Copy
from tests.support.mutation.equivalents import why
from tests.support.mutation.lab_tests import Traced
from tests.support.mutation.score import Score

PACKAGE = "cosmic-ray==8.7.0"
ROOMS = ("judge", "store", "net", "run")
SEED = 24
COUNT = 60
_SCRIPT = Path(__file__).parent / "mutation" / "operators_script.py"


def environment(folder: Path) -> Path:
    """The Python that has cosmic-ray; made once."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        (folder / "complete").touch()
    return python


def draw(python: Path, root: Path, room: str, count: int, seed: int) -> tuple[list[dict[str, Any]], int]:
    """Mistakes in a room, and how many there are to draw from."""
    files = [str(path.relative_to(root)) for path in sorted((root / "lab" / room).rglob("*.py"))]
    done = subprocess.run(
        [python, _SCRIPT, str(seed), str(count), *files], cwd=root, check=True, stdout=subprocess.PIPE, text=True, timeout=900
    )
    answer = json.loads(done.stdout)
    return answer["drawn"], answer["existing"]


def changed(before: str, after: str) -> tuple[str, str]:
    """The lines of the change as they were and as they are, each in one."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[3:]
    was, is_now = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return was, is_now


def looked(copy: Copy, mistakes: Sequence[dict[str, Any]]) -> Iterator[Score]:
    """A score of one for each mistake."""
    traced = Traced(LINES)
    for each in mistakes:
        was, is_now = changed((copy.root / each["path"]).read_text(encoding="utf-8"), each["planted"])
        which = lab_tests.steps(copy.root, each["path"], (each["line"], each["line"]), traced, quick=True)
        seen = lab_tests.look(copy, each["path"], each["planted"], which)
        equivalent = None if seen.test else why(each["path"], was, is_now)
        said = f"equivalent: {equivalent}" if equivalent else seen
        print(f"{each['path']}:{each['line']}: {each['operator']}: - {was} + {is_now}\n    {said}", flush=True)
        yield Score(int(seen.test is not None), 1, 0, int(equivalent is not None))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="mistakes per room")
    parser.add_argument("--workers", type=int, default=2, help="copies of the checkout, each with one mistake at a time")
    options = parser.parse_args(words)
    python = environment(ROOT / "build" / "cosmic-ray")
    scores: dict[str, Score] = {}
    with tempfile.TemporaryDirectory(prefix="roughwater-mutants-") as folder:
        copies = [Copy.make(Path(folder, str(number))) for number in range(options.workers)]
        for room in options.rooms:
            mistakes, existing = draw(python, copies[0].root, room, options.count, options.seed)
            parts = [mistakes[number :: len(copies)] for number in range(len(copies))]
            with ThreadPoolExecutor(len(copies)) as pool:
                results = [
                    each for part in pool.map(lambda pair: list(looked(*pair)), zip(copies, parts, strict=True)) for each in part
                ]
            scores[room] = sum(results, Score(0, 0, existing))
            print(f"lab/{room}, seed {options.seed}: {scores[room]}", flush=True)
    return 0 if all(score.share >= 0.9 for score in scores.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
