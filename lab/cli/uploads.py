"""`lab uploads`: what an automatic send buffer gains, over any number of runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lab.cli.options import Json
from lab.cli.output import stdout_console, tell_problems
from lab.model.errors import UsageProblem
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.uploads import render_uploads, uploads_markdown, uploads_of


def register(app: typer.Typer) -> None:
    app.command("uploads")(uploads)


def uploads(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="A run's folder, its name below results/, or latest~1.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown only.")] = False,
    json_output: Json = False,
) -> None:
    """Show uploads with a fixed send buffer (vanilla) and an automatic one (patched): a row per answer of `windows-uploads`.

    New time is patched over vanilla, speed-up the inverse; TOTAL adds the times, MEDIAN is that of the rows.
    """
    if markdown and json_output:
        raise UsageProblem("--markdown and --json exclude each other", remedy="give one of them")
    read = [read_run_folder(path) for path in dict.fromkeys(RunDir.find(run).path for run in runs)]
    found = uploads_of(answer for run in read for answer in run.answers)
    tell_problems([*(problem for run in read for problem in run.problems), *(f"left out: {why}" for why in found.left_out)])
    if not found.rows:
        raise UsageProblem("no answer about send buffers in these runs", remedy="lab run windows-uploads")
    if json_output:
        typer.echo(json.dumps(found.plain(), indent=2))
    elif markdown:
        typer.echo(uploads_markdown(found), nl=False)
    else:
        render_uploads(found, stdout_console())
