"""`lab run`, `lab topologies`, `lab suites`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer
from robot.api import TestSuite

from lab.cli.options import AnyBackend, AnyHost, Beside, Clock, Json, Price, Router, RunSeed, Wait
from lab.cli.output import stdout_console
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.model.cell import Cell
from lab.model.errors import UsageProblem
from lab.model.load import list_topologies, load_topology
from lab.robot.suite import Choice, find_suite, list_suites, read_suites, run_suites
from lab.robot.tables import questions_of, read_rows
from lab.run import system_calls
from lab.run.flamegraph import get_ready
from lab.run.named_cells import named_cells, run_cells
from lab.run.progress import Lines
from lab.run.settings import WAIT, Only, choose
from lab.servers.sshd import SshdOptions
from reports.files import make_reports
from reports.text import render_run


def register(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("topologies")(topologies)


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in list_suites() if name.startswith(incomplete)]


def run(
    targets: Annotated[
        list[str], typer.Argument(metavar="SUITE|CELL...", autocompletion=_complete_target, help="Suites, or cells by name.")
    ],
    clock: Clock = "auto",
    seed: RunSeed = None,
    price: Price = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    client: Annotated[
        list[str] | None, typer.Option(help="The client under test: a name, a path, or NAME=PATH; several, one after the other.")
    ] = None,
    include: Annotated[list[str] | None, typer.Option(help="Only tests of the suite with this tag.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No tests of the suite with this tag, e.g. slow.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Only tests of the suite that match this pattern.")] = None,
    variable: Annotated[list[str] | None, typer.Option("-v", help="A Robot variable, NAME:VALUE.")] = None,
    pcap: Annotated[bool, typer.Option("--pcap", help="Keep a capture per sample.")] = False,
    flamegraph: Annotated[
        bool, typer.Option("--flamegraph", help="After each cell one run more, under perf; its flame graph is evidence.")
    ] = False,
    syscalls: Annotated[
        bool, typer.Option("--syscalls", help="After each cell one run more, under perf; its system calls are counted.")
    ] = False,
    old_ssh: Annotated[
        bool, typer.Option("--old-ssh", help="The SSH server has RSA keys and SHA-1, for clients on libssh2 before 1.9.")
    ] = False,
    max_samples: Annotated[
        int | None,
        typer.Option(
            min=5, max=VIRTUAL_PLAN.cap, help="Stop looking for a verdict after this many samples; real time ends at 20."
        ),
    ] = None,
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    list_only: Annotated[bool, typer.Option("--dry-run", help="Only print the cells, and run nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Run suites, or cells by name, and print the verdicts.

    A cell is CLIENT--TOPOLOGY--TRANSFER, e.g. curl--dsl-20--http1-get-5MiB-at-1MBps. It runs in virtual time, which nothing on
    this machine disturbs, unless it asks about the machine: CPU, requests per second, an unshaped link, Windows.
    """
    suites = [suite for target in targets if ("--" not in target or target.endswith(".robot")) and (suite := find_suite(target))]
    if suites and len(suites) < len(targets):
        other = next(target for target in targets if not find_suite(target))
        if "--" in other:
            raise UsageProblem("suites and cells cannot be mixed", remedy="name suites, or cells, and run the others after them")
        raise _no_suite(other)
    if not suites and (word := next((target for target in targets if "--" not in target), "")):
        raise _no_suite(word)
    choice = Choice(tests=test or (), include=include or (), exclude=exclude or ())
    variables = dict([_split(text) for text in variable or []])
    suite = read_suites(suites, client or (), choice) if suites else None
    questions = questions_of(suite, variables) if suite else []
    where = choose(
        clock,
        backend,
        router,
        seed=seed,
        price=price,
        real_only=_PERF if flamegraph else _CALLS if syscalls else None,
        wait=wait,
        beside=beside,
        any_host=any_host,
    )
    cells = [] if suites else named_cells(targets, client or ())
    if list_only:
        _list(suite, cells, variables)
        return
    if pcap and where.backend == "compose":
        raise UsageProblem("containers may not capture packets", remedy="use --pcap with --backend namespaces")
    progress = Lines()
    tools = get_ready(progress.step, where.backend) if flamegraph else None
    if syscalls:
        system_calls.check(where.backend)
    with where.options() as common:
        options = replace(
            common,
            pcap=pcap,
            looks=_up_to(max_samples, LookPlan()),
            virtual_looks=_up_to(max_samples, VIRTUAL_PLAN),
            flamegraph=tools,
            syscalls=syscalls,
            sshd=SshdOptions(old_clients=old_ssh),
        )
        name = "-".join(path.stem for path in suites) or "cells"
        if suite is not None:
            session = run_suites(suite, questions, options, progress, name=name, variables=variables, reports=make_reports)
        else:
            session = run_cells(cells, options, progress, reports=make_reports)
    record = session.recorded
    assert record is not None, "a run without results has ended in a problem"
    if json_output:
        typer.echo(record.model_dump_json(indent=2))
    else:
        console = stdout_console()
        render_run(session.results, console, answers=session.answers, skipped=session.skipped)
        typer.echo(f"results: {session.run.path}")
    raise typer.Exit(record.exit_code)


_PERF = Only("--flamegraph", "perf cannot see into the guest")
_CALLS = Only("--syscalls", "perf cannot see into the guest")


def _no_suite(name: str) -> UsageProblem:
    return UsageProblem(
        f"no suite called {name!r}, and a cell is called CLIENT--TOPOLOGY--TRANSFER", remedy="suites: " + ", ".join(list_suites())
    )


def _list(suite: TestSuite | None, cells: Sequence[Cell], variables: Mapping[str, str]) -> None:
    """The names of what would be asked, one per line."""
    for cell in cells:
        typer.echo(cell.id)
    for row in read_rows(suite, variables) if suite is not None else ():
        for question in row.questions:
            typer.echo(question.id)
        if not row.questions:
            typer.echo(f"{row.suite}: {row.name}: {row.problem or 'written in steps'}")


def _up_to(most: int | None, plan: LookPlan) -> LookPlan:
    return plan if most is None else replace(plan, looks=tuple(look for look in plan.looks if look <= most))


def _split(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise UsageProblem(f"{text!r} is not a Robot variable", remedy="write -v NAME:VALUE")
    return name, value


def topologies(json_output: Json = False) -> None:
    """List the networks that ship with the lab."""
    found = [load_topology(name) for name in list_topologies()]
    if json_output:
        import json

        typer.echo(json.dumps([topology.model_dump(mode="json") for topology in found], indent=2))
        return
    for topology in found:
        link = topology.link
        rate = str(link.rate) if link.rate else "loopback" if topology.same_host else "unshaped"
        more = ", ".join(
            f"{name} {getattr(link, name)}" for name in ("loss", "jitter") if getattr(link, name) != type(getattr(link, name))(0)
        )
        typer.echo(f"{topology.name:14} {rate:12} RTT {link.rtt!s:8} {more:24} {topology.description}")
