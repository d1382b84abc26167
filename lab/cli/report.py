"""`lab report`: a run as one HTML page, and as what a CI reads."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import JunitNoVerdict
from lab.cli.output import tell_problems
from lab.model.errors import UsageProblem
from lab.model.files import write_faults
from lab.store.run_dir import LATEST, RunDir
from lab.store.stored_run import StoredRun, read_run_folder
from reports.files import PAGE, write_junit, write_page, write_summary

STDOUT = "-"


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="A run's folder, its name below results/, or latest~1.")] = LATEST,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes; RUN/report.html.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="JUnit XML too, e.g. RUN/junit.xml.")] = None,
    no_verdict: JunitNoVerdict = "usual",
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="A summary for a pull request too; - is stdout.")
    ] = None,
    github: Annotated[
        bool,
        typer.Option("--github", help="In a GitHub job too: annotations, the job's summary and outputs."),
    ] = False,
) -> None:
    """Make a run's page: verdicts, the matrix, and the evidence of every cell, in one file that needs no network.

    Exits with 0 whatever the verdicts are. A file of the run that cannot be read is reported in one line; the rest is shown.
    """
    folder = RunDir.find(run)
    summary = Path(markdown) if markdown and markdown != STDOUT else None
    for path in (output, junit, summary):
        if path is not None and path.is_dir():
            raise UsageProblem(f"{path} is a folder", remedy="give the name of a file")
    found = read_run_folder(folder.path)
    tell_problems(found.problems)
    if not (found.everything):
        raise UsageProblem(f"{folder.path} holds no results", remedy="name a run that finished a cell")
    page = write_page(found, output or folder.path / PAGE)
    made = [page]
    if junit is not None:
        made.append(write_junit(found, junit, no_verdict))
    if markdown == STDOUT:
        from reports.markdown import markdown_summary

        typer.echo(markdown_summary(found), nl=False)
    elif summary is not None:
        made.append(write_summary(found, summary))
    if github:
        _to_github(found)
    for path in made:
        typer.echo(f"report: {path}", file=sys.stderr if markdown == STDOUT else sys.stdout)
    if open_page and not webbrowser.open(page.resolve().as_uri()):
        raise UsageProblem(f"no browser here to open {page}", remedy="copy the file to where there is one")


def _to_github(run: StoredRun) -> None:
    """Annotations on stdout, the rest into the files that the runner names."""
    from reports.github import notices, outputs
    from reports.markdown import markdown_summary

    texts = {
        "GITHUB_STEP_SUMMARY": markdown_summary(run),
        "GITHUB_OUTPUT": "".join(f"{name}={value}\n" for name, value in outputs(run)),
    }
    for variable, text in texts.items():
        if not (file := os.environ.get(variable, "")):
            raise UsageProblem(
                f"--github: {variable} is not set", remedy="a GitHub job's runner sets it; leave --github out elsewhere"
            )
        refused = write_faults(Path(file), f"--github: {variable}", remedy="the runner makes this file", fault=UsageProblem)
        with refused, Path(file).open("a", encoding="utf-8") as out:
            out.write(text)
    for line in notices(run):
        typer.echo(line)
