"""`lab history`, `lab trend`, `lab export`: many runs, from their plain files, by way of an index that may be deleted."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import Html, Json, quantity
from lab.cli.output import stdout_console, tell_problems
from lab.errors import UsageProblem
from lab.history.trend_models import FIGURE_NAMES, FigureName, TrendReport
from lab.result.store import RunDir
from lab.spec.clock import CLOCKS
from lab.spec.units import Ratio
from reports.files import write_text

if TYPE_CHECKING:
    from lab.history.index import Index
    from lab.history.query import Filter

_VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")
_FORMATS = ("hyperfine", "benchfmt", "otava", "openmetrics")
_WIDTH = 160
_USUAL_LIMIT = 20


def one_of(*known: str) -> object:
    """A Typer parser for one word of several."""

    def convert(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}")
        return text

    return convert


From = Annotated[
    str | None,
    typer.Option("--from", metavar="FOLDER|URL", help="Where the runs are: a folder, or s3://BUCKET/results and the like."),
]
Client = Annotated[str | None, typer.Option(help="Cells of this client, with all its versions.")]
TopologyName = Annotated[str | None, typer.Option("--topology", help="Cells on this topology.")]
ClockName = Annotated[
    str | None, typer.Option("--clock", parser=one_of(*CLOCKS), metavar="|".join(CLOCKS), help="Cells that ran by this clock.")
]
Since = Annotated[str | None, typer.Option(metavar="12h|7d|2w|DATE", help="Cells started since then (UTC).")]
Reindex = Annotated[bool, typer.Option("--reindex", help="Read every run again, also those that did not change.")]


def register(app: typer.Typer) -> None:
    app.command("history")(history)
    app.command("trend")(trend)
    app.command("export")(export)


def history(
    client: Client = None,
    topology: TopologyName = None,
    cell: Annotated[str | None, typer.Option(metavar="ID", help="Cells of this id.")] = None,
    verdict: Annotated[
        str | None, typer.Option(parser=one_of(*_VERDICTS), metavar="|".join(_VERDICTS), help="Cells of this verdict.")
    ] = None,
    since: Since = None,
    clock: ClockName = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many, the newest first.")] = _USUAL_LIMIT,
    runs: Annotated[
        bool | None, typer.Option("--runs/--cells", help="List runs, or cells: cells where --cell or --verdict asks for them.")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(metavar="SELECT...", help="Ask DuckDB: tables cells and runs; 'DESCRIBE cells' shows the columns."),
    ] = None,
    source: From = None,
    reindex: Reindex = False,
    json_output: Json = False,
) -> None:
    """List runs, the newest first, with their verdicts, clients and versions; or cells; or what a statement of SQL finds."""
    from lab.history.query import ask_sql, list_cells, list_runs
    from lab.history.tables import json_rows, render_answer, render_cells, render_runs

    meant = _meant(client, topology, cell, verdict, since, clock)
    if sql is not None and meant.asked:
        raise UsageProblem("--sql and a filter are two questions", remedy="put it into the statement, as WHERE client = 'curl'")
    index = _open(source, reindex)
    tell_problems(index.problems)
    console = stdout_console(_WIDTH)
    if sql is not None:
        names, rows = ask_sql(index, sql)
        if json_output:
            typer.echo(json.dumps(json_rows([dict(zip(names, row, strict=True)) for row in rows]), indent=1))
        else:
            render_answer(names, rows, console)
        return
    as_runs = runs if runs is not None else cell is None and verdict is None
    found = (list_runs if as_runs else list_cells)(index, meant, limit)
    if json_output:
        what = "runs" if as_runs else "cells"
        document = {"source": index.source, what: json_rows(found), "problems": index.problems}
        typer.echo(json.dumps(document, indent=1))
    elif not found:
        typer.echo(f"{index.source}: no {'such ' if meant.asked else ''}{'run' if as_runs else 'cell'}")
    else:
        (render_runs if as_runs else render_cells)(found, console)


def trend(
    cell: Annotated[
        str | None, typer.Argument(metavar="[CELL]", help="A cell's id; without, every cell the filters mean.")
    ] = None,
    client: Client = None,
    topology: TopologyName = None,
    figure: Annotated[
        str, typer.Option(parser=one_of(*FIGURE_NAMES), metavar="|".join(FIGURE_NAMES), help="What is followed.")
    ] = "rate",
    least: Annotated[
        Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="No smaller step is told, e.g. 1%.")
    ] = Ratio(0.01),
    last: Annotated[int, typer.Option(min=6, max=100_000, help="Runs of each cell, the newest.")] = 1000,
    since: Since = None,
    clock: ClockName = None,
    source: From = None,
    reindex: Reindex = False,
    html: Html = None,
    json_output: Json = False,
) -> None:
    """Follow a figure over all runs and name the runs where its level steps, and what changed there.

    Exit code 1 where the last step of a series is for the worse: slower, dearer, or further from the limit. A step for the better
    is none to fail by, and neither is one for the worse that a later step made good.
    """
    meant = _meant(client, topology, cell, None, since, clock)
    report = trend_report(source, meant, figure, least=least, last=last, reindex=reindex)
    tell_problems(report.problems)
    if html is not None:
        from reports.build import trend_page

        write_text(html, trend_page(report))
    if json_output:
        typer.echo(report.model_dump_json(indent=1))
    else:
        from lab.history.tables import render_trends

        render_trends(report, stdout_console(_WIDTH))
    raise typer.Exit(report.exit_code)


def trend_report(
    source: str | None, meant: Filter, figure: str, *, least: Ratio, last: int, reindex: bool = False
) -> TrendReport:
    """What `lab trend` shows. Raises UsageProblem where nothing is meant or nothing can be told."""
    from lab.history.trend import make_report

    if not 0 < least.value < 1:
        raise UsageProblem(f"--least {least} is no step", remedy="give one between 0 % and 100 %, exclusive")
    name: FigureName = next(known for known in FIGURE_NAMES if known == figure)
    return make_report(_open(source, reindex), meant, name, least=least.value, last=last)


def export(
    form: Annotated[
        str, typer.Argument(parser=one_of(*_FORMATS), metavar="FORMAT", help=f"{', '.join(_FORMATS)} (see docs/history.md).")
    ],
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    output: Annotated[Path | None, typer.Option(help="Write it here, whole or not at all; without, to stdout.")] = None,
) -> None:
    """Write runs in a format that other tools read: hyperfine's JSON, Go's benchmark format, Otava's CSV, OpenMetrics text."""
    from lab.history.export import export_runs
    from lab.result.salvage import read_run_folder

    found = [read_run_folder(RunDir.find(run).path) for run in runs]
    tell_problems([problem for run in found for problem in run.problems])
    text = export_runs(form, found)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


def _meant(
    client: str | None, topology: str | None, cell: str | None, verdict: str | None, since: str | None, clock: str | None
) -> Filter:
    from lab.history.query import Filter, parse_since

    begun = None if since is None else parse_since(since, datetime.now(UTC))
    meant = next((known for known in CLOCKS if known == clock), None)
    return Filter(client=client, topology=topology, cell=cell, verdict=verdict, since=begun, clock=meant)


def _open(source: str | None, reindex: bool) -> Index:
    from lab.history.index import open_index
    from lab.history.source import open_source

    return open_index(open_source(source), anew=reindex, told=lambda line: typer.echo(f"lab: {line}", err=True))
