"""`lab harm`: what clients do to others on their line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json, RunSeed, quantity, transfer_of
from lab.cli.output import stdout_console
from lab.clients.registry import parse_client, resolve
from lab.link.theory import ideal_goodput_bit_s
from lab.model.errors import EXIT_FAIL, UsageProblem
from lab.model.files import write_text
from lab.model.load import load_topology
from lab.model.obeyed import refuse
from lab.model.topology import Topology
from lab.model.units import Size
from lab.net.flow import KINDS, Flow
from lab.run.harm import harm_table
from lab.run.progress import Lines
from lab.run.settings import DEFAULT_SEED
from reports.harm import document, print_harm

_LINE_S = 20
"""A transfer without --size takes a full line this long, in seconds: the percentiles of a second would be those of its start."""
_MOST_SIZE = Size.parse("100 MB")


def register(app: typer.Typer) -> None:
    app.command("harm")(harm_command)


def harm_command(
    topology: Annotated[
        list[str], typer.Option("--topology", metavar="NETWORK", help="Networks by name or YAML file; repeatable.")
    ],
    clients: Annotated[list[str], typer.Argument(metavar="CLIENT...", help="Names, paths, NAME=PATH or curl@VERSION.")],
    transfer: Annotated[
        list[str] | None,
        typer.Option(
            "--transfer",
            metavar="PROTOCOL-DIRECTION",
            help="http1, https1, h2 or sftp; get or put. Repeatable: a client moves the first that it can. "
            "Default: http1-get, then sftp-get.",
        ),
    ] = None,
    size: Annotated[
        Size | None,
        typer.Option("--size", parser=quantity(Size.parse), metavar="SIZE", help="The file. Default: 20 s of the line."),
    ] = None,
    flow: Annotated[
        str | None,
        typer.Option("--flow", metavar="FLOW", help=f"A flow that competes: {KINDS}. Measured alone and with each client."),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=100, help="Transfers of each client.")] = 3,
    seed: RunSeed = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write everything measured to this file, as JSON.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure what clients do to a bystander: round trips at p50, p95 and p99 and loss, alone and next to each client.

    In virtual time. The bystander sends 64 bytes every 20 ms through the same queues. Harm is (with - solo) / with of its p95,
    and share the part of what the line carries meanwhile that the client had. On a link with a schedule a client is compared with
    the same pieces of it. Nothing is judged. Exit code 1: a transfer failed.
    """
    specs = [parse_client(text) for text in clients]
    for spec in specs:
        resolve(spec)
    competing = Flow.parse(flow) if flow else None
    words, tables, progress = transfer or ["http1-get", "sftp-get"], [], Lines()
    try:
        for network in [load_topology(name) for name in topology]:
            refuse("harm", network, "virtual")
            moved = [transfer_of(each, size or _line_size(network, each)) for each in words]
            number = DEFAULT_SEED if seed is None else seed
            tables.append(harm_table(network, specs, moved, samples=n, seed=number, progress=progress, flow=competing))
    finally:
        progress.clear()
    found = document(tables)
    if save is not None:
        write_text(save, json.dumps(found, indent=1) + "\n")
    if json_output:
        typer.echo(json.dumps(found, indent=2))
    else:
        print_harm(tables, stdout_console())
    if any(row.problem for table in tables for row in table.rows):
        raise typer.Exit(EXIT_FAIL)


def _line_size(network: Topology, word: str) -> Size:
    bit_s = ideal_goodput_bit_s(network.link.direction("up" if word.endswith("-put") else "down"))
    if bit_s is None:
        raise UsageProblem(f"{network.name} has no rate, so nothing says how much to move", remedy="give --size")
    return Size(min(_MOST_SIZE.bytes, max(1, round(bit_s * _LINE_S / 8e6)) * 1_000_000))
