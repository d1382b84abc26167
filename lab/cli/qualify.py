"""`lab qualify`: a release through its set, beside a baseline."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab.cli.options import (
    WAIT,
    AnyBackend,
    AnyHost,
    AskedBackend,
    AskedClock,
    Beside,
    Clock,
    Json,
    Router,
    RunSeed,
    Wait,
    quantity,
)
from lab.cli.place import Place, Turn, place, session_options
from lab.cli.report import make_reports
from lab.client.registry import parse_client, resolve
from lab.errors import UsageProblem
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.result.qualification_table import render_qualification
from lab.result.store import RunDir
from lab.runner.ahead import side_by_side
from lab.runner.clocks import ClockChoice
from lab.runner.pair import MARGIN, check_names
from lab.runner.progress import Lines
from lab.runner.qualify import check_program, plan
from lab.runner.qualify import qualify as run_set
from lab.runner.release_set import FULL, QUICK, QUICK_LOOKS, Asked, set_seconds
from lab.runner.session import Session
from lab.spec.units import Ratio

QUICK_VIRTUAL_LOOKS = replace(VIRTUAL_PLAN, looks=VIRTUAL_PLAN.looks[:3])
Margin = Annotated[
    Ratio,
    typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="How much slower than the baseline is no regression."),
]


def register(app: typer.Typer) -> None:
    app.command("qualify")(qualify)


def qualify(
    candidate: Annotated[
        str, typer.Argument(metavar="[CANDIDATE]", help="The client to qualify: a name, a path, NAME=PATH or curl@VERSION.")
    ] = "",
    baseline: Annotated[str, typer.Option(metavar="CLIENT", help="The client it may not be worse than.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Eight cells in five minutes, not all in an hour.")] = False,
    lanes: Annotated[
        int, typer.Option(min=1, help="In real time: so many light cells side by side, each on a network of its own.")
    ] = 1,
    margin: Margin = MARGIN,
    clock: Clock = AskedClock.AUTO,
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = AskedBackend.AUTO,
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    list_set: Annotated[bool, typer.Option("--list", help="Show the set with its estimated times, and run nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Put a release through the whole set, beside a baseline, to one verdict and one exit code.

    QUALIFIED 0, NOT QUALIFIED 1, UNDECIDED 3, INVALID 4. What the client cannot do is skipped and counted.
    """
    items, looks = (QUICK, QUICK_LOOKS) if quick else (FULL, LookPlan())
    if not 0 < margin.value < 1:
        raise UsageProblem(f"--margin {margin} is no margin", remedy="give one between 0 % and 100 %, exclusive")
    ours, theirs = (parse_client(text) if text else None for text in (candidate, baseline))
    where = place(clock, backend, router, seed=seed)
    if list_set:
        _show(plan(items, ours, where.clock)[0] if ours else items, looks, where.clock, json_output=json_output)
        return
    if ours is None:
        raise UsageProblem("there is no client to qualify", remedy="lab qualify CANDIDATE, or --list to see the set")
    _check_lanes(lanes, where)
    plan(items, ours, where.clock)
    if theirs:
        check_names(ours, theirs)
    for client in filter(None, (ours, theirs)):
        resolve(client)
        if where.shares_programs:
            check_program(client)
    progress = Lines()
    with Turn(wait, beside=beside, now=where.clock == "real") as turn:
        record = RunDir.create(f"qualify-{ours.name}")
        virtual_looks = QUICK_VIRTUAL_LOOKS if quick else VIRTUAL_PLAN
        options = replace(session_options(where, turn, any_host=any_host), looks=looks, virtual_looks=virtual_looks)
        session = Session(record, options, progress=progress)
        try:
            with session:
                found, _ = run_set(
                    session, ours, theirs, items, set_name="quick" if quick else "full", margin=margin, lanes=lanes
                )
        finally:
            progress.clear()
            if session.results:
                make_reports(record)
            else:
                record.discard()
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)
        render_qualification(found, console, cells=session.results, studies=session.studies, pairs=session.pairs)
        typer.echo(f"results: {record.path}")
    raise typer.Exit(found.exit_code)


def _check_lanes(lanes: int, where: Place) -> None:
    cores = len(os.sched_getaffinity(0))
    if lanes > cores:
        raise UsageProblem(f"--lanes {lanes}: this machine has {cores} cores", remedy=f"at most --lanes {cores}")
    if lanes > 1 and where.backend != "namespaces":
        raise UsageProblem(f"--lanes {lanes} needs networks of namespaces", remedy="leave --backend or --lanes out")


def _show(items: list[Asked] | tuple[Asked, ...], looks: LookPlan, choice: ClockChoice, *, json_output: bool) -> None:
    items = [item for item in items if choice != "virtual" or item.clock(choice) == "virtual"]
    clocks = [item.clock(choice) for item in items]
    alone, beside = (
        [round(item.seconds(clients, looks, clock)) for item, clock in zip(items, clocks, strict=True)] for clients in (1, 2)
    )
    whole = partial(set_seconds, items, looks=looks, choice=choice, cores=side_by_side())
    totals = {"alone_s": round(whole(clients=1)), "with_baseline_s": round(whole(clients=2))}
    rows = list(zip(items, clocks, alone, beside, strict=True))
    if json_output:
        told = [
            {"name": item.name, "why": item.why, "clock": clock, "light": item.light, "alone_s": one, "with_baseline_s": two}
            for item, clock, one, two in rows
        ]
        typer.echo(json.dumps({"items": told, **totals}, indent=2))
        return
    table = Table("cell", "clock", "lane", box=None, pad_edge=False)
    table.add_column("alone s", justify="right")
    table.add_column("with baseline s", justify="right")
    table.add_column("why")
    for item, clock, one, two in rows:
        name = f"{item.name}--buffers" if item.buffers else item.name
        lane = "yes" if item.light and clock == "real" else ""
        table.add_row(name, clock, lane, str(one), str(two), item.why)
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160).print(table)
    typer.echo(
        f"{len(items)} lines, about {totals['alone_s'] / 60:.1f} min alone, {totals['with_baseline_s'] / 60:.1f} min with a "
        "baseline; what stays undecided at its first look takes longer"
    )
