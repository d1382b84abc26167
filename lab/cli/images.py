"""`lab images build|list|save|load`: the container images of the compose backend."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.hosts.compose import content, images
from lab.model.errors import UsageProblem

group = typer.Typer(name="images", help="The container images: build, list, save, load.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group)


def _say(text: str) -> None:
    typer.echo(f"images: {text}")


@group.command("build")
def build(
    base: Annotated[
        str, typer.Option(help="registry, packages (built with mmdebstrap), or auto: the registry if one answers.")
    ] = "auto",
    role: Annotated[list[str] | None, typer.Option(help="Only this one: client, router, server or lab. Repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Rebuild current images too, with today's packages.")] = False,
) -> None:
    """Build the images that are missing or were made from other sources than this checkout's."""
    chosen = next((known for known in images.BASES if known == base), None)
    if chosen is None:
        raise UsageProblem(f"--base: {base!r} is not a base", remedy=f"one of {', '.join(images.BASES)}")
    images.build(_say, base=chosen, roles=tuple(dict.fromkeys(role or content.EVERY)), force=force)


@group.command("list")
def list_images(json_output: Json = False) -> None:
    """List the engine's images and whether they match this checkout."""
    found = {role: images.find(role) for role in content.EVERY}
    states = {role: images.state(role, image) for role, image in found.items()}
    if json_output:
        rows = [{**(asdict(image) if image else {"role": role}), "state": states[role]} for role, image in found.items()]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table("role", "state", "MB", "base", "id", box=None)
    for role, image in found.items():
        facts = (f"{image.size_bytes / 1e6:.0f}", image.base, image.id.removeprefix("sha256:")[:12]) if image else ("", "", "")
        table.add_row(role, states[role], *facts)
    stdout_console().print(table)


@group.command("save")
def save(file: Annotated[Path, typer.Argument(help="Where to: one gzip file.")]) -> None:
    """Write the three images to one file, for a machine that reaches no registry."""
    images.save(file, _say)


@group.command("load")
def load(file: Annotated[Path, typer.Argument(help="A file written by `lab images save`.")]) -> None:
    """Load the images of a file into the engine. A damaged file or one from another revision is refused."""
    for image in images.load(file, _say).values():
        _say(f"{image.name} {image.id}")
