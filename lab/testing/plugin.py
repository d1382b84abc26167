"""The pytest plugin: fixtures `lab_link`, `lab_server`, `lab_transfer` and `assert_limit_kept`; docs/how-to/pytest.md.

Every pytest of an environment with the lab in it imports this file, so it imports the lab only inside fixtures.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab.run.session import Session
    from lab.testing.fixtures import LabLink, LabServer, LabTransfer
    from lab.testing.limits import LimitKept

_OUTCOMES = {3: "INCONCLUSIVE", 4: "INVALID"}
"""Verdicts that are neither a pass nor a fault of the client, by the exit code of their exception."""
_LETTERS = {"INCONCLUSIVE": "?", "INVALID": "I"}
_VERDICT = "lab_verdict"
_FOLDER = pytest.StashKey[str]()
_SAID = pytest.StashKey[list[str]]()
_interruptions: list[BaseException] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab", "Roughwater: transfers on links that are proven")
    group.addoption(
        "--lab-clock",
        choices=("virtual", "real"),
        default="virtual",
        help="The clock of the lab's tests. In virtual time (the default) nothing on this machine disturbs them.",
    )
    group.addoption("--lab-seed", type=int, metavar="N", help="In virtual time: the same seed gives the same packets.")
    group.addoption(
        "--lab-no-verdict",
        choices=("fail", "skip"),
        default="fail",
        help="Whether an INVALID or INCONCLUSIVE verdict makes pytest exit with 1 (the default), or is a skip with its reason.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "lab_link(network=None, *, rate, rtt, loss, ..., largest='64 MiB'): the network of the lab's fixtures, by name or YAML "
        "file, with changes of its link; largest is the most that the test moves at once",
    )


@pytest.fixture(scope="session")
def lab_session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The run that tests of this process add results to; its folder exists while a test has left a result in it."""
    from lab.run.measured import measured_run
    from lab.run.settings import choose
    from reports.files import write_all

    options = request.config.option
    where = choose(options.lab_clock, "auto", "auto", seed=options.lab_seed)
    with where.options() as common, measured_run("pytest", common) as session:
        yield session
        if problem := _cut_off(request.session):
            session.cut_off(problem)
    if session.recorded is not None:
        write_all(session.run.path)
        request.config.stash[_FOLDER] = str(session.run.path)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Pytest ends its fixtures after an interruption as it does after the last test."""
    _interruptions.append(excinfo.value)


def _cut_off(session: pytest.Session) -> BaseException | None:
    """The reason for leaving out tests of this run; None where all of them ran."""
    if _interruptions:
        return KeyboardInterrupt()
    left_out = session.shouldfail or session.shouldstop
    return RuntimeError(str(left_out)) if left_out else None


@pytest.fixture(scope="session")
def _lab_lane(lab_session: Session) -> Iterator[Session]:
    """Networks for tests in steps: cells of `assert_limit_kept` do not take theirs away."""
    from lab.run.progress import Silent

    lane = lab_session.lane(1, Silent())
    try:
        yield lane
    finally:
        lane.lab.close()


@pytest.fixture
def lab_link(request: pytest.FixtureRequest, _lab_lane: Session) -> Iterator[LabLink]:
    """The link of this test, from its marker or parameter. Nothing is brought up before a fixture uses it."""
    from lab.testing.fixtures import LabLink
    from lab.testing.networks import topology_of

    marker = request.node.get_closest_marker("lab_link")
    words: tuple[Any, ...] = marker.args if marker else ()
    named: dict[str, Any] = dict(marker.kwargs) if marker else {}
    largest = named.pop("largest", "64 MiB")
    given = getattr(request, "param", None)
    if isinstance(given, dict):
        named |= given
    elif given is not None:
        words = (given,)
    folder = request.path.parent
    link = LabLink(_lab_lane, request.node.nodeid, topology_of(words, named, folder), largest)
    request.node.stash[_SAID] = link.said
    try:
        yield link
    finally:
        link.stop()


@pytest.fixture
def lab_server(lab_link: LabLink) -> LabServer:
    """The servers at the far end of the link: URLs, credentials, files to download, what was uploaded."""
    from lab.testing.fixtures import LabServer

    return LabServer(lab_link)


@pytest.fixture
def lab_transfer(lab_link: LabLink) -> LabTransfer:
    """Runs any command on the client's host and returns what it did and what crossed the link meanwhile."""
    from lab.testing.fixtures import LabTransfer

    return LabTransfer(lab_link)


@pytest.fixture
def assert_limit_kept(lab_link: LabLink, lab_session: Session, tmp_path_factory: pytest.TempPathFactory) -> LimitKept:
    """Asserts that a client keeps its rate limit on this link: samples until there is a verdict, not one measurement."""
    from lab.testing.limits import LimitKept

    return LimitKept(lab_session, lab_link.topology, tmp_path_factory)


# --- how verdicts look ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "call" and (said := item.stash.get(_SAID, [])):
        item.add_report_section("call", "lab", "\n".join(said))
    report = yield
    errors = sys.modules.get("lab.model.errors")
    if errors is None or call.excinfo is None or not isinstance(call.excinfo.value, errors.RoughwaterError):
        return report
    problem = call.excinfo.value
    where = f"{report.location[0]}:{(report.location[1] or 0) + 1}"
    if isinstance(problem, errors.NotSupported):
        return _skipped(report, str(problem))
    if verdict := _OUTCOMES.get(problem.exit_code):
        reason = str(problem) if str(problem).startswith(verdict) else f"{verdict}: {problem}"
        if item.config.option.lab_no_verdict == "skip":
            return _skipped(report, reason)
        setattr(report, _VERDICT, verdict)
        report.longrepr = f"{where}: {reason}"
    elif not isinstance(problem, AssertionError):
        report.longrepr = f"{where}: {problem}"
    return report


def _skipped(report: pytest.TestReport, reason: str) -> pytest.TestReport:
    path, line, _ = report.location
    report.outcome, report.longrepr = "skipped", (path, (line or 0) + 1, f"Skipped: {reason}")
    return report


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    verdict = getattr(report, _VERDICT, None)
    return (verdict.lower(), _LETTERS[verdict], verdict) if verdict else None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for verdict in _OUTCOMES.values():
        if reports := terminalreporter.stats.get(verdict.lower(), []):
            terminalreporter.section(f"{verdict}: no verdict on the client", yellow=True)
            for report in reports:
                terminalreporter.line(str(report.longrepr))
    if folder := config.stash.get(_FOLDER, ""):
        terminalreporter.line(f"lab: results: {folder}")
