"""Which tests of the lab may see a mistake in a module, fastest first, and whether one does."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.mutation.copies import Copy, jobs

FIRST = 25
"""Tests by line that run at once; most mistakes fail one of them."""
MOST = 400
SKIPS = "tests/skips.txt"
# All passed, some failed, none were there: exit codes of a run that came to its end.
_FAILED = 1
_PYTEST_RAN = (0, _FAILED, 5)


@dataclass(frozen=True)
class Step:
    """Tests that run together, and the seconds they may take. Many files are spread over workers; `late` ones need minutes."""

    name: str
    paths: tuple[str, ...]
    limit_s: float
    late: bool = False
    spread: bool = False


@dataclass(frozen=True)
class Seen:
    """What came of a mistake: `test` failed because of it, or none did."""

    test: str | None
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return f"caught by {self.test}" if self.test else f"SURVIVED {', '.join(self.steps)}"


class Traced:
    """Which tests ran which lines, as tests/support/coverage_lab.py writes it; empty where that never ran."""

    def __init__(self, file: Path) -> None:
        self.by_path: dict[str, dict[str, list[int]]] = json.loads(file.read_text()) if file.is_file() else {}

    def tests(self, path: str, first: int, last: int) -> list[str]:
        """Tests that ran a line from `first` to `last`, the most specific first: those that ran the fewest lines of the file.

        A line that runs at import belongs to every test that uses the module.
        """
        ran = self.by_path.get(path, {})
        found = [test for test, lines in ran.items() if any(first <= line <= last for line in lines)] or list(ran)
        stem = Path(path).stem.removesuffix("_script")
        return sorted(found, key=lambda test: (f"/test_{stem}.py::" not in test, len(ran[test]), test))


def steps(root: Path, module: str, lines: tuple[int, int], traced: Traced, *, quick: bool = False) -> list[Step]:
    """For lines of a module. `quick` leaves out what takes minutes."""
    found = []
    if by_line := traced.tests(module, *lines):
        found.append(Step("tests that run these lines", tuple(by_line[:FIRST]), 600))
        if others := tuple(by_line[FIRST:MOST]):
            found.append(Step("other tests that run these lines", others, 900, spread=True))
    near = _near(root, module)
    room = f"tests/unit/{module.split('/')[1].removesuffix('.py')}"
    if near:
        found.append(Step("tests of the module", tuple(near), 600))
    if not by_line and (root / room).is_dir():
        found.append(Step(room, (room,), 900, late=True, spread=True))
    if not quick:
        found.append(Step("tests/unit", ("tests/unit",), 1500, late=True, spread=True))
        found.append(
            Step("tests/cells, virtual, docs", ("tests/cells", "tests/virtual", "tests/docs"), 1500, late=True, spread=True)
        )
        found.append(Step("tests/network, vagrant", ("tests/network", "tests/vagrant"), 1500, late=True))
    return found


def _near(root: Path, module: str) -> list[str]:
    """Unit tests that are named after the module or import it."""
    dotted = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    room, stem = module.split("/")[1].removesuffix(".py"), Path(module).stem.removesuffix("_script")
    parent, _, name = dotted.rpartition(".")
    imports = re.compile(rf"\b{re.escape(dotted)}\b|from {re.escape(parent)} import [^\n]*\b{name}\b|{re.escape(module)}")
    near = []
    for file in sorted((root / "tests/unit").rglob("test_*.py")):
        if re.fullmatch(rf"test_(?:\w+_)?{re.escape(stem)}(?:_\w+)?", file.stem) or imports.search(
            file.read_text(encoding="utf-8")
        ):
            near.append(str(file.relative_to(root)))
    # The file that is named after the module first, and the room's own before others.
    return sorted(near, key=lambda path: (Path(path).stem != f"test_{stem}", f"/{room}/" not in path))


def look(copy: Copy, path: str, text: str, which: Sequence[Step]) -> Seen:
    """Plant the text and run the steps until a test fails that passes without it."""
    done: list[str] = []
    innocent: set[str] = set()
    for step in which:
        with copy.planted(path, text):
            code, failed = run_pytest(copy, _words(step, innocent), step.limit_s)
        done.append(step.name if code is not None else f"{step.name} (not finished in {step.limit_s:.0f} s)")
        for test in failed[:3]:
            if run_pytest(copy, _words(Step("alone", (test,), 600), innocent), 600)[0] == 0:
                return Seen(test, tuple(done))
            innocent.add(test)
        if code == _FAILED and not failed and _skips_more(copy, step, innocent):
            return Seen(f"{step.name}: a skip that tests/skips.txt does not allow", tuple(done))
        if code not in (*_PYTEST_RAN, None) and not failed:
            return Seen(f"{step.name}: pytest itself ended with {code}", tuple(done))
    return Seen(None, tuple(done))


def _skips_more(copy: Copy, step: Step, innocent: set[str]) -> bool:
    """Whether the mistake makes the step skip what it may not: a lab that does not support something skips, and CI fails."""
    if copy.run([sys.executable, "-m", "pytest", "--version"], 60).code:
        raise SystemExit(f"{step.name}: pytest does not run")
    return run_pytest(copy, _words(step, innocent), step.limit_s)[0] == 0


def run_pytest(copy: Copy, words: Sequence[str], limit_s: float, **variables: str) -> tuple[int | None, list[str]]:
    """The exit code, None where the limit ended it, and the tests that failed, as pytest itself names them."""
    with tempfile.TemporaryDirectory(prefix="roughwater-failed-") as folder:
        budget = ["--skips", SKIPS] if (copy.root / SKIPS).exists() else []
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-o", f"cache_dir={folder}", "--tb=no", *budget, *words]
        ran = copy.run(command, limit_s, **variables)
        failed = Path(folder, "v/cache/lastfailed")
        return ran.code, list(json.loads(failed.read_text())) if failed.exists() else []


def _words(step: Step, without: set[str]) -> list[str]:
    words = [*step.paths, *(word for test in sorted(without) for word in ("--deselect", test))]
    return [*words, "-n", jobs(), "--dist", "loadfile"] if step.spread and jobs() != "1" else words
