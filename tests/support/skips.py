"""A pytest plugin with a budget of skips: with `--skips tests/skips.txt` a run fails that skips more or less than the file says.

`nightly.txt` in the same folder has the tests that run at night only, a pattern a line.

A line is `CONDITION | TESTS | REASON`. Where the condition holds on this machine, every test whose name matches TESTS is
skipped, for a reason that matches REASON. Where it does not hold, none may be. `maybe` before the condition: some may be.
Patterns are those of a shell, `{one,other}` included; a name is the test's path below the repository. Conditions are
`CONDITIONS`, `no PROGRAM`, and `VARIABLE is not set`.

Only the tests that ran are judged, so that a lane is judged by the same file as a run of all tests.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

MAYBE = "maybe "
ALWAYS = "always"
NIGHTLY = "ROUGHWATER_NIGHTLY is not set"
"""The condition of the tests in nightly.txt. They need no skip of their own: the file decides (tests/conftest.py)."""
LEFT = "left to the night: make test-nightly"
_NO, _NOT_SET = "no ", " is not set"


@dataclass(frozen=True)
class Entry:
    """A line of the budget."""

    line: int
    condition: str
    tests: str
    reason: str
    maybe: bool

    def covers(self, test: str) -> bool:
        return _matches(test, self.tests)

    def explains(self, test: str, reason: str) -> bool:
        return self.covers(test) and _matches(reason, self.reason)


def parse(text: str) -> list[Entry]:
    """ValueError names a line that has another form."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = [word.strip() for word in line.split(" | ")]
        if len(words) != 3 or not all(words):
            raise ValueError(f"line {number} is not `CONDITION | TESTS | REASON`: {line}")
        condition = words[0].removeprefix(MAYBE)
        if condition not in CONDITIONS and not condition.startswith(_NO) and not condition.endswith(_NOT_SET):
            raise ValueError(f"line {number} has an unknown condition, {condition!r}")
        found.append(Entry(number, condition, words[1], words[2], words[0].startswith(MAYBE)))
    return found


def read(path: Path) -> list[Entry]:
    """The budget and what is left to the night, which `nightly.txt` in its folder has."""
    nightly = path.with_name("nightly.txt")
    lines = nightly.read_text(encoding="utf-8").splitlines() if nightly.exists() else []
    left = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    return parse(path.read_text(encoding="utf-8")) + [Entry(number, NIGHTLY, tests, LEFT, maybe=False) for number, tests in left]


def differences(entries: Sequence[Entry], ran: Mapping[str, str | None], holds: Callable[[str], bool]) -> list[str]:
    """What differs from the budget. `ran` has each test with the reason why it was skipped, or None."""
    found = []
    live = [entry for entry in entries if holds(entry.condition)]
    for test, reason in ran.items():
        if reason is not None:
            if not any(entry.explains(test, reason) for entry in live):
                found.append(f"{test} was skipped, which no line allows here: {reason}")
        elif must := next((entry for entry in live if not entry.maybe and entry.covers(test)), None):
            found.append(f"{test} ran, but line {must.line} says that it is skipped here ({must.condition})")
    return found


def left_to_the_night(entries: Sequence[Entry]) -> Callable[[str], bool]:
    """Whether a test does not run now, because it runs at night."""
    patterns = [_compiled(entry.tests).pattern for entry in entries if entry.condition == NIGHTLY]
    if not patterns or not holds(NIGHTLY):
        return lambda _test: False
    # One pattern: each worker asks it of thousands of tests.
    matches = re.compile("|".join(patterns)).match
    return lambda test: matches(test) is not None


@cache
def _expanded(pattern: str) -> tuple[str, ...]:
    """One pattern for each choice of the braces, which do not nest."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        # Brackets are those of a parametrized test, and no set of characters.
        return (pattern.replace("[", "[[]"),)
    before, after = pattern[: found.start()], pattern[found.end() :]
    return tuple(each for word in found[1].split(",") for each in _expanded(before + word + after))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """fnmatch itself keeps fewer patterns than the files have, and would compile each again for every test."""
    return re.compile("|".join(translate(each) for each in _expanded(pattern)))


def _matches(text: str, pattern: str) -> bool:
    return _compiled(pattern).match(text) is not None


def _is_root() -> bool:
    return os.geteuid() == 0


@cache
def _succeeds(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _may_mount() -> bool:
    user = [] if _is_root() else ["--map-current-user", "--keep-caps"]
    return _succeeds("unshare", "--mount", *user, "--", "mount", "-t", "tmpfs", "none", "/mnt")


def _has_wine() -> bool:
    from lab.assets import windows, wine

    return windows.find() is not None and wine.find_program() is not None


def _names_are_local_only() -> bool:
    try:
        lines = Path("/etc/hosts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return True
    names = [name for line in lines for name in line.partition("#")[0].split()[1:]]
    return all(name.endswith("localhost") for name in names)


CONDITIONS: dict[str, Callable[[], bool]] = {
    ALWAYS: lambda: True,
    "root": _is_root,
    "not root": lambda: not _is_root(),
    "not x86_64": lambda: platform.machine() != "x86_64",
    "no containers": lambda: not _succeeds("docker", "version"),
    "no mounts": lambda: not _may_mount(),
    "no ferry.exe or Wine": lambda: not _has_wine(),
    "under Wine": lambda: os.environ.get("ROUGHWATER_TEST_FERRY") == "wine",
    "/etc/hosts has localhost only": _names_are_local_only,
}
"""What a machine may be like; each is looked at once."""


@cache
def holds(condition: str) -> bool:
    """Whether a condition holds here."""
    if found := CONDITIONS.get(condition):
        return found()
    if condition.endswith(_NOT_SET):
        return not os.environ.get(condition.removesuffix(_NOT_SET))
    from lab.assets import tools

    return tools.find(condition.removeprefix(_NO)) is None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("skips").addoption("--skips", metavar="FILE", help="fail if what is skipped differs from this file")


def pytest_configure(config: pytest.Config) -> None:
    # xdist's workers report to the process that has the budget.
    if config.option.skips and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Budget(Path(config.option.skips)), "skips-budget")


class Budget:
    """Collects what was skipped, and fails a session that was green but for that."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = read(path)
        self._ran: dict[str, str | None] = {}
        self._found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._ran[report.nodeid] = str(words).removeprefix("Skipped: ")
        elif report.when == "call":
            self._ran.setdefault(report.nodeid, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self._found = differences(self._entries, self._ran, holds)
        if self._found and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._found:
            terminalreporter.section(f"skips that differ from {self._path}")
            for line in self._found:
                terminalreporter.write_line(line)
            # In the form of pytest's own last line, which .ci/lab-tests adds up.
            terminalreporter.write_line(f"{len(self._found)} failed by their skips in 0s")
