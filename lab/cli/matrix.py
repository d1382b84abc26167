"""`lab matrix`: the cells of one or several runs as a table, client by transfer."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.history import one_of
from lab.cli.options import Json
from lab.cli.output import stdout_console, tell_problems
from lab.model.errors import UsageProblem
from lab.model.figures import FIGURES
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.matrix import make_matrix
from reports.matrix_table import matrix_markdown, render_matrix


def register(app: typer.Typer) -> None:
    app.command("matrix")(matrix)


Figures = Annotated[
    list[str] | None,
    typer.Option(
        "--figure",
        parser=one_of(*FIGURES),
        metavar="FIGURE",
        help=f"Also print a table of this figure: {', '.join(FIGURES)}. May be repeated.",
    ),
]


def matrix(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    figure: Figures = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown only.")] = False,
    json_output: Json = False,
) -> None:
    """Show cells as a table: a row per link and transfer, a column per client. A cell of several runs is shown from the newest.

    A file that cannot be read is reported in one line; the rest is shown.
    """
    if markdown and json_output:
        raise UsageProblem("--markdown and --json exclude each other", remedy="give one of them")
    folders = dict.fromkeys(RunDir.find(run).path for run in runs)
    read = [read_run_folder(path) for path in folders]
    tell_problems([problem for each in read for problem in each.problems])
    if not any(run.cells for run in read):
        raise UsageProblem(f"{', '.join(path.name for path in folders)}: no results", remedy="name a run that finished a cell")
    found = make_matrix(read, figure or ())
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    elif markdown:
        typer.echo(matrix_markdown(found), nl=False)
    else:
        render_matrix(found, stdout_console())
