"""`lab doctor`, `lab setup`, `lab schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from lab.cli.options import Json
from lab.model.errors import LabFault
from lab.run.doctor import Level, examine


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)
    app.command("setup")(setup)
    app.command("schema")(schema)


def doctor(
    json_output: Json = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="First fetch into the cache what cells need and this machine lacks; installs nothing.")
    ] = False,
) -> None:
    """Say what works, what is missing, and the command that repairs it. Exit code 4 when the lab cannot work."""
    if fix:
        from lab.assets.tools import provide

        try:
            provide(lambda text: typer.echo(f"fix: {text}", err=json_output))
        except LabFault as fault:
            # The examination says what that leaves impossible.
            typer.echo(f"fix: {fault}", err=True)
    checks = examine()
    if json_output:
        typer.echo(json.dumps([vars(check) for check in checks], indent=2))
    else:
        width = max(len(check.what) for check in checks)
        for check in checks:
            typer.echo(f"{_MARKS[check.level]:8} {check.what:{width}}  {check.found}")
            if check.remedy:
                typer.echo(f"{'':8} {'':{width}}  -> {check.remedy}")
    raise typer.Exit(4 if any(check.level == "missing" for check in checks) else 0)


_MARKS: dict[Level, str] = {"ok": "ok", "note": "note", "missing": "MISSING"}


def setup() -> None:
    """Build what the lab runs but does not install: the User-Mode Linux router, nginx and sshd, ferry (see `make setup`)."""
    from lab.assets import engine
    from lab.assets.tools import provide
    from lab.assets.uml import build

    def say(text: str) -> None:
        typer.echo(f"setup: {text}")

    build(say)
    provide(say)
    engine.build(say)
    say("everything is there")


def schema(
    which: Annotated[
        str, typer.Argument(help="topology, client, endpoint; of results: cell, run, study, pair, ...")
    ] = "topology",
) -> None:
    """Print the JSON Schema of the files of topologies, clients, endpoints, or results."""
    from lab.cli.schema import client_schema, endpoint_schema, result_models, result_schema, topology_schema
    from lab.model.errors import UsageProblem

    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "topology": topology_schema,
        "client": client_schema,
        "endpoint": endpoint_schema,
        **{kind: partial(result_schema, kind) for kind in result_models()},
    }
    if which not in makers:
        raise UsageProblem(f"no schema called {which!r}", remedy="use " + " or ".join(makers))
    typer.echo(json.dumps(makers[which](), indent=2))
