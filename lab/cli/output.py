"""Where a command's text goes: stdout, as wide as its terminal, or as wide as is asked for where there is none."""

from __future__ import annotations

import sys
from typing import Never

import typer
from rich.console import Console

USUAL_WIDTH = 110


class _Stdout(Console):
    def on_broken_pipe(self) -> Never:
        # Rich's own ends the program with exit code 1, which here means that a client failed.
        raise BrokenPipeError


def stdout_console(width: int = USUAL_WIDTH) -> Console:
    """A console on stdout. Who reads it may leave early (`| head`): then `lab.cli.main` ends with 141, as other tools do."""
    return _Stdout(file=sys.stdout, width=None if sys.stdout.isatty() else width)


def tell_problems(problems: list[str]) -> None:
    """One line each on stderr: what could not be read, while the rest is shown."""
    for problem in problems:
        typer.echo(f"lab: {problem}", err=True)
