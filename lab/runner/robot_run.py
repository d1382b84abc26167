"""Runs a suite file, or cells by name, under Robot Framework inside this process; its log, report and xunit go into the run."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.client.registry import parse_client, resolve, resolve_for
from lab.errors import LabFault, UsageProblem
from lab.paths import suites_dir
from lab.runner import current
from lab.runner.ahead import Planner, run_ahead
from lab.runner.session import Session
from lab.spec.cell import parse_cell_name
from lab.spec.load import load_topology
from lab.spec.models import ClientSpec

LIBRARY = "lab.keywords.library.LabLibrary"
TEST_TIMEOUT = "15 minutes"


@dataclass(frozen=True)
class Choice:
    """Which tests of a suite to run: Robot's own patterns, of names and of tags; none means all."""

    tests: Sequence[str] = ()
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def apply(self, suite: Any) -> None:
        if self.tests or self.include or self.exclude:
            suite.filter(
                included_tests=list(self.tests) or None,
                included_tags=list(self.include) or None,
                excluded_tags=list(self.exclude) or None,
            )

    def __str__(self) -> str:
        return ", ".join([*map(repr, (*self.tests, *self.include)), *(f"not {tag!r}" for tag in self.exclude)])


def find_suite(name: str) -> Path | None:
    """A suite by its name in `suites/` or by its path."""
    candidates = (suites_dir() / f"{name}.robot", Path(name))
    return next((path for path in candidates if path.suffix == ".robot" and path.is_file()), None)


def list_suites() -> list[str]:
    return sorted(path.stem for path in suites_dir().glob("*.robot"))


def check_cells(names: Sequence[str]) -> None:
    """Say what is wrong with a cell's name before anything is started."""
    for name in names:
        if "--" not in name:
            raise UsageProblem(
                f"no suite called {name!r}, and a cell is called CLIENT--TOPOLOGY--TRANSFER",
                remedy="suites: " + ", ".join(list_suites()),
            )
        load_topology(parse_cell_name(name).topology)


def run_suite(
    path: Path,
    session: Session,
    variables: dict[str, str],
    *,
    clients: Sequence[str] = (),
    choice: Choice | None = None,
) -> None:
    """Run the chosen tests of a suite; all without a choice.

    Without `clients` the suite's own is qualified; several are qualified one after the other, in one run on one network. One that
    there is not (a version that nobody has built) is a UsageProblem before the network is brought up.
    """
    from robot.api import TestSuite

    def read(client: str) -> TestSuite:
        suite = TestSuite.from_file_system(str(path))
        if choice:
            choice.apply(suite)
        if not suite.test_count:
            raise UsageProblem(f"no test of {path.stem} matches {choice}")
        if client:
            suite.resource.variables.create("${CLIENT}", [client])
            # The first of two variables of one name wins.
            suite.resource.variables.insert(0, suite.resource.variables.pop())
        return suite

    if len(clients) > 1:
        whole = TestSuite(name=path.stem.title())
        for client in clients:
            part = read(client)
            part.config(name=client)
            whole.suites.append(part)
    else:
        whole = read(next(iter(clients), ""))
    for client in clients:
        resolve(parse_client(client))
    _run(whole, session, [f"{name}:{value}" for name, value in variables.items()])


def run_cells(names: Sequence[str], session: Session, clients: Sequence[str] = ()) -> None:
    """The same as a suite of one test per cell. `clients` (NAME=PATH) are where cells of those names find their programs."""
    from robot.api import TestSuite

    programs = _programs(names, clients)
    suite = TestSuite(name="Cells", doc="Cells named on the command line.")
    suite.resource.imports.library(LIBRARY)
    for name in names:
        test = suite.tests.create(name=name, timeout=TEST_TIMEOUT)
        meant = [f"client={programs[name]}"] if name in programs else []
        test.body.create_keyword(name="Judge Cell", args=[name, *meant])
    _run(suite, session, [])


def _programs(names: Sequence[str], clients: Sequence[str]) -> dict[str, str]:
    """Which of `clients` is meant by which cell; the last of one name.

    Raises UsageProblem for one that is not there or that no cell is of, and NotSupported for a cell that its client cannot do: a
    suite skips it, but here it was asked for by name.
    """
    given: dict[str, tuple[str, ClientSpec]] = {}
    for text in clients:
        spec = parse_client(text)
        resolve(spec)
        given[spec.name] = (text, spec)
    cells_of = [parse_cell_name(name).client for name in names]
    for client in given:
        if client not in cells_of:
            raise UsageProblem(
                f"--client {client}: none of the cells is {client}'s",
                remedy=f"a cell's name begins with its client: {client}--...",
            )
    found: dict[str, str] = {}
    for name in names:
        called, _, transfer, _ = parse_cell_name(name)
        text, spec = given.get(called, ("", parse_client(called)))
        if text:
            found[name] = text
        resolve_for(spec, transfer, name)
    return found


def _run(suite: object, session: Session, variables: list[str]) -> None:
    folder = session.run.path / "robot"
    said = io.StringIO()
    with session:
        _run_ahead(suite, session, variables)
        result = _pass(suite, session, variables, folder, said)
    if session.problem is None or session.results or session.findings:
        _write_reports(folder)
    if session.problem:
        raise session.problem
    if not (session.results or session.findings):
        raise UsageProblem(_first_problem(result, said.getvalue()))


def _run_ahead(suite: object, session: Session, variables: list[str]) -> None:
    """What can be run in virtual time, side by side, before Robot asks for it test by test."""
    if session.options.clock == "real":
        return
    planner = Planner(session.run, session.options)
    with current.use(planner), contextlib.redirect_stdout(io.StringIO()) as said:
        suite.deepcopy().run(  # type: ignore[attr-defined]
            output=None, variable=variables, console="none", stdout=said, stderr=said
        )
    if planner.asked:
        session.ahead = run_ahead(session, planner.asked)


def _pass(suite: object, session: Session, variables: list[str], folder: Path, said: io.StringIO) -> object:
    with current.use(session), contextlib.redirect_stdout(said):
        return suite.run(  # type: ignore[attr-defined]
            outputdir=str(folder),
            output="output.xml",
            variable=variables,
            console="none",
            stdout=said,
            stderr=said,
        )


def _write_reports(folder: Path) -> None:
    """`TestSuite.run` writes output.xml only; log, report and xunit are made from it, whole or not at all."""
    from robot.api import ResultWriter
    from robot.errors import DataError

    made = {"log": folder / "log.html", "report": folder / "report.html", "xunit": folder / "xunit.xml"}
    options = {name: str(path) for name, path in made.items()}
    try:
        ResultWriter(str(folder / "output.xml")).write_results(**options, stdout=io.StringIO(), stderr=io.StringIO())
    except (OSError, DataError) as error:
        for path in made.values():
            path.unlink(missing_ok=True)
        raise LabFault(
            f"Robot's reports cannot be written to {folder}: {str(error).splitlines()[0]}",
            remedy="free space, or set THROUGHLINE_RESULTS; the cells' own results are whole",
        ) from None


def _first_problem(result: object, said: str) -> str:
    """Why not one cell ran: an import that failed, a variable that was not there."""
    messages = [test.message for test in getattr(getattr(result, "suite", None), "all_tests", []) if test.message]
    lines = [line.strip() for line in said.splitlines() if "ERROR" in line]
    return next(iter(messages + lines), "the suite ran no test").splitlines()[0]
