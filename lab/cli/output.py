"""The output of a command: to a terminal, at its width, or to a pipe or file, where every row is one complete line."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, TextIO

import typer
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# No line of the lab's is longer, and no table is made wider than its content.
_UNLIMITED = 100_000


class LineConsole(Console):
    """A console that neither wraps nor cuts: `grep` finds a row, and a name can be copied from a log.

    A line ends with its last word, not with the blanks that would fill its table's column.
    """

    def __init__(self, file: TextIO) -> None:
        super().__init__(file=file, width=_UNLIMITED)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does; a table's rows and its title are one line each."""
        with self.capture() as captured:
            for each in objects:
                if isinstance(each, Table) and each.title:
                    super().print(Text(str(each.title)))
            super().print(*map(_in_lines, objects), **options)
        for line in captured.get().splitlines(keepends=True):
            self.file.write(line.rstrip(" \n") + "\n" if line.endswith("\n") else line)


def put_output(text: bytes, errors: bytes) -> None:
    """Print the output and the errors of a command as they are, at once."""
    for stream, data in ((sys.stdout, text), (sys.stderr, errors)):
        if data:
            stream.flush()
            stream.buffer.write(data)
            stream.buffer.flush()


def console_on(file: TextIO) -> Console:
    """A console as wide as the terminal, or a console that keeps each row on a line."""
    return Console(file=file) if file.isatty() else LineConsole(file)


def stdout_console() -> Console:
    """A console on stdout. A terminal has its own width, and a pipe has none."""
    return console_on(sys.stdout)


def say(text: str) -> None:
    """Print a line of the lab's own on stderr."""
    typer.echo(f"lab: {text}", err=True)


def tell_problems(problems: list[str]) -> None:
    """Print a line on stderr for each file that could not be read, while the others are shown."""
    for problem in problems:
        say(problem)


def _in_lines(shown: object) -> object:
    """The same without what makes a row of a table several lines."""
    if isinstance(shown, Padding):
        inner = _in_lines(shown.renderable)
        assert isinstance(inner, Table | Text | str)
        return Padding(inner, (shown.top, shown.right, shown.bottom, shown.left), expand=shown.expand)
    if not isinstance(shown, Table):
        return shown
    flat = Table(box=shown.box, pad_edge=shown.pad_edge, show_header=shown.show_header, show_edge=shown.show_edge)
    flat.columns = [
        replace(column, header=_flat(column.header), no_wrap=True, _cells=[_flat(cell) for cell in column.cells])
        for column in shown.columns
    ]
    flat.rows = list(shown.rows)
    return flat


def _flat(cell: RenderableType) -> RenderableType:
    if isinstance(cell, Text):
        lines = cell.split("\n", allow_blank=True)
        return Text(" ", end="").join(lines) if len(lines) > 1 else cell
    return " ".join(cell.split("\n")) if isinstance(cell, str) else cell
