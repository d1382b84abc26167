"""A pytest plugin that tells noise from defects, by the rule of `tests.support.attempts`; `tests.support.spans` watches the host.

A test with the marker `realtime` is watched. If it fails while the machine is disturbed, its outcome is `rerun` for now. After
the session's last test, when all fixtures are torn down, it runs again alone in a pytest of its own
(`--attempt`). The session then reports what the attempts add up to, as if the test had run there: each test counts once.

Tests on xdist's workers run at the same time as others, so every failure there counts as disturbed.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

from lab.judge.host import HostLimits, why_disturbed
from lab.model.results import HostLoad
from tests.support import reaper
from tests.support.attempts import Attempt, conclude, repeat
from tests.support.spans import Spans, await_quiet, container_engines

RERUN = "rerun"
AGAIN_S = 1200.0
QUIET_S = 30.0
_MARKER = (
    "realtime(containers=False): judges by real time or real processes; run again, alone, if it fails on a disturbed machine"
)


class Hooks:
    """What a conftest may say instead."""

    @pytest.hookspec(firstresult=True)
    def pytest_why_disturbed(self, item: pytest.Item, load: HostLoad) -> str | None:
        """Why a test that ran under this load may have failed because of it; None if the machine was quiet."""


@pytest.hookimpl(trylast=True)
def pytest_why_disturbed(item: pytest.Item, load: HostLoad) -> str | None:
    return why_disturbed(load, HostLimits())


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("noise", "real-time tests that fail on a disturbed machine")
    group.addoption("--attempt", type=int, default=1, metavar="N", help="this is attempt N of a test; nothing is run again")
    group.addoption("--attempt-to", metavar="FILE", help="write the reports of this attempt there")
    group.addoption("--again-for", type=float, default=AGAIN_S, metavar="S", help="run tests again for so long; then they fail")
    group.addoption("--await-quiet", type=float, default=QUIET_S, metavar="S", help="before an attempt, wait so long for quiet")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(OnWorker(config.workerinput["workercount"]), "noise-runner")
    elif config.option.attempt > 1:
        config.pluginmanager.register(OneAttempt(Path(config.option.attempt_to)), "noise-runner")
    else:
        config.pluginmanager.register(Watching(), "noise-runner")
        config.pluginmanager.register(Again(config), "noise-again")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    return (RERUN, "R", ("RERUN", {"yellow": True})) if report.outcome == RERUN else None


class Runner:
    """Runs real-time tests. The session sees a failure only if noise cannot explain it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker("realtime") is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self.told(*self.run(item, nextitem)):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], str | None]:
        """All its reports and, if one is a failure, what disturbed it."""
        raise NotImplementedError

    def told(self, reports: list[pytest.TestReport], why: str | None) -> list[pytest.TestReport]:
        if why is None:
            return reports
        failure = next(report for report in reports if report.failed)
        failure.outcome = RERUN  # type: ignore[assignment]
        failure.disturbed = why  # type: ignore[attr-defined]
        return [failure]


class Watching(Runner):
    """Judges a failure by the load of the machine during the test and during the set-up of its shared fixtures."""

    def __init__(self) -> None:
        self._test: Spans | None = None
        self._fixtures: dict[pytest.FixtureDef[Any], Spans] = {}

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], str | None]:
        marker = item.get_closest_marker("realtime")
        engines = container_engines if marker and marker.kwargs.get("containers") else tuple
        with Spans(lambda: [*reaper.roots(), *engines()]) as spans:
            self._test = spans
            try:
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
            finally:
                self._test = None
        return reports, self._why_disturbed(item, spans) if _may_be_noise(reports) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Set-up, call and teardown are spans of their own."""
        report = yield
        if self._test is not None:
            self._test.mark()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Watch the set-up of shared fixtures: the disturbance that broke one may be over when the test runs."""
        if self._test is None or fixturedef.scope == "function":
            return (yield)
        with Spans() as spans:
            self._fixtures[fixturedef] = spans
            return (yield)

    def _why_disturbed(self, item: pytest.Item, spans: Spans) -> str | None:
        if why := _first_reason(item, spans):
            return why
        used = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
        for fixture in (each for definitions in used for each in definitions if each in self._fixtures):
            if why := _first_reason(item, self._fixtures[fixture]):
                return f"while its fixture {fixture.argname!r} was set up {why}"
        return None


class OneAttempt(Watching):
    """An attempt after the first: it hands its reports over as they are, with the judgement."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def told(self, reports: list[pytest.TestReport], why: str | None) -> list[pytest.TestReport]:
        self._path.write_text(json.dumps({"reports": [report._to_json() for report in reports], "disturbed": why}, default=str))
        return reports


class OnWorker(Runner):
    """With several workers nothing is watched: they disturb each other."""

    def __init__(self, workers: int) -> None:
        self._why = f"it ran beside other tests on {workers} workers"

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], str | None]:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        return reports, self._why if _may_be_noise(reports) else None


def _first_reason(item: pytest.Item, spans: Spans) -> str | None:
    return next((why for load in spans.loads if (why := item.ihook.pytest_why_disturbed(item=item, load=load))), None)


@dataclass
class Disturbed:
    """A test that has to run again."""

    report: pytest.TestReport
    attempts: list[Attempt]
    last: list[pytest.TestReport] = field(default_factory=list)
    """Of the attempt that was the last, as pytest reported it."""


class Again:
    """After all other tests: the attempts of those that were disturbed, and what came of each."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: dict[str, Disturbed] = {}
        self._notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome == RERUN:
            self._tests[report.nodeid] = Disturbed(report, [Attempt(passed=False, disturbed=report.disturbed)])  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        result = yield
        end = time.monotonic() + self._config.option.again_for
        for nodeid, test in self._tests.items():
            test.attempts = repeat(test.attempts[0], lambda number, test=test: self._attempt(number, test, end))  # type: ignore[misc]
            self._tell(nodeid, test)
        return result

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._notes:
            terminalreporter.section("real-time tests that were run again")
            for note in self._notes:
                terminalreporter.write_line(note)

    def _attempt(self, number: int, test: Disturbed, end: float) -> Attempt | None:
        if time.monotonic() > end:
            test.last = [_made(test.report, "failed", test.report.longrepr)]
            return None
        await_quiet(self._config.option.await_quiet)
        with tempfile.TemporaryDirectory(prefix="roughwater-attempt-") as folder:
            path = Path(folder, "reports.json")
            done = subprocess.run(
                self._command(number, test.report.nodeid, path), cwd=self._config.rootpath, check=False, **_CAPTURED
            )
            if not path.exists():
                test.last = [_made(test.report, "failed", f"attempt {number} did not run the test to its end:\n{done.stdout}")]
                return Attempt(passed=False)
            found = json.loads(path.read_text())
        test.last = [pytest.TestReport._from_json(each) for each in found["reports"]]
        return Attempt(passed=not any(each.failed for each in test.last), disturbed=found["disturbed"])

    def _command(self, number: int, nodeid: str, path: Path) -> list[str]:
        where = ["--rootdir", str(self._config.rootpath), *(["-c", str(ini)] if (ini := self._config.inipath) else [])]
        return [
            *reaper.command("-m", "pytest", nodeid, "-q", "-p", "no:cacheprovider", *where),
            *("--attempt", str(number), "--attempt-to", str(path)),
        ]

    def _tell(self, nodeid: str, test: Disturbed) -> None:
        final = conclude(test.attempts)
        self._notes.append(f"{nodeid}: {final.note}\n  attempt 1 failed with: {_message(test.report)}")
        reports = test.last
        if final.outcome == "skipped":
            path, line, _ = test.report.location
            reports = [_made(test.report, "skipped", (path, (line or 0) + 1, f"Skipped: {final.note}"))]
        for report in reports:
            if report.failed:
                report.sections.append(("attempts", final.note))
            self._config.hook.pytest_runtest_logreport(report=report)


_CAPTURED: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


# A busy machine makes programs late, and answers missing (None). It does not make a name or an argument wrong, nor take a right
# away, nor make a client miss its limit: the lab judges only samples that nothing disturbed.
_DEFECTS = (
    r"tests\.support\.command\.WrongVerdict",
    *("AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "SyntaxError", "TypeError", "UnboundLocalError"),
    *("IsADirectoryError", "NotADirectoryError", "NotImplementedError", "PermissionError", "RecursionError", "ZeroDivisionError"),
)
_DEFECT = re.compile(rf"({'|'.join(_DEFECTS)})\b(?!.*NoneType)")


def _may_be_noise(reports: list[pytest.TestReport]) -> bool:
    """Whether there is a failure, and none that only a defect of the program or the test explains."""
    failed = [report for report in reports if report.failed]
    return bool(failed) and not any(_DEFECT.match(_message(report)) for report in failed)


def _message(report: pytest.TestReport) -> str:
    """The first line of what went wrong."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return next(iter((crash.message if crash else report.longreprtext).splitlines()), "")


def _made(of: pytest.TestReport, outcome: str, longrepr: object) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=of.nodeid,
        location=of.location,
        keywords=of.keywords,
        outcome=outcome,  # type: ignore[arg-type]
        longrepr=longrepr,  # type: ignore[arg-type]
        when="call",
    )
