"""`lab client build|list`: versions of a client, as data."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from lab.assets.curl_versions import MISSING
from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.clients import versions
from lab.model.base import PROFILE_MARK
from lab.robot.profiles import load_profile

group = typer.Typer(name="client", help="Versions of a client: build, list.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


def _named(spec: str) -> list[str]:
    return load_profile(spec.removeprefix(PROFILE_MARK)).versions if spec.startswith(PROFILE_MARK) else [spec]


def _say(text: str) -> None:
    typer.echo(f"client: {text}")


@group.command("build")
def build(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="CLIENT@VERSION...", help="e.g. curl@8.4.0 libcurl@7.84.0 requests@2.31.0; @PROFILE: those that it names."
        ),
    ],
) -> None:
    """Build versions of a client into the cache, or install them there. A version that is there already is not built again."""
    wanted = dict.fromkeys(each for spec in specs for each in _named(spec))
    missing = {spec: versions.find(spec) is None for spec in wanted}  # all of them are read before the first is built
    for spec, absent in missing.items():
        if absent and versions.find(spec) is None:
            began = time.monotonic()
            versions.build(spec, _say)
            _say(f"{spec} took {time.monotonic() - began:.0f} s")
        _say(f"{spec} is {versions.program(spec)}")


@group.command("list")
def list_versions(json_output: Json = False) -> None:
    """List the known versions, where they come from, and which are in the cache."""
    rows = versions.available()
    if json_output:
        found = [{**asdict(row), "program": str(row.program) if row.program else None} for row in rows]
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("client", "from", "built without", "program", box=None)
    for row in rows:
        table.add_row(row.spec, row.source, ", ".join(row.lacks), str(row.program or ""))
    stdout_console().print(table)
    stdout_console().print(f"in no registry: {', '.join(MISSING)}")
