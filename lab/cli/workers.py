"""`lab worker` and `lab workers`: machines that answer questions for labs elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table

from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.clients.registry import parse_client
from lab.model.errors import EXIT_INVALID
from lab.run.workers.cluster import Listed, connected
from lab.run.workers.facts import Facts, against_this_machine, first_difference
from lab.run.workers.serve import offers, serve

Scheduler = Annotated[str, typer.Argument(metavar="ADDRESS", help="The Dask scheduler, e.g. tcp://10.0.0.1:8786.")]


def register(app: typer.Typer) -> None:
    app.command("worker")(worker)
    app.command("workers")(workers)


def worker(
    scheduler: Scheduler,
    virtual: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Cells in virtual time at once; 0 for none. Default: one per core.")
    ] = None,
    real: Annotated[bool, typer.Option("--real/--no-real", help="Whether cells in real time may run here.")] = True,
    offer: Annotated[list[str] | None, typer.Option(metavar="NAME", help="What `lab run --needs NAME` looks for.")] = None,
    name: Annotated[str | None, typer.Option(help="The worker's name in results; by default its address.")] = None,
) -> None:
    """Run cells for labs elsewhere until the scheduler ends. The machine is tried first: it offers what works.

    Every user who reaches the scheduler can run any program as this user: see docs/how-to/many-machines.md.
    """
    offered, problems = offers(virtual, real=real, more=offer or ())
    for problem in problems:
        typer.echo(f"worker: {problem}", err=True)
    typer.echo(f"worker: offers {_words(offered)} to {scheduler}", err=True)
    serve(scheduler, offered, name)


def workers(
    scheduler: Scheduler,
    client: Annotated[list[str] | None, typer.Option(help="Also compare this client: a name, a path, or NAME=PATH.")] = None,
    json_output: Json = False,
) -> None:
    """List the workers of a scheduler: what they offer, and whether they have the same lab, kernel and programs as this machine.

    Exit code 4 where they differ.
    """
    clients = [parse_client(text) for text in client or ()]
    with connected(scheduler) as cluster:
        listed = cluster.look()
        told = cluster.probe(listed, clients) if listed else {}
        dashboard = cluster.dashboard
    rows = [(each, told.get(address, "it does not answer")) for address, each in listed.items()]
    known = {each.name: facts for each, facts in rows if isinstance(facts, Facts)}
    problems = [f"{each.name}: {facts}" for each, facts in rows if isinstance(facts, str)]
    problems += [problem for name, facts in known.items() if (problem := against_this_machine(name, facts, clients))]
    problems += [problem] if (problem := first_difference(known)) else []
    if json_output:
        found = [
            {
                "address": each.address,
                "name": each.name,
                "offers": dict(each.offers),
                "busy": each.busy,
                "facts": facts.model_dump(mode="json") if isinstance(facts, Facts) else None,
            }
            for each, facts in rows
        ]
        typer.echo(json.dumps({"workers": found, "problems": problems, "dashboard": dashboard}, indent=2))
    else:
        _table(rows)
        for problem in problems:
            typer.echo(problem)
        if dashboard:
            typer.echo(f"dashboard: {dashboard}")
    raise typer.Exit(EXIT_INVALID if problems else 0)


def _table(rows: list[tuple[Listed, Facts | str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("worker", "address", "host", "offers", "busy", "lab", "kernel"):
        table.add_column(heading, overflow="fold")
    for each, facts in rows:
        told = (facts.host, facts.lab[:12], facts.kernel[:12]) if isinstance(facts, Facts) else ("?", "?", "?")
        table.add_row(each.name, each.address, told[0], _words(each.offers), str(each.busy), *told[1:])
    stdout_console().print(table)
    typer.echo(f"{len(rows)} worker{'' if len(rows) == 1 else 's'}")


def _words(offered: Mapping[str, float]) -> str:
    return " ".join(f"{name}={amount:g}" for name, amount in offered.items())
