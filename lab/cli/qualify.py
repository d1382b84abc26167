"""`lab qualify`: a release through its suite, interleaved with a baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lab.cli.options import (
    AnyBackend,
    AnyHost,
    Beside,
    Clock,
    Json,
    Router,
    RunSeed,
    Wait,
    quantity,
)
from lab.cli.output import stdout_console
from lab.clients.registry import parse_client, resolve
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.model.clock import ClockChoice
from lab.model.errors import UsageProblem
from lab.model.results import exit_code
from lab.model.units import Ratio
from lab.robot.release import release_rows
from lab.robot.suite import Choice, suite_file
from lab.run.measured import measured_run
from lab.run.pair import MARGIN, check_names
from lab.run.parallel import side_by_side
from lab.run.progress import Lines
from lab.run.qualify import check_program, plan
from lab.run.qualify import qualify as run_set
from lab.run.release import QUICK_LOOKS, ReleaseRow, set_seconds
from lab.run.settings import WAIT, RunSettings, choose
from reports.answer_text import render_qualification
from reports.files import make_reports

RELEASE = "release"
QUICK_VIRTUAL_LOOKS = replace(VIRTUAL_PLAN, looks=VIRTUAL_PLAN.looks[:3])
Margin = Annotated[
    Ratio,
    typer.Option(parser=quantity(Ratio.parse), metavar="SHARE", help="How much slower than the baseline still passes."),
]


def register(app: typer.Typer) -> None:
    app.command("qualify")(qualify)


def qualify(
    candidate: Annotated[
        str, typer.Argument(metavar="[CANDIDATE]", help="The client to qualify: a name, a path, NAME=PATH or curl@VERSION.")
    ] = "",
    baseline: Annotated[str, typer.Option(metavar="CLIENT", help="The client it may not be worse than.")] = "",
    suite: Annotated[str, typer.Option(metavar="SUITE", help="The suite of its rows: a name in suites/ or a path.")] = RELEASE,
    quick: Annotated[bool, typer.Option("--quick", help="Rows tagged quick, and fewer samples: five minutes.")] = False,
    include: Annotated[list[str] | None, typer.Option(help="Only rows with this tag.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No rows with this tag.")] = None,
    lanes: Annotated[
        int, typer.Option(min=1, help="In real time: this many light cells side by side, each on a network of its own.")
    ] = 1,
    margin: Margin = MARGIN,
    clock: Clock = "auto",
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    list_set: Annotated[bool, typer.Option("--list", help="Show the set with its estimated times, and run nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Put a release through its suite, interleaved with a baseline, to one verdict and one exit code.

    QUALIFIED 0, NOT QUALIFIED 1, UNDECIDED 3, INVALID 4. Rows that the client does not support are skipped and counted.
    """
    tag = ["quick" if quick else "full"] if suite == RELEASE else []
    items = release_rows([suite_file(suite)], Choice(include=include or tag, exclude=exclude or ()))
    looks = QUICK_LOOKS if quick else LookPlan()
    if not 0 < margin.value < 1:
        raise UsageProblem(f"--margin {margin} is not a margin", remedy="give one between 0 % and 100 %, exclusive")
    ours, theirs = (parse_client(text) if text else None for text in (candidate, baseline))
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
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
    with where.options() as common:
        options = replace(common, looks=looks, virtual_looks=QUICK_VIRTUAL_LOOKS if quick else VIRTUAL_PLAN)
        name = ("quick" if quick else "full") if suite == RELEASE else Path(suite).stem
        with measured_run(f"qualify-{ours.name}", options, progress, reports=make_reports) as session:
            found, _ = run_set(session, ours, theirs, items, set_name=name, margin=margin, lanes=lanes)
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        console = stdout_console(130)
        render_qualification(found, console, cells=session.results, answers=session.answers)
        typer.echo(f"results: {session.run.path}")
    raise typer.Exit(exit_code([found.judged.name]))


def _check_lanes(lanes: int, where: RunSettings) -> None:
    cores = len(os.sched_getaffinity(0))
    if lanes > cores:
        raise UsageProblem(f"--lanes {lanes}: this machine has {cores} cores", remedy=f"at most --lanes {cores}")
    if lanes > 1 and where.backend != "namespaces":
        raise UsageProblem(f"--lanes {lanes} needs --backend namespaces", remedy="leave out --backend or --lanes")


def _show(items: Sequence[ReleaseRow], looks: LookPlan, choice: ClockChoice, *, json_output: bool) -> None:
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
    stdout_console(160).print(table)
    typer.echo(
        f"{len(items)} lines, about {totals['alone_s'] / 60:.1f} min alone, {totals['with_baseline_s'] / 60:.1f} min with a "
        "baseline; what stays undecided at its first look takes longer"
    )
