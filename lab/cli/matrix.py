"""`lab matrix`: the cells of one or several runs as a table, client by transfer."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from lab.cli.options import Json
from lab.cli.output import tell_problems
from lab.errors import UsageProblem
from lab.result.matrix import Source, make_matrix
from lab.result.matrix_models import FIGURES, FigureName
from lab.result.matrix_table import matrix_markdown, matrix_width, render_matrix
from lab.result.salvage import Salvaged, read_run_folder
from lab.result.store import RunDir

_USUAL_WIDTH = 110


def register(app: typer.Typer) -> None:
    app.command("matrix")(matrix)


def figure_name(text: str) -> FigureName:
    found = next((name for name in FIGURES if name == text), None)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(FIGURES)}")
    return found


Figures = Annotated[
    list[str] | None,
    typer.Option("--figure", parser=figure_name, metavar="|".join(FIGURES), help="A table of this figure too; several."),
]


def matrix(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    figure: Figures = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="For a page: Markdown on stdout, nothing else there.")] = False,
    json_output: Json = False,
) -> None:
    """Show cells as a table: a row per link and transfer, a column per client; what several runs have is the newest's.

    A file of a run that cannot be read is told in one line; the rest is shown.
    """
    if markdown and json_output:
        raise UsageProblem("--markdown and --json are two outputs", remedy="give one of them")
    folders = dict.fromkeys(RunDir.find(run).path for run in runs)
    read = [read_run_folder(path) for path in folders]
    tell_problems([problem for each in read for problem in each.problems])
    sources = [_source(each) for each in read]
    if not any(source.cells for source in sources):
        raise UsageProblem(
            f"{', '.join(source.name for source in sources)}: no results", remedy="name a run that finished a cell"
        )
    found = make_matrix(sources, [figure_name(name) for name in figure or ()])
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    elif markdown:
        typer.echo(matrix_markdown(found), nl=False)
    else:
        width = None if sys.stdout.isatty() else max(_USUAL_WIDTH, matrix_width(found))
        render_matrix(found, Console(file=sys.stdout, width=width))


def _source(found: Salvaged) -> Source:
    record = found.record
    return Source(
        name=found.path.name,
        cells=found.cells,
        studies=found.studies,
        skipped=record.skipped if record else {},
        revision=record.git_revision if record else None,
        whole=record is not None,
        left_out=len(found.problems),
    )
