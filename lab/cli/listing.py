"""A listing of files that describe something: those that can be read, then a line for each that cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import typer

from lab.cli.output import tell_problems
from lab.model.base import Model
from lab.model.errors import EXIT_USAGE, UsageProblem

M = TypeVar("M", bound=Model)


def list_files(names: Iterable[str], load: Callable[[str], M], line_of: Callable[[M], str], *, json_output: bool) -> None:
    """Print what these names load as lines, or as JSON. Ends with exit code 2 if a file cannot be read."""
    found, problems = list[M](), list[str]()
    for name in names:
        try:
            found.append(load(name))
        except UsageProblem as problem:
            problems.append(str(problem))
    if json_output:
        print_json(found)
    else:
        for each in found:
            typer.echo(line_of(each))
    tell_problems(problems)
    if problems:
        raise typer.Exit(EXIT_USAGE)


def print_json(found: Sequence[Model]) -> None:
    typer.echo(json.dumps([each.model_dump(mode="json") for each in found], indent=2))
