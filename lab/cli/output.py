"""Where a command's text goes: stdout, as wide as its terminal, or as wide as is asked for where there is none."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

USUAL_WIDTH = 110


def stdout_console(width: int = USUAL_WIDTH) -> Console:
    """A console on stdout."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else width)


def tell_problems(problems: list[str]) -> None:
    """One line each on stderr: what could not be read, while the rest is shown."""
    for problem in problems:
        typer.echo(f"lab: {problem}", err=True)
