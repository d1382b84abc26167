"""`lab endpoints`: the servers that files describe, a user's own and the lab's."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.listing import list_files
from lab.cli.options import Json
from lab.model.endpoint import EndpointFile
from lab.model.load import list_endpoints, load_endpoint


def register(app: typer.Typer) -> None:
    app.command("endpoints")(endpoints)


def endpoints(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME|FILE...", help="Only these; by default all.")] = None,
    json_output: Json = False,
) -> None:
    """Check and list servers that files describe: yours in ./endpoints, and the lab's. A file that is wrong is named."""
    list_files(names or list_endpoints(), load_endpoint, _line_of, json_output=json_output)


def _line_of(endpoint: EndpointFile) -> str:
    ways = ", ".join(
        f"{protocol} {'+'.join(way for way in ('get', 'put') if endpoint.serves(protocol, way))}" for protocol in endpoint.urls
    )
    source = endpoint.userland_name or endpoint.program or endpoint.start.split()[0]
    return f"{endpoint.name:14} {ways:44} {source:24} {endpoint.description}"
