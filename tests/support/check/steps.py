"""The commands of `make check`, as chains that run side by side; the steps of a chain run one after the other."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.assets import engine
from tests.support.check.crates import filterset
from tests.support.check.selection import Selection
from tests.support.engine_tests import FAILURES_ONLY, NEXTEST, REALTIME, SKIPPED

BIN = Path(sys.executable).parent
IDLE_S = 1800
"""After so long without a question the types' warm checker ends by itself; it holds half a gigabyte."""
_NO_TESTS = 5
# Two workers start slower than a few files run.
_FEW = 3
_PYTEST = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")
_SUMMARY = re.compile(r"(\d+) (passed|failed)\b")
_CARGO_TEST = re.compile(r"(\d+) (passed|failed|ignored)\b")
_KINDS = {"error": "failed", "errors": "failed", "ignored": "skipped"}


@dataclass(frozen=True)
class Step:
    """A command of the checkout. `otherwise` runs too where the command itself did not work: its exit code is not in `codes`."""

    name: str
    argv: tuple[str, ...]
    folder: str = "."
    environment: dict[str, str] = field(default_factory=dict)
    counts: Callable[[str], dict[str, int]] | None = None
    """For a step that runs tests; a linter that finds something is one failure."""
    codes: tuple[int, ...] = ()
    otherwise: tuple[str, ...] = ()
    fine: tuple[int, ...] = (0,)
    what: str = ""


Chain = tuple[Step, ...]


def chains(chosen: Selection, tools: frozenset[str], *, processors: int, cargo: Path | None, notes: Path) -> list[Chain]:
    """`tools` are cargo's subcommands that are there; `notes` is where tests of Rust say that they were skipped."""
    unit = (_unit(chosen.tests, processors),) if chosen.tests else ()
    rust = _rust(chosen, tools, cargo, notes) if cargo else []
    return [chain for chain in (unit, _lints(chosen), *rust) if chain]


def _lints(chosen: Selection) -> Chain:
    python = str(BIN / "python")
    made = [
        Step("ruff check", (str(BIN / "ruff"), "check", "--quiet", "--no-cache", ".")),
        Step("ruff format", (str(BIN / "ruff"), "format", "--check", "--quiet", "--no-cache", ".")),
    ]
    if chosen.types:
        # Its status file is the checkout's own, so each has a checker of its own; `make clean` forgets it, and it ends idle.
        warm = (str(BIN / "dmypy"), "--status-file", ".mypy_cache/check.json", "run", "--timeout", str(IDLE_S))
        plain = (str(BIN / "mypy"), "--no-error-summary")
        made.append(Step("types", warm, codes=(0, 1), otherwise=plain, what="lab, reports"))
        made.append(Step("imports", (str(BIN / "lint-imports"), "--no-cache", "--no-logo")))
    if chosen.suites:
        made.append(Step("robocop", (str(BIN / "robocop"), "check", "--no-cache", "suites")))
    if chosen.dockerfiles:
        made.append(Step("hadolint", (str(BIN / "hadolint"), "--config", "images/.hadolint.yaml", *chosen.dockerfiles)))
    if chosen.waits:
        made.append(Step("waits", (python, "-m", "tests.support.waits"), what="tests/waits.txt"))
    return tuple(made)


def _unit(tests: Sequence[str], processors: int) -> Step:
    many = len(tests) > _FEW or any(not test.endswith(".py") for test in tests)
    workers = ("-n", str(processors), "--dist", "loadfile", "--no-loadscope-reorder") if many and processors > 1 else ()
    # Without two files that count what crosses the machine's loopback, which other steps may use meanwhile.
    words = ("tests/support/reaper.py", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "beside", *workers, *tests)
    return Step("unit tests", (str(BIN / "python"), *words), counts=pytest_counts, fine=(0, _NO_TESTS), what=_listed(tests))


def _rust(chosen: Selection, tools: frozenset[str], cargo: Path | None, notes: Path) -> list[Chain]:
    assert cargo is not None
    environment = {
        "PATH": engine.environment(cargo)["PATH"],
        # As in .ci/engine-tests: the same cases in every run, and the one test that only root can run.
        "PROPTEST_RNG_SEED": os.environ.get("PROPTEST_RNG_SEED", "2026"),
        SKIPPED: str(notes),
        **({} if os.geteuid() == 0 else {"FERRY_ALLOW_SKIP": os.environ.get("FERRY_ALLOW_SKIP", "mount")}),
    }

    def step(
        name: str, *words: str, folder: str = "engine", counts: Callable[[str], dict[str, int]] | None = None, what: str
    ) -> Step:
        return Step(name, ("cargo", *words), folder, environment, counts, what=what)

    packages = tuple(word for crate in chosen.crates for word in ("-p", crate))
    names = ", ".join(chosen.crates)
    tests: list[Step] = []
    lints: list[Step] = []
    if chosen.rust and "fmt" in tools:
        lints.append(step("cargo fmt", "fmt", "--check", what="engine"))
    if chosen.crates and "nextest" in tools:
        left = f"not ({filterset(REALTIME.pattern)})"
        what = f"{names}; without tests in real time and the documentation's examples (make test-engine)"
        run = (*NEXTEST[1:], *FAILURES_ONLY, *packages, "-E", left)
        tests.append(step("engine tests", *run, counts=nextest_counts, what=what))
    elif chosen.crates:
        tests.append(step("engine tests", "test", "--quiet", "--locked", *packages, counts=cargo_test_counts, what=names))
    if chosen.crates and "clippy" in tools:
        lints.append(
            step("clippy", "clippy", "--quiet", "--locked", "--all-targets", *packages, "--", "-D", "warnings", what=names)
        )
    if chosen.fuzz and "clippy" in tools:
        words = ("clippy", "--quiet", "--locked", "--", "-D", "warnings")
        lints.append(step("clippy of fuzz", *words, folder="engine/fuzz", what="engine/fuzz"))
    return [tuple(tests), tuple(lints)]


def pytest_counts(text: str) -> dict[str, int]:
    """By pytest's last line: `3 failed, 40 passed, 2 skipped in 5.20s`."""
    lines = [line for line in text.splitlines() if re.search(r" in \d+[.\d]*s", line)]
    return _counted(_PYTEST, lines[-1:])


def nextest_counts(text: str) -> dict[str, int]:
    """By nextest's summary, whose `skipped` are tests that the expression leaves out."""
    return _counted(_SUMMARY, [line for line in text.splitlines() if "Summary" in line])


def cargo_test_counts(text: str) -> dict[str, int]:
    return _counted(_CARGO_TEST, [line for line in text.splitlines() if line.startswith("test result:")])


def _counted(pattern: re.Pattern[str], lines: Sequence[str]) -> dict[str, int]:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for line in lines:
        for number, kind in pattern.findall(line):
            counts[_KINDS.get(kind, kind)] += int(number)
    return counts


def _listed(tests: Sequence[str], most: int = 6) -> str:
    """`judge, cli/test_main.py and 12 more`, folders first."""
    names = sorted((test.removeprefix("tests/unit/") for test in tests), key=lambda name: (name.endswith(".py"), name))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
