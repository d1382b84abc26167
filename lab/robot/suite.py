"""Finds suites, reads them for the clients that are asked for, and runs them under Robot Framework inside this process.

Robot's log, report and xunit go into the run.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.clients.registry import parse_client, resolve
from lab.model.errors import LabFault, UsageProblem, did_you_mean
from lab.model.load import files_by_name
from lab.model.paths import suites_dirs
from lab.robot import current
from lab.robot.checked import check_suite
from lab.robot.tables import questions_of
from lab.run.measured import measured_run
from lab.run.options import Options
from lab.run.progress import Progress
from lab.run.questions import Asking, Crew, Question
from lab.run.resume import Resumed
from lab.run.session import Session
from lab.store.run_dir import RunDir

if TYPE_CHECKING:
    # Robot is imported where a suite is read: it takes a quarter of a second, and a cell needs none of it.
    from robot.api import TestSuite


_SHOWN = 6
"""Titles in a message."""
_ALIKE = 0.5


@dataclass(frozen=True)
class Choice:
    """The tests of a suite to run, by Robot's own patterns of names and of tags; no pattern means all."""

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
    """A suite by its name, a user's own before the lab's, or by its path."""
    candidates = (files_by_name(suites_dirs(), (".robot",)).get(name), Path(name))
    return next((path for path in candidates if path and path.suffix == ".robot" and path.is_file()), None)


def suite_file(name: str) -> Path:
    """The suite that `find_suite` finds. Raises UsageProblem for an unknown name."""
    found = find_suite(name)
    if found is None:
        raise no_suite(name)
    return found


def no_suite(name: str, but: str = "") -> UsageProblem:
    """For an unknown name, with the names that there are; `but` continues the sentence."""
    known = list_suites()
    return UsageProblem(
        f"no suite called {name!r}{but}{did_you_mean(name, known)}",
        remedy=f"suites: {', '.join(known)}; lab suites says what they ask",
    )


def first_line(documentation: str) -> str:
    """The first paragraph of a suite's documentation: its question."""
    return " ".join(documentation.partition("\n\n")[0].split())


def list_suites() -> list[str]:
    return list(files_by_name(suites_dirs(), (".robot",)))


def read_suites(
    paths: Sequence[Path],
    clients: Sequence[str] = (),
    choice: Choice | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    reader: str = "",
) -> TestSuite:
    """The chosen tests of suites; all tests without a choice. `variables` take the place of the suites' own.

    `reader` is the front end, where it reads the rows and does not run the suite.

    Without `clients` the suite's default client is used; several clients run one after the other. Raises UsageProblem for a
    client that is missing, for example a version that has not been built, and as `check_suite` and `check_variables`.
    """
    for path in paths:
        check_suite(path, reader)
    check_variables(paths, variables or {})
    read = [_read(path, choice, client, variables or {}) for path in paths for client in clients or ("",)]
    if not any(suite.test_count for suite in read):
        raise _no_test(paths, choice)
    for client in clients:
        resolve(parse_client(client))
    if len(read) == 1:
        return read[0]
    each = max(1, len(clients))
    return under("Suites", [under(path.stem.title(), read[at * each :][:each]) for at, path in enumerate(paths)])


def check_variables(paths: Sequence[Path], names: Iterable[str]) -> None:
    """Raise UsageProblem for a variable that none of these suites uses. A suite with resource files may use it there."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    if any(re.search(r"^Resource\s", text, re.MULTILINE | re.IGNORECASE) for text in texts):
        return
    known = {_plain(name): name for text in texts for name in re.findall(r"[$@&]\{([^{}\[\]:]+)", text)}
    for name in names:
        if _plain(name) not in known:
            which = ", ".join(dict.fromkeys(path.stem for path in paths))
            declared = sorted(each for each in known.values() if each.isupper())
            raise UsageProblem(
                f"{which} uses no variable ${{{name}}}{did_you_mean(name, known.values())}",
                remedy=f"known: {', '.join(declared)}",
            )


def _plain(name: str) -> str:
    """A variable's name as Robot compares it."""
    return re.sub(r"[ _]", "", name).lower()


def _no_test(paths: Sequence[Path], choice: Choice | None) -> UsageProblem:
    """With titles or tags to choose from, those nearest to what was asked first."""
    suites = [_read(path, None, "", {}) for path in paths]
    tests = [test for suite in suites for test in suite.all_tests]
    asked = choice or Choice()
    if asked.tests:
        titles = dict.fromkeys(test.name for test in tests)
        near = dict.fromkeys(title for pattern in asked.tests for title in _near(pattern, list(titles)))
        shown = list({**near, **titles})[:_SHOWN]
        what = "its rows are" if len(paths) == 1 else "their rows are"
    else:
        shown = sorted({tag for test in tests for tag in test.tags if ":" not in tag})
        what = "tags of its rows are" if len(paths) == 1 else "tags of their rows are"
    told = ", ".join(map(repr, shown)) + (", ..." if len(shown) == _SHOWN else "")
    names = ", ".join(path.stem for path in paths)
    return UsageProblem(f"no test of {names} matches {choice}", remedy=f"{what} {told}; lab suites {paths[0].stem} lists all")


def _near(pattern: str, titles: Sequence[str]) -> list[str]:
    """Titles that resemble the pattern, the nearest first."""
    from difflib import SequenceMatcher

    asked = pattern.replace("*", " ").strip().lower()
    likeness = {title: SequenceMatcher(None, asked, title.lower()).ratio() for title in titles}
    return [title for title in sorted(titles, key=lambda title: -likeness[title]) if likeness[title] > _ALIKE]


def under(name: str, parts: Sequence[TestSuite]) -> TestSuite:
    """The suites as one; a single one as it is."""
    if len(parts) == 1:
        return parts[0]
    from robot.api import TestSuite

    found = TestSuite(name=name)
    for part in parts:
        found.suites.append(part)
    return found


def _read(path: Path, choice: Choice | None, client: str, variables: Mapping[str, str]) -> TestSuite:
    from robot.api import TestSuite

    suite = TestSuite.from_file_system(str(path))
    if choice:
        choice.apply(suite)
    for name, value in {**variables, **({"CLIENT": client} if client else {})}.items():
        suite.resource.variables.create(f"${{{name}}}", [value])
        # The first of two variables of one name wins.
        suite.resource.variables.insert(0, suite.resource.variables.pop())
    if client:
        suite.config(name=f"{suite.name}, {client}")
    return suite


def run_suites(
    suite: TestSuite,
    questions: Sequence[Question],
    options: Options,
    progress: Progress,
    *,
    name: str,
    variables: Mapping[str, str] | None = None,
    reports: Callable[[RunDir], None] | None = None,
    crew: Crew | None = None,
    resume: Resumed | None = None,
) -> Session:
    """A run of a suite with these `questions`, from its folder to its reports. The session is closed. Raises as `run_suite`.

    A `crew` answers them on other machines; `resume` is a run that has some of the answers already.
    """
    done = resume.answered(questions, options) if resume else {}
    planned = [*dict.fromkeys(question.id for question in questions)]
    with measured_run(name, options, progress, reports=reports, resume=resume, planned=planned) as session:
        run_suite(suite, session, variables, questions=questions, asking=Asking(session, crew, done))
    return session


def run_suite(
    suite: TestSuite,
    session: Session,
    variables: Mapping[str, str] | None = None,
    *,
    questions: Sequence[Question] | None = None,
    asking: Asking | None = None,
) -> None:
    """Ask what a suite declares, side by side in virtual time; then run it under Robot, which takes the outcomes as they come up.

    Raises the first problem that kept a question from an answer.
    """
    asking = asking or Asking(session)
    asking.ahead(questions_of(suite, variables) if questions is None else questions)
    folder = session.run.path / "robot"
    said = io.StringIO()
    with current.use(asking), contextlib.redirect_stdout(said):
        result = suite.run(
            outputdir=str(folder),
            output="output.xml",
            variable=[f"{name}:{value}" for name, value in (variables or {}).items()],
            console="none",
            stdout=said,
            stderr=said,
        )
    if asking.problem is None or (session.results or session.answers):
        _write_reports(folder)
    if asking.problem:
        raise asking.problem
    if not (session.results or session.answers):
        raise UsageProblem(_first_problem(result, said.getvalue()))


def _write_reports(folder: Path) -> None:
    """`TestSuite.run` writes output.xml only; log, report and xunit are made from it, complete or not at all."""
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
            remedy="free space, or set ROUGHWATER_RESULTS; the cells' own results are complete",
        ) from None


def _first_problem(result: object, said: str) -> str:
    """The reason that not one cell ran: an import that failed, a variable that was not there."""
    messages = [test.message for test in getattr(getattr(result, "suite", None), "all_tests", []) if test.message]
    lines = [line.strip() for line in said.splitlines() if "ERROR" in line]
    return next(iter(messages + lines), "the suite ran no test").splitlines()[0]
