"""`lab doctor`, `lab setup`, `lab schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from lab.cli.options import Json
from lab.runner.doctor import Level, examine


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)
    app.command("setup")(setup)
    app.command("schema")(schema)


def doctor(json_output: Json = False) -> None:
    """Say what is here, what is missing, and the command that mends it. Exit code 4 when the lab cannot work."""
    findings = examine()
    if json_output:
        typer.echo(json.dumps([vars(finding) for finding in findings], indent=2))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            typer.echo(f"{_MARKS[finding.level]:8} {finding.what:{width}}  {finding.found}")
            if finding.remedy:
                typer.echo(f"{'':8} {'':{width}}  -> {finding.remedy}")
    raise typer.Exit(4 if any(finding.level == "missing" for finding in findings) else 0)


_MARKS: dict[Level, str] = {"ok": "ok", "note": "note", "missing": "MISSING"}


def setup() -> None:
    """Build what the lab runs but does not install: the User-Mode Linux router, nginx and sshd, ferry (see `make setup`)."""
    from lab.assets import engine
    from lab.assets.tools import fetch_servers
    from lab.assets.uml import build

    def say(text: str) -> None:
        typer.echo(f"setup: {text}")

    build(say)
    fetch_servers(say)
    engine.build(say)
    say("everything is there")


def schema(
    which: Annotated[
        str, typer.Argument(help="topology, client, scenario; of results: cell, run, study, pair, ...")
    ] = "topology",
) -> None:
    """Print the JSON Schema of the files of topologies, clients, scenarios, or results."""
    from lab.errors import UsageProblem
    from lab.spec.schema import client_schema, result_models, result_schema, scenario_schema, topology_schema

    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "topology": topology_schema,
        "client": client_schema,
        "scenario": scenario_schema,
        **{kind: partial(result_schema, kind) for kind in result_models()},
    }
    if which not in makers:
        raise UsageProblem(f"no schema called {which!r}", remedy="use " + " or ".join(makers))
    typer.echo(json.dumps(makers[which](), indent=2))
