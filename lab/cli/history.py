"""`lab history`, `lab trend`, `lab export`: many runs, read from their plain files through an index that may be deleted."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import Html, Json, quantity
from lab.cli.output import say, stdout_console, tell_problems
from lab.model.clock import CLOCKS
from lab.model.errors import UsageProblem
from lab.model.figures import FIGURES
from lab.model.files import write_text
from lab.model.trend import TrendReport
from lab.model.units import Ratio
from lab.store.run_dir import RunDir

if TYPE_CHECKING:
    from lab.store.history.index import Index
    from lab.store.history.query import Filter

_VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")
_FORMATS = ("hyperfine", "benchfmt", "otava", "openmetrics")
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
    str | None, typer.Option("--clock", parser=one_of(*CLOCKS), metavar="|".join(CLOCKS), help="Cells that ran on this clock.")
]
Since = Annotated[str | None, typer.Option(metavar="12h|7d|2w|DATE", help="Cells started since then (UTC).")]
Reindex = Annotated[bool, typer.Option("--reindex", help="Read every run again, even if it did not change.")]


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
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The number of rows, newest first.")] = _USUAL_LIMIT,
    runs: Annotated[
        bool | None, typer.Option("--runs/--cells", help="List runs or cells; cells if --cell or --verdict is given.")
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(metavar="SELECT...", help="Query DuckDB: tables cells and runs; 'DESCRIBE cells' shows the columns."),
    ] = None,
    source: From = None,
    reindex: Reindex = False,
    json_output: Json = False,
) -> None:
    """List runs with their verdicts, clients and versions, newest first; or cells; or the rows of an SQL statement."""
    from lab.store.history.query import ask_sql, list_cells, list_runs
    from reports.history_tables import json_rows, render_answer, render_cells, render_runs

    selected = _filter(client, topology, cell, verdict, since, clock)
    if sql is not None and selected.asked:
        raise UsageProblem("--sql excludes the filters", remedy="put it into the statement, as WHERE client = 'curl'")
    index = _open(source, reindex)
    tell_problems(index.problems)
    console = stdout_console()
    if sql is not None:
        names, rows = ask_sql(index, sql)
        if json_output:
            typer.echo(json.dumps(json_rows([dict(zip(names, row, strict=True)) for row in rows]), indent=1))
        else:
            render_answer(names, rows, console)
        return
    as_runs = runs if runs is not None else cell is None and verdict is None
    found = (list_runs if as_runs else list_cells)(index, selected, limit)
    if json_output:
        what = "runs" if as_runs else "cells"
        document = {"source": index.source, what: json_rows(found), "problems": index.problems}
        typer.echo(json.dumps(document, indent=1))
    elif not found:
        typer.echo(f"{index.source}: no {'such ' if selected.asked else ''}{'run' if as_runs else 'cell'}")
    else:
        (render_runs if as_runs else render_cells)(found, console)


def trend(
    cell: Annotated[
        str | None, typer.Argument(metavar="[CELL]", help="A cell's id; every cell that the filters select if left out.")
    ] = None,
    client: Client = None,
    topology: TopologyName = None,
    figure: Annotated[
        str, typer.Option(parser=one_of(*FIGURES), metavar="FIGURE", help=f"The figure to follow: {', '.join(FIGURES)}.")
    ] = "rate",
    least: Annotated[
        Ratio, typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="Report no smaller step, e.g. 1%.")
    ] = Ratio(0.01),
    last: Annotated[int, typer.Option(min=6, max=100_000, help="The number of runs of each cell, newest first.")] = 1000,
    since: Since = None,
    clock: ClockName = None,
    source: From = None,
    reindex: Reindex = False,
    html: Html = None,
    json_output: Json = False,
) -> None:
    """Follow a figure over all runs and name the runs where its level steps, and what changed there.

    Exit code 1 if the last step of a series is for the worse: slower, dearer, or further from the limit. A step for the better
    does not fail, nor does a step for the worse that a later step undid.
    """
    selected = _filter(client, topology, cell, None, since, clock)
    report = trend_report(source, selected, figure, least=least, last=last, reindex=reindex)
    tell_problems(report.problems)
    if html is not None:
        from reports.build import trend_page

        write_text(html, trend_page(report))
    if json_output:
        typer.echo(report.model_dump_json(indent=1))
    else:
        from reports.history_tables import render_trends

        render_trends(report, stdout_console())
    raise typer.Exit(report.exit_code)


def trend_report(
    source: str | None, selected: Filter, figure: str, *, least: Ratio, last: int, reindex: bool = False
) -> TrendReport:
    """The report that `lab trend` prints. Raises UsageProblem if no cell is selected or none has the figure."""
    from lab.store.history.trend import make_report

    if not 0 < least.value < 1:
        raise UsageProblem(f"--least {least} is not a step", remedy="give one between 0 % and 100 %, exclusive")
    return make_report(_open(source, reindex), selected, figure, least=least.value, last=last)


def export(
    form: Annotated[
        str,
        typer.Argument(parser=one_of(*_FORMATS), metavar="FORMAT", help=f"{', '.join(_FORMATS)}; docs/how-to/compare.md."),
    ],
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    output: Annotated[Path | None, typer.Option(help="The file to write; stdout if left out.")] = None,
) -> None:
    """Write runs in a format that other tools read: hyperfine's JSON, Go's benchmark format, Otava's CSV, OpenMetrics text."""
    from lab.store.stored_run import read_run_folder
    from reports.export import export_runs

    found = [read_run_folder(RunDir.find(run).path) for run in runs]
    tell_problems([problem for run in found for problem in run.problems])
    text = export_runs(form, found)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


def _filter(
    client: str | None, topology: str | None, cell: str | None, verdict: str | None, since: str | None, clock: str | None
) -> Filter:
    from lab.store.history.query import Filter, parse_since

    begun = None if since is None else parse_since(since, datetime.now(UTC))
    named = next((known for known in CLOCKS if known == clock), None)
    return Filter(client=client, topology=topology, cell=cell, verdict=verdict, since=begun, clock=named)


def _open(source: str | None, reindex: bool) -> Index:
    from lab.store.history.index import open_index
    from lab.store.history.source import open_source

    return open_index(open_source(source), reread=reindex, notify=say)
