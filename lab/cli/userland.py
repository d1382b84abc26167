"""`lab userland build|list`: root folders of systems, whose programs hosts run in virtual time."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.table import Table

from lab.assets import userlands
from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.model.errors import UsageProblem, did_you_mean

group = typer.Typer(name="userland", help="Root folders of systems, for --userland: build, list.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


def _say(text: str) -> None:
    typer.echo(f"userland: {text}")


@group.command("build")
def build(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="e.g. debian:13.")],
    force: Annotated[bool, typer.Option("--force", help="Build it again, with today's packages.")] = False,
) -> None:
    """Build userlands from packages into the cache. One that is there already is not built again; cells build what they need."""
    if unknown := next((name for name in names if name not in userlands.RECIPES), ""):
        known = list(userlands.RECIPES)
        raise UsageProblem(f"no userland {unknown!r} to build{did_you_mean(unknown, known)}", remedy=f"known: {', '.join(known)}")
    for name in dict.fromkeys(names):
        began = time.monotonic()
        if force or userlands.find(name) is None:
            userlands.build(name, _say, force=force)
            _say(f"{name} took {time.monotonic() - began:.0f} s")
        _say(f"{name} is {userlands.get(name, _say).root}")


@group.command("list")
def list_userlands(json_output: Json = False) -> None:
    """List the userlands that the lab can build, and the packages of those in the cache."""
    found = {name: userlands.find(name) for name in userlands.RECIPES}
    if json_output:
        rows = [
            {"name": name, "root": str(each.root), **each.facts.model_dump()} if each else {"name": name}
            for name, each in found.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("userland", "packages", "digest", "asked for", box=None)
    for name, each in found.items():
        wanted = userlands.RECIPES[name].packages
        if each is None:
            table.add_row(name, "not built", "", ", ".join(wanted))
            continue
        versions = ", ".join(f"{package} {each.facts.packages.get(package, '?')}" for package in wanted)
        table.add_row(name, str(len(each.facts.packages)), each.facts.digest[:12], versions)
    stdout_console().print(table)
