"""`lab suites`: what each suite asks, how much that is, and what of it a client can do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.clients.registry import assert_able, parse_client, resolve
from lab.model.cell import Cell
from lab.model.errors import NotSupported, RoughwaterError
from lab.model.transfer import Expectation
from lab.robot.suite import first_line, list_suites, read_suites, suite_file
from lab.robot.tables import Row, read_rows
from lab.run.clocks import needs_real_time
from lab.run.questions import EventQuestion, PlatformQuestion, Question, SendBufferQuestion


@dataclass(frozen=True)
class SuiteRow:
    """A row of a suite: its title, the cells that it asks about, its clocks, and why the client cannot do it."""

    title: str
    tags: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    clock: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SuiteEntry:
    """A suite: its question is the first sentence of its documentation."""

    name: str
    question: str
    rows: list[SuiteRow]

    @property
    def cells(self) -> int:
        return len({ask for row in self.rows for ask in row.asks})

    @property
    def fits(self) -> int:
        return sum(not row.problem for row in self.rows)

    @property
    def clock(self) -> str:
        return " and ".join(sorted({row.clock for row in self.rows if row.clock}, reverse=True))


def register(app: typer.Typer) -> None:
    app.command("suites")(suites)


def suites(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SUITE...]", help="Show the rows of these, by name or path; else all suites.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(metavar="CLIENT", help="A name, a path, or NAME=PATH: show which rows it can do.")
    ] = None,
    json_output: Json = False,
) -> None:
    """List the suites with their questions and numbers of rows and cells; with a name the rows, whose titles --test takes.

    Every cell is five transfers or more. In virtual time a cell takes seconds of this machine; in real time as long as it says.
    """
    if client is not None:
        # For an unknown client before anything is read.
        resolve(parse_client(client))
    found = [_entry(suite_file(name), client) for name in (names or list_suites())]
    if json_output:
        told = [{**asdict(each), "cells": each.cells, "clock": each.clock, "fits": each.fits} for each in found]
        typer.echo(json.dumps(told, indent=2))
    elif names:
        for each in found:
            _print_rows(each, client)
    else:
        _print_suites(found, client)


def _entry(path: Path, client: str | None) -> SuiteEntry:
    suite = read_suites([path], [client] if client else ())
    return SuiteEntry(path.stem, first_line(suite.doc), [_row(row, judged=client is not None) for row in read_rows(suite)])


def _row(row: Row, *, judged: bool) -> SuiteRow:
    cells = [cell for question in row.questions for cell in _cells(question)]
    clocks = {_clock(question) for question in row.questions}
    return SuiteRow(
        row.name,
        list(row.tags),
        [question.id for question in row.questions],
        " and ".join(sorted(clocks, reverse=True)),
        row.problem or (_refusal(cells) if judged else ""),
    )


def _clock(question: Question) -> str:
    if isinstance(question, PlatformQuestion):
        return "real"
    return "real" if any(map(needs_real_time, question.cells)) else "virtual"


def _cells(question: Question) -> Sequence[Cell]:
    """Cells that stand for all that the client has to do."""
    if isinstance(question, PlatformQuestion):
        return [question.cell]
    if isinstance(question, EventQuestion | SendBufferQuestion):
        nothing = Expectation(kind="none")
        return [Cell(client=question.client, topology=question.topology, transfer=question.transfer, expectation=nothing)]
    return question.cells


def _refusal(cells: Sequence[Cell]) -> str:
    """The reason that a row's client can run none of its cells; empty if it can run one, or where the row is asked in steps."""
    reasons = []
    for cell in cells:
        try:
            assert_able(resolve(cell.client), cell.client, cell.transfer, cell.id)
        except NotSupported as reason:
            reasons.append(str(reason).partition(": ")[2])
        except RoughwaterError as reason:
            # Not built, for example: a suite may name clients of its own.
            reasons.append(str(reason))
    return reasons[0] if reasons and len(reasons) == len(cells) else ""


def _print_suites(found: Sequence[SuiteEntry], client: str | None) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("suite", "rows", *([f"{client} can do"] if client else []), "cells"):
        table.add_column(heading, justify="left" if heading == "suite" else "right", no_wrap=True)
    table.add_column("clock", no_wrap=True)
    table.add_column("question", overflow="fold")
    for each in found:
        fits = [str(each.fits)] if client else []
        table.add_row(each.name, str(len(each.rows)), *fits, str(each.cells), each.clock or "steps", Text(each.question))
    stdout_console().print(table)
    typer.echo("lab suites SUITE lists its rows" + ("" if client else "; --client NAME says which of them a client can do"))


def _print_rows(suite: SuiteEntry, client: str | None) -> None:
    console = stdout_console()
    console.print(Text(f"{suite.name}: {suite.question}"))
    table = Table(box=None, pad_edge=False)
    for heading in ("row", "clock"):
        table.add_column(heading, no_wrap=True)
    table.add_column("asks", overflow="fold")
    for row in suite.rows:
        asks = ", ".join(row.asks[:2]) + (f" and {len(row.asks) - 2} more" if len(row.asks) > 2 else "")
        told = f"cannot: {row.problem}" if row.problem else asks or "written in steps"
        table.add_row(Text(row.title), row.clock or "-", Text(told))
    console.print(table)
    tags = Counter(tag for row in suite.rows for tag in row.tags if ":" not in tag)
    if tags:
        console.print(Text("tags, for --include: " + ", ".join(f"{tag} ({count})" for tag, count in sorted(tags.items()))))
    if client:
        console.print(Text(f"{client} can do {suite.fits} of {len(suite.rows)} rows"))
