"""`lab run`, `lab topologies`, `lab suites`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console

from lab.cli.options import WAIT, AnyBackend, AnyHost, AskedBackend, AskedClock, Beside, Clock, Json, Price, Router, RunSeed, Wait
from lab.cli.place import Only, Turn, place, session_options
from lab.cli.report import make_reports
from lab.errors import UsageProblem
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.result.finding_table import render_findings
from lab.result.store import RunDir
from lab.result.table import render_run
from lab.runner.flamegraph import get_ready
from lab.runner.progress import Lines
from lab.runner.robot_run import Choice, check_cells, find_suite, list_suites, run_cells, run_suite
from lab.runner.session import Session
from lab.spec.load import list_topologies, load_topology


def register(app: typer.Typer) -> None:
    app.command("run")(run)
    app.command("topologies")(topologies)


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in list_suites() if name.startswith(incomplete)]


def run(
    targets: Annotated[
        list[str], typer.Argument(metavar="SUITE|CELL...", autocompletion=_complete_target, help="One suite, or cells by name.")
    ],
    clock: Clock = AskedClock.AUTO,
    seed: RunSeed = None,
    price: Price = None,
    router: Router = "auto",
    backend: AnyBackend = AskedBackend.AUTO,
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
    max_samples: Annotated[
        int | None,
        typer.Option(min=5, max=VIRTUAL_PLAN.cap, help="Stop looking for a verdict after so many samples; real time ends at 20."),
    ] = None,
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    json_output: Json = False,
) -> None:
    """Run a suite, or cells by name, and print the verdicts.

    A cell is CLIENT--TOPOLOGY--TRANSFER, e.g. curl--dsl-20--http1-get-5MiB-at-1MBps. It runs in virtual time, which nothing on
    this machine disturbs, unless it asks about the machine: CPU, requests per second, an unshaped link, Windows.
    """
    suite = find_suite(targets[0])
    if suite is not None and len(targets) > 1:
        raise UsageProblem("one suite at a time, or any number of cells")
    if suite is None:
        check_cells(targets)
    where = place(clock, backend, router, seed=seed, price=price, real_only=_PERF if flamegraph else None)
    if pcap and where.backend == "compose":
        raise UsageProblem("containers may not capture packets", remedy="use --pcap with --backend namespaces")
    variables = dict([_split(text) for text in variable or []])
    progress = Lines()
    tools = get_ready(progress.step, where.backend) if flamegraph else None
    with Turn(wait, beside=beside, now=where.clock == "real") as turn:
        record = RunDir.create(suite.stem if suite else "cells")
        options = replace(
            session_options(where, turn, any_host=any_host),
            pcap=pcap,
            looks=_up_to(max_samples, LookPlan()),
            virtual_looks=_up_to(max_samples, VIRTUAL_PLAN),
            flamegraph=tools,
        )
        session = Session(record, options, progress=progress)
        try:
            if suite is not None:
                choice = Choice(tests=test or (), include=include or (), exclude=exclude or ())
                run_suite(suite, session, variables, clients=client or (), choice=choice)
            else:
                run_cells(targets, session, client or ())
        finally:
            progress.clear()
            if session.results or session.findings:
                make_reports(record)
            else:
                record.discard()
    whole = session.record()
    if json_output:
        typer.echo(whole.model_dump_json(indent=2))
    else:
        console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110)
        if session.results or session.studies or not session.findings:
            render_run(session.results, console, studies=session.studies, skipped=session.skipped)
        render_findings(session.findings, console)
        typer.echo(f"results: {record.path}")
    raise typer.Exit(whole.exit_code)


_PERF = Only("--flamegraph", "perf cannot see into the guest")


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
        rate = str(link.rate) if link.rate else "unshaped"
        more = ", ".join(
            f"{name} {getattr(link, name)}" for name in ("loss", "jitter") if getattr(link, name) != type(getattr(link, name))(0)
        )
        typer.echo(f"{topology.name:14} {rate:12} RTT {link.rtt!s:8} {more:24} {topology.description}")
