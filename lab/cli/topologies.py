"""`lab topologies`: the networks that ship, and those that other tools publish by name."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lab.cli.options import Json
from lab.cli.output import tell_problems
from lab.model.errors import EXIT_USAGE, UsageProblem
from lab.model.load import list_topologies, load_topology, publishers
from lab.model.presets import Publisher
from lab.model.topology import Link, Topology


def register(app: typer.Typer) -> None:
    app.command("topologies")(topologies)


def topologies(
    json_output: Json = False,
    presets: Annotated[bool, typer.Option("--presets", help="Those that other tools publish, with their sources.")] = False,
) -> None:
    """List your own networks and those that ship with the lab. A file that cannot be read is named; the others are listed."""
    found, problems = list[Topology](), list[str]()
    for name in [each for publisher in publishers() for each in publisher.presets] if presets else list_topologies():
        try:
            found.append(load_topology(name))
        except UsageProblem as problem:
            problems.append(str(problem))
    if json_output:
        typer.echo(json.dumps([topology.model_dump(mode="json") for topology in found], indent=2))
    elif presets:
        _print_presets()
    else:
        for topology in found:
            typer.echo(_line_of(topology))
    tell_problems(problems)
    if problems:
        raise typer.Exit(EXIT_USAGE)


def _print_presets() -> None:
    for publisher in publishers():
        typer.echo(f"{publisher.publisher}: {publisher.source}, read {publisher.seen}\n    {publisher.silent}")
        for name in publisher.presets:
            typer.echo(_line_of_preset(publisher, name))


def _line_of(topology: Topology) -> str:
    link = topology.link
    shape = "loopback" if topology.same_host else "trace" if topology.schedule and topology.schedule.trace else "unshaped"
    more = ", ".join(_impairments(link) + (["changes"] if topology.schedule else []))
    return f"{topology.name:20} {link.rate or shape!s:12} RTT {link.rtt!s:8} {more:36} {topology.description}"


def _line_of_preset(publisher: Publisher, name: str) -> str:
    """The published figures under the name that commands take."""
    link, called = publisher.topology(name).link, publisher.presets[name].called
    rates = f"{link.direction('down').rate!s:15} up {link.direction('up').rate!s:13}"
    return f"  {name:34} {rates} RTT {link.rtt!s:9} {', '.join(_impairments(link)):18} {called}".rstrip()


def _impairments(link: Link) -> list[str]:
    """Loss and jitter of either direction, in words."""
    jitter = max(link.jitter.ns, link.direction("up").jitter.ns)
    return [
        *([f"loss {link.loss.value * 100:.2g} %"] if link.loss.value else []),
        *([f"jitter {jitter / 1e6:g} ms"] if jitter else []),
    ]
