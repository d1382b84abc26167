"""`lab topologies`: the networks that ship, and those that other tools publish by name."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.listing import list_files, print_json
from lab.cli.options import Json
from lab.model.link import Link
from lab.model.load import list_topologies, load_topology, publishers
from lab.model.topology import Topology


def register(app: typer.Typer) -> None:
    app.command("topologies")(topologies)


def topologies(
    json_output: Json = False,
    presets: Annotated[bool, typer.Option("--presets", help="Those that other tools publish, with their sources.")] = False,
) -> None:
    """List your own networks and those that ship with the lab. A file that cannot be read is named; the others are listed."""
    if presets:
        _list_presets(json_output=json_output)
        return
    list_files(list_topologies(), load_topology, _line_of, json_output=json_output)


def _list_presets(*, json_output: bool) -> None:
    if json_output:
        print_json([publisher.topology(name) for publisher in publishers() for name in publisher.presets])
        return
    for publisher in publishers():
        typer.echo(f"{publisher.publisher}: {publisher.source}, read {publisher.seen}\n    {publisher.silent}")
        for name, preset in publisher.presets.items():
            typer.echo(_line_of_preset(name, preset.link(), preset.called))


def _line_of(topology: Topology) -> str:
    link = topology.link
    shape = "loopback" if topology.same_host else "trace" if topology.schedule and topology.schedule.trace else "unshaped"
    more = ", ".join([*_impairments(link), *_beyond_the_link(topology)])
    return f"{topology.name:20} {link.rate or shape!s:12} RTT {link.rtt!s:8} {more:36} {topology.description}"


def _beyond_the_link(topology: Topology) -> list[str]:
    """The other parts of a network, in words."""
    nodes = len(topology.wiring.nodes)
    return [
        *(["changes"] if topology.schedule else []),
        *([f"{nodes} more node{'' if nodes == 1 else 's'}"] if nodes else []),
        *(["IPv6"] if topology.ip == 6 else ["IPv4 and IPv6"] if topology.ip == "both" else []),
        *(["resolver"] if topology.dns else []),
    ]


def _line_of_preset(name: str, link: Link, called: str) -> str:
    """The published figures under the name that commands take."""
    rates = f"{link.direction('down').rate!s:15} up {link.direction('up').rate!s:13}"
    return f"  {name:34} {rates} RTT {link.rtt!s:9} {', '.join(_impairments(link)):18} {called}".rstrip()


def _impairments(link: Link) -> list[str]:
    """Loss and jitter of either direction, in words."""
    jitter = max(link.jitter.ns, link.direction("up").jitter.ns)
    return [
        *([f"loss {link.loss.value * 100:.2g} %"] if link.loss.value else []),
        *([f"jitter {jitter / 1e6:g} ms"] if jitter else []),
    ]
