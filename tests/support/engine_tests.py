"""Runs the engine's tests; the last line is `N passed, N failed, N skipped`. `.ci/engine-tests` calls it after its lints.

cargo-nextest runs tests in parallel. A real-time test that fails there runs again alone and watched, by the rule of
`tests.support.attempts`; nextest's own retries cannot tell noise from defects. Every other failure is final.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.support.attempts import Attempt, Final, conclude, repeat
from tests.support.spans import Spans, await_quiet

SKIPPED = "FERRY_SKIPPED"
"""The file where tests of Rust say that they were skipped (engine/crates/ferry-engine/tests/support/lacking.rs)."""
ENGINE = Path(__file__).parents[2] / "engine"
QUIET_S = 30.0
BESIDE = "it ran beside other tests"
# They wait for real sockets, processes and timers. All others read no clock, or a clock that the test sets.
REALTIME = re.compile(
    r"ferry-engine::(ssh_openssh|library|http3) .*|ferry-engine (ssh::session|net|platform)::.*"
    r"|ferry-engine files::writer::tests::small_pieces_.*"
)
NEXTEST = ["cargo", "nextest", "run", "--locked", "--no-fail-fast", "--cargo-quiet", "--show-progress", "none"]
FAILURES_ONLY = ["--status-level", "fail", "--final-status-level", "fail"]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RustTest(NamedTuple):
    """A test by its names in nextest: the program (`ferry-engine::ssh_openssh`) and the test's path in it."""

    program: str
    name: str

    def __str__(self) -> str:
        return f"{self.program} {self.name}"

    @property
    def realtime(self) -> bool:
        return REALTIME.fullmatch(str(self)) is not None


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def outcomes(junit: str) -> dict[RustTest, bool]:
    """For every test that ran, whether it passed."""
    cases = ElementTree.fromstring(junit).iter("testcase")
    return {
        RustTest(case.get("classname", ""), case.get("name", "")): case.find("failure") is None and case.find("error") is None
        for case in cases
    }


def settle(failed: Iterable[RustTest], attempt: Callable[[RustTest, int], Attempt]) -> dict[RustTest, Final]:
    """What each failure comes to. `attempt` runs a real-time test alone; no other test is run again."""
    finals = {}
    for test in failed:
        first = Attempt(passed=False, disturbed=BESIDE if test.realtime else None)
        finals[test] = conclude(repeat(first, lambda number, test=test: attempt(test, number)))  # type: ignore[misc]
    return finals


def totals(ran: dict[RustTest, bool], finals: dict[RustTest, Final]) -> Count:
    """Each test once, by its final outcome."""
    ends = [finals[test].outcome if test in finals else "passed" for test in ran]
    return Count(ends.count("passed"), ends.count("failed"), ends.count("skipped"))


def alone(test: RustTest, number: int) -> Attempt:
    await_quiet(QUIET_S)
    which = f"binary_id(={test.program}) & test(={test.name})"
    with Spans() as spans:
        done = subprocess.run([*NEXTEST, *FAILURES_ONLY, "-E", which], cwd=ENGINE, capture_output=True, text=True, check=False)
    why = spans.why_disturbed()
    if done.returncode != 0:
        print(f"attempt {number} of {test}, {why or 'on a quiet machine'}:\n{done.stdout}{done.stderr}", flush=True)
    return Attempt(passed=done.returncode == 0, disturbed=why)


def ignored(lines: Sequence[str]) -> int:
    """By nextest's own last line: `Summary [ 1.2s] 25 tests run: 24 passed, 1 failed, 3 skipped`."""
    return sum(int(count) for line in lines if "Summary" in line for count in re.findall(r"(\d+) skipped", line))


def noted(lines: Iterable[str]) -> Count:
    """Tests that may be skipped where the machine lacks a part (FERRY_ALLOW_SKIP): for cargo they have passed.

    A line is `TEST: no PART: why`. A test that asked twice, or ran twice, is one.
    """
    found = {line.partition(": ")[0]: line for line in lines}
    for line in found.values():
        print(f"engine: skipped: {line}", flush=True)
    return Count(passed=-len(found), skipped=len(found))


def by_cargo_test(lines: Sequence[str]) -> Count:
    """Once per program: `test result: ok. 5 passed; 0 failed; 1 ignored; ...`."""
    total = Count()
    for line in lines:
        if found := re.match(r"test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", line):
            total += Count(*map(int, found.groups()))
    return total


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failed-lints", type=int, default=0, help="count as failures too")
    parser.add_argument(
        "--defer", type=Path, metavar="FILE", help="write real-time tests that failed there, and count them later"
    )
    parser.add_argument("--again", type=Path, metavar="FILE", help="run only the tests that --defer wrote, each alone")
    asked = parser.parse_args(words)
    if asked.again:
        total = deferred(asked.again, alone)
        print(total)
        return 1 if total.failed else 0
    total = Count(failed=asked.failed_lints)
    with tempfile.TemporaryDirectory(prefix="roughwater-skipped-") as folder:
        notes = Path(folder, "skipped")
        os.environ[SKIPPED] = str(notes)
        if _has_nextest():
            total += _nextest(asked.defer)
            # nextest leaves out the examples in the documentation.
            total += _cargo_test("--doc")
        else:
            print("engine: tests run by cargo test, and none runs again: no cargo-nextest was found", flush=True)
            total += _cargo_test("--no-fail-fast")
        total += noted(notes.read_text().splitlines() if notes.exists() else [])
    print(total)
    return 1 if total.failed else 0


def deferred(file: Path, attempt: Callable[[RustTest, int], Attempt]) -> Count:
    """The outcomes of the tests that an earlier run left for later; none where that run failed before its tests."""
    tests = [RustTest(*line.split("\t")) for line in file.read_text().splitlines()] if file.exists() else []
    finals = settle(tests, attempt)
    _print_finals(finals)
    return totals(dict.fromkeys(tests, False), finals)


def _print_finals(finals: dict[RustTest, Final]) -> None:
    for test, final in finals.items():
        print(f"engine: {test}: {final.note or 'failed'}", flush=True)


def _nextest(defer: Path | None) -> Count:
    with tempfile.TemporaryDirectory(prefix="roughwater-nextest-") as folder:
        junit, config = Path(folder, "junit.xml"), Path(folder, "nextest.toml")
        config.write_text(f'[profile.default.junit]\npath = "{junit}"\n')
        code, lines = _shown([*NEXTEST, *FAILURES_ONLY, "--tool-config-file", f"roughwater:{config}"])
        ran = outcomes(junit.read_text()) if junit.exists() else {}
    failed = [test for test, passed in ran.items() if not passed]
    later = [test for test in failed if test.realtime] if defer else []
    if defer:
        defer.write_text("".join(f"{test.program}\t{test.name}\n" for test in later))
        for test in later:
            print(f"engine: {test}: failed beside other jobs; it runs again alone", flush=True)
    finals = settle((test for test in failed if test not in later), alone)
    _print_finals(finals)
    # A build that fails has no tests that do: a red run never says `0 failed`.
    counted = {test: passed for test, passed in ran.items() if test not in later}
    return totals(counted, finals) + Count(failed=1 if code and not failed else 0, skipped=ignored(lines))


def _cargo_test(how: str) -> Count:
    code, lines = _shown(["cargo", "test", "--quiet", "--locked", how])
    count = by_cargo_test(lines)
    return count + Count(failed=1 if code and not count.failed else 0)


def _has_nextest() -> bool:
    return subprocess.run(["cargo", "nextest", "--version"], cwd=ENGINE, capture_output=True, check=False).returncode == 0


def _shown(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run the command and print its output as it arrives; returns the exit code and the lines."""
    lines = []
    with subprocess.Popen(
        command, cwd=ENGINE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(line, end="", flush=True)
            lines.append(_COLOUR.sub("", line))
    return run.returncode, lines


if __name__ == "__main__":
    sys.exit(main())
