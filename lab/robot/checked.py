"""Checks a suite's file before anything is asked: every setting, section, keyword and argument is known.

Robot reports a setting that it does not know on its console, which a run does not show, and fails a row whose keyword or argument
it does not know only when the row comes up. Until then other rows may have passed.
"""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from lab.model.errors import UsageProblem

RUN_ONLY = {
    "SuiteSetup": "Suite Setup",
    "SuiteTeardown": "Suite Teardown",
    "TestSetup": "Test Setup",
    "TestTeardown": "Test Teardown",
    "Setup": "[Setup]",
    "Teardown": "[Teardown]",
}
"""Settings that need Robot to run the suite, by the classes of Robot's model. A time limit of a test is none: it ends a row that
hangs, and so does each front end.
"""
_REMEDY = "keywords and arguments: docs/reference/keywords.html"


def check_suite(path: Path, reader: str = "") -> None:
    """Raise UsageProblem, one line with file and line, for the first mistake.

    A `reader`, such as `lab qualify`, reads the rows and does not run the suite: it cannot obey what only a run does.
    """
    facts = path.stat()
    _check(path, facts.st_mtime_ns, facts.st_size, reader)


@lru_cache(maxsize=64)
def _check(path: Path, _changed: int, _size: int, reader: str) -> None:
    from robot.api import get_model

    model = get_model(str(path))
    if found := min(_mistakes(model), default=None):
        raise _problem(path, *found)
    settings = ((node.lineno, RUN_ONLY[kind]) for node in _nodes(model) if (kind := type(node).__name__) in RUN_ONLY)
    if reader and (first := min(settings, default=None)):
        line, name = first
        remedy = "leave it out, or use lab run"
        raise UsageProblem(f"{path}:{line}: {name} has no effect in {reader}, which only reads the rows", remedy=remedy)
    if found := min(_tried(path), default=None):
        raise _problem(path, *found)


def _problem(path: Path, line: int, words: str) -> UsageProblem:
    return UsageProblem(f"{path}:{line}: {' '.join(words.split())}", remedy=_REMEDY)


def _nodes(model: Any) -> Iterator[Any]:
    """Robot's statements and sections, which have a line."""
    yield from ast.walk(model)


def _mistakes(model: Any) -> Iterator[tuple[int, str]]:
    """Sections and settings that Robot does not know, with their lines."""
    for node in _nodes(model):
        for token in getattr(node, "tokens", ()):
            if token.error:
                yield token.lineno, token.error
        for error in getattr(node, "errors", ()):
            yield node.lineno, error


def _tried(path: Path) -> Iterator[tuple[int, str]]:
    """Tests whose keywords or arguments are not known, with their lines: Robot's dry run, which executes nothing."""
    from robot.api import TestSuite

    suite = TestSuite.from_file_system(str(path))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        result = suite.run(dryrun=True, output=None, log=None, report=None, console="none", stdout=said, stderr=said)
    for test in result.suite.all_tests:
        if test.failed:
            yield _line(suite, test.name), f"{test.name}: {test.message}"


def _line(suite: Any, name: str) -> int:
    return next((test.lineno for test in suite.tests if test.name == name), 1)
