"""`lab totals`: limited transfers by the complete time, as the mail of December 2023 printed them."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lab.cli.options import Json
from lab.cli.output import tell_problems
from lab.model.errors import UsageProblem
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.totals import totals_of


def register(app: typer.Typer) -> None:
    app.command("totals")(totals)


def totals(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    json_output: Json = False,
) -> None:
    """Show limited transfers by their complete time, connection included: time, bytes, bit/s, difference and percent.

    A verdict is about the body's rate; this is the figure `total` against the limit, a line per transfer.
    """
    read = [read_run_folder(path) for path in dict.fromkeys(RunDir.find(run).path for run in runs)]
    tell_problems([problem for run in read for problem in run.problems])
    found = list(totals_of(cell for run in read for cell in run.cells))
    if not found:
        raise UsageProblem("no limited transfer in these runs", remedy="lab run mail")
    if json_output:
        typer.echo(json.dumps([each.plain() for each in found], indent=2))
    else:
        typer.echo("\n\n".join(map(str, found)))
