"""Reads a suite for what its rows ask, without running it.

A row is a test whose keywords all come down to question keywords of the lab's library, directly or through the suite's own
keywords. Their arguments are resolved and converted as Robot would, and the question is noted instead of asked. Tests that are
written in steps ask nothing that can be known before they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.model.errors import NotSupported, RoughwaterError, UsageProblem
from lab.robot.declared import LIBRARY, QUESTION, Declared, NotedError
from lab.run.questions import Question
from lab.run.reproduce import check_clients

if TYPE_CHECKING:
    from robot.running import TestSuite
    from robot.running.testlibraries import TestLibrary
    from robot.variables import Variables


@dataclass(frozen=True)
class Row:
    """A test and what it asks; `problem` is why that cannot be said."""

    suite: str
    name: str
    tags: tuple[str, ...] = ()
    declared: tuple[Declared, ...] = ()
    problem: str = field(default="", compare=False)
    bad: str = field(default="", compare=False)
    """File and line, where the problem is a mistake of the row."""

    @property
    def questions(self) -> list[Question]:
        """The questions to a session, in the order in which they come up."""
        return [question for each in self.declared for question in each.questions]


def read_rows(suite: TestSuite, variables: Mapping[str, Any] | None = None) -> list[Row]:
    """The rows of a suite and of the suites in it. `variables`, by their name without decoration, win over the suite's own."""
    from robot.running.testlibraries import TestLibrary

    library = TestLibrary.from_name(LIBRARY)
    noted: list[Declared] = []
    library.instance.noted = noted
    given = {name if "{" in name else f"${{{name}}}": value for name, value in (variables or {}).items()}
    return list(_rows(suite, library, noted, given))


def questions_of(suite: TestSuite, variables: Mapping[str, Any] | None = None) -> list[Question]:
    """The questions of all rows, in their order; without those of rows that are going to be skipped."""
    return [question for row in good_rows(suite, variables) if not _skipped(row) for question in row.questions]


def good_rows(suite: TestSuite, variables: Mapping[str, Any] | None = None) -> list[Row]:
    """The rows of `read_rows`. Raises UsageProblem, one line with file and line, for a row whose arguments make no question."""
    rows = read_rows(suite, variables)
    if first := next((row for row in rows if row.bad), None):
        raise UsageProblem(
            f"{first.bad}: {first.name}: {' '.join(first.problem.split())}", remedy=f"correct the row of {first.suite}"
        )
    return rows


def _skipped(row: Row) -> bool:
    """True if not all of a bug's clients have been built."""
    cells = [cell for declared in row.declared if declared.scenario for each in declared.questions for cell in each.cells]
    if not cells:
        return False
    try:
        check_clients(cells)
    except (NotSupported, UsageProblem):
        return True
    return False


def _rows(suite: TestSuite, library: TestLibrary, noted: list[Declared], given: Mapping[str, Any]) -> Iterator[Row]:
    from robot.errors import DataError
    from robot.utils import normalize
    from robot.variables import Variables

    variables = Variables()
    for name, value in given.items():
        variables[name] = value
    variables.set_from_variable_section(suite.resource.variables)
    own = {normalize(keyword.name, ignore="_"): keyword for keyword in suite.resource.keywords}
    for test in suite.tests:
        noted.clear()
        variables["${TEST NAME}"] = test.name
        problem, bad = "", ""
        try:
            complete = _note(test.body, own, library, variables)
        except (RoughwaterError, DataError, ValueError) as error:
            complete, problem = False, str(error)
            # A row that cannot be asked here or now is skipped, with the reason.
            bad = "" if isinstance(error, NotSupported) else f"{test.source}:{test.lineno}"
        yield Row(suite.name, test.name, tuple(test.tags), tuple(noted) if complete else (), problem, bad)
    for child in suite.suites:
        yield from _rows(child, library, noted, given)


def _note(body: Sequence[Any], own: Mapping[str, Any], library: TestLibrary, variables: Variables) -> bool:
    """Note the questions of keywords; whether all of them are questions."""
    from robot.utils import normalize

    for item in body:
        if item.type != "KEYWORD":
            return False
        name = normalize(variables.replace_string(item.name), ignore="_")
        if name in own:
            keyword = own[name]
            positional, named = keyword.args.resolve(item.args, variables=variables)
            inner = variables.copy()
            values = dict(zip(keyword.args.positional, positional, strict=False)) | dict(named)
            for argument, default in keyword.args.defaults.items():
                inner[f"${{{argument}}}"] = inner.replace_scalar(default)
            for argument, value in values.items():
                inner[f"${{{argument}}}"] = value
            if keyword.args.var_positional:
                inner[f"@{{{keyword.args.var_positional}}}"] = positional[len(keyword.args.positional) :]
            if not _note(keyword.body, own, library, inner):
                return False
            continue
        found = library.find_keywords(item.name)
        if not found or QUESTION not in found[0].tags:
            return False
        positional, named = found[0].resolve_arguments(item.args, variables=variables)
        try:
            found[0].method(*positional, **dict(named))
        except NotedError:
            continue
        return False
    return bool(body)
