"""All that `make test` runs, as jobs that need each other; the last lines are the failures and `N passed, N failed, N skipped`.

Unit tests begin as soon as the Python environment is there, while ferry is compiled. The engine's tests, then its lints, run
together with the lab's tests; tests in real time come last and alone. Each job writes to `build/test-logs/NAME.log`, which is
printed when the job ends, without the dots. tests/README.md says which tests are in which job.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support import keeper, skips

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "build" / "test-logs"
_AGAIN = str(LOGS / "engine-again.txt")
_PROGRESS_S = 30.0
_END_S = 20.0  # twice a keeper's grace
_COUNT = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")
# pytest's progress: a line of outcomes, with the share of the tests that are done.
_DOTS = re.compile(r"[.sFERxX]*\s*(?:\[\s*(\d+)%\])?")
# Lines that name a failure: pytest's, the budget of skips', nextest's or cargo test's, a compiler's or linter's.
_FAILURE = re.compile(
    r"(FAILED|ERROR) |.* (was skipped, which no line allows here: |ran, but line \d+ says )"
    r"|engine: .*\bfailed\b|\s+(FAIL|TIMEOUT|SIG\w+) +\[|test .* FAILED$|\S*:?\d*:?\d*:? *error\b"
)
_MOST_FAILURES = 40


@dataclass(frozen=True)
class Job:
    """A command of the checkout. `after` names jobs that have to succeed, `behind` jobs that only have to be over."""

    name: str
    argv: tuple[str, ...]
    after: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    nice: int = 0
    may_fail: str = ""
    """The tests that are skipped without this job; empty where a failure counts. In CI a failure always counts."""


@dataclass(frozen=True)
class End:
    """The outcome of a job. `code` is None where it did not run, because a job that it needs failed."""

    code: int | None
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()


def jobs(python: str, *, containers: bool) -> list[Job]:
    """The jobs in the order in which they begin where nothing else decides."""
    tests, engine = str(ROOT / ".ci/lab-tests"), str(ROOT / ".ci/engine-tests")
    made = [
        Job("ferry", (python, "-m", "lab.assets", "build")),
        Job("unit", (tests, "unit")),
        Job("lint", (tests, "lint"), behind=("unit",)),
        Job("engine", (engine, "tests", "--defer", _AGAIN), after=("ferry",), nice=5),
        Job("engine lint", (engine, "lint"), behind=("engine",), nice=5),
        Job("boots", (tests, "boots"), after=("ferry",), behind=("unit",)),
    ]
    if containers:
        words = (python, "-m", "lab.cli.main", "images", "build")
        made.insert(1, Job("images", words, after=("ferry",), nice=5, may_fail="tests of containers"))
    beside = tuple(job.name for job in made)
    return [
        *made,
        Job("engine alone", (engine, "again", _AGAIN), behind=beside),
        Job("realtime", (tests, "realtime"), after=("ferry",), behind=(*beside, "engine alone")),
    ]


def due(waiting: Sequence[Job], ended: Mapping[str, End]) -> tuple[list[Job], list[Job]]:
    """The jobs that may begin, and those that never can."""
    begin, never = [], []
    for job in waiting:
        needed = [ended[name] for name in job.after if name in ended]
        if any(end.code != 0 for end in needed):
            never.append(job)
        elif len(needed) == len(job.after) and all(name in ended for name in job.behind):
            begin.append(job)
    return begin, never


def count(text: str) -> tuple[int, int, int]:
    """The last count of a job's output; zeros where the job counts nothing."""
    found = _COUNT.findall(text)
    return (int(found[-1][0]), int(found[-1][1]), int(found[-1][2])) if found else (0, 0, 0)


def ended(job: Job, code: int, seconds: float, text: str, *, ci: bool) -> End:
    """A job that fails without a failed test is one failure, unless only what needs it is skipped."""
    passed, failed, skipped = count(text)
    if code and not failed and (ci or not job.may_fail):
        failed = 1
    return End(code, seconds, passed, failed, skipped, failures(text) if failed else ())


def failures(text: str) -> tuple[str, ...]:
    """The lines of a failed job that name its failures; its last three where none does."""
    lines = list(shown(text))
    named = list(dict.fromkeys(line.strip() for line in lines if _FAILURE.match(line)))
    more = [f"... and {len(named) - _MOST_FAILURES} more"] if len(named) > _MOST_FAILURES else []
    return (*named[:_MOST_FAILURES], *more) or tuple(lines[-3:])


def shown(text: str) -> Iterator[str]:
    """The lines of a job's output without pytest's dots."""
    for line in text.splitlines():
        if line.strip() and not (_DOTS.fullmatch(line) or line.startswith("bringing up nodes")):
            yield line


def share(text: str) -> str:
    """How much of pytest's tests a running job has behind it, e.g. ` 43 %`; empty for other jobs."""
    found = re.findall(r"\[\s*(\d+)%\]", text[-4000:])
    return f" {found[-1]} %" if found else ""


class Runner:
    """Starts jobs when they are due, prints what came of each, and ends what still runs when it is ended itself."""

    def __init__(self, todo: Sequence[Job], *, ci: bool, say: Callable[[str], None]) -> None:
        self._waiting = list(todo)
        self._running: dict[str, tuple[Job, subprocess.Popen[bytes], float]] = {}
        self._ended: dict[str, End] = {}
        self._ci = ci
        self._say = say

    def run(self) -> dict[str, End]:
        said = time.monotonic()
        try:
            while self._waiting or self._running:
                self._begin()
                self._collect()
                if self._running and time.monotonic() - said > _PROGRESS_S:
                    said = time.monotonic()
                    self._say("   ... " + ", ".join(f"{name}{share(_log(name))}" for name in self._running))
                time.sleep(0.2)
        finally:
            self._end_all()
        return self._ended

    def _begin(self) -> None:
        begin, never = due(self._waiting, self._ended)
        for job in never:
            self._waiting.remove(job)
            self._ended[job.name] = End(None, 0.0, failed=1)
            self._say(f"== {job.name}: not run, because {' or '.join(job.after)} failed")
        for job in begin:
            self._waiting.remove(job)
            with _path(job.name).open("wb") as log:
                self._running[job.name] = (job, _started(job, log), time.monotonic())

    def _collect(self) -> None:
        for name, (job, process, begun) in list(self._running.items()):
            before = _cpu_s()
            if (code := process.poll()) is None:
                continue
            cpu_s = _cpu_s() - before
            del self._running[name]
            text = _log(name)
            end = self._ended[name] = ended(job, code, time.monotonic() - begun, text, ci=self._ci)
            counted = f", {end.passed} passed, {end.failed} failed, {end.skipped} skipped" if _COUNT.search(text) else ""
            ending = f", exit code {code}" if code else ""
            self._say(f"== {name}: {end.seconds:.0f} s, {cpu_s:.0f} s of processor time{counted}{ending}")
            for line in shown(text):
                self._say(f"{name} | {line}")
            if code and job.may_fail and not self._ci:
                self._say(f"== {name} cannot be made here: {job.may_fail} are skipped")

    def _end_all(self) -> None:
        for _, process, _ in self._running.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + _END_S
        for _, process, _ in self._running.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _cpu_s() -> float:
    """Processor time of all children that are over, with theirs, but for orphans."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _path(name: str) -> Path:
    return LOGS / f"{name.replace(' ', '-')}.log"


def _log(name: str) -> str:
    return _path(name).read_text(encoding="utf-8", errors="replace")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _started(job: Job, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """In a process group of its own, which ends with this process even if that is killed."""
    return subprocess.Popen(
        keeper.command(job.nice, job.argv),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="JOB", help="only these jobs, without those they need")
    asked = parser.parse_args(words)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda sent, _: sys.exit(128 + sent))
    todo = jobs(sys.executable, containers=not skips.holds("no containers"))
    if unknown := set(asked.names) - {job.name for job in todo}:
        parser.error(f"no job is called {', '.join(sorted(unknown))}; there are {', '.join(job.name for job in todo)}")
    if asked.names:
        todo = [Job(job.name, job.argv, may_fail=job.may_fail) for job in todo if job.name in asked.names]
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    begun = time.monotonic()
    if not any(job.name == "images" for job in todo):
        print("== no container engine answers here: tests of containers are skipped", flush=True)
    try:
        ends = Runner(todo, ci=os.environ.get("CI") == "true", say=lambda line: print(line, flush=True)).run()
    except KeyboardInterrupt:
        print("== interrupted; every job was ended", flush=True)
        return 130
    print(f"== all jobs: {time.monotonic() - begun:.0f} s")
    for name, end in ends.items():
        for line in end.failures:
            print(f"failed: {name} | {line}")
    print("{} passed, {} failed, {} skipped".format(*(sum(part) for part in zip(*map(_counts, ends.values()), strict=True))))
    return 1 if any(end.failed for end in ends.values()) else 0


def _counts(end: End) -> tuple[int, int, int]:
    return end.passed, end.failed, end.skipped


if __name__ == "__main__":
    sys.exit(main())
