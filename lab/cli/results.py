"""`lab results`: check stored results, and migrate them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json
from lab.model.errors import UsageProblem
from lab.model.paths import results_dir
from lab.store.run_dir import RunDir

results_app = typer.Typer(name="results", no_args_is_help=True, help="Check stored results, and migrate them.")


def register(app: typer.Typer) -> None:
    app.add_typer(results_app)


@results_app.command("validate")
def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Runs, files of them, or folders of runs. Default: all results."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Check every result file against its closed schema, and the files of a run against each other. Writes nothing.

    One line per problem: the file, the JSON path in it, what is wrong. Exit code: 0 nothing wrong, 2 otherwise.
    """
    from lab.store.validate import validate as check

    found = check([_place(text) for text in paths] if paths else [_all()])
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
        raise typer.Exit(found.exit_code)
    for problem in found.problems:
        typer.echo(f"{problem.file}: {problem.where}: {problem.what}")
    for run in found.unfinished:
        typer.echo(f"{run}: not complete: it goes on, or it was cut off")
    typer.echo(f"{_count(len(found.problems), 'problem')} in {_count(found.files, 'file')} of {_count(found.runs, 'run')}")
    raise typer.Exit(found.exit_code)


@results_app.command("migrate")
def migrate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, its name below results/, latest, or latest~1.")],
) -> None:
    """Rewrite a run's files in the current schema; the old ones are kept in the run, in schema-VERSION.

    Not needed for reading: the lab reads older results. Nothing changes unless every file can be written.
    """
    from lab.store.rewrite import rewrite

    folder = RunDir.find(run)
    done = rewrite(folder)
    if not done.files:
        typer.echo(f"{folder.name}: every file has schema {done.version} already")
        return
    kept = ", ".join(str(path) for path in done.kept)
    typer.echo(f"{folder.name}: {_count(done.files, 'file')} rewritten as schema {done.version}; the old ones are in {kept}")


def _place(text: str) -> Path:
    """A path, else a run by the names that every command takes."""
    return Path(text) if Path(text).exists() else RunDir.find(text).path


def _all() -> Path:
    folder = results_dir()
    if not folder.is_dir():
        raise UsageProblem(f"{folder}: there are no results yet", remedy="run something, or set ROUGHWATER_RESULTS")
    return folder


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
