"""`lab qualify`: a release through its suite, interleaved with a baseline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
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
from lab.judge.worse import GATE_ALPHA
from lab.model.accepted import AcceptedFile, accepted_text, check_rows, load_accepted
from lab.model.answer import Answer, asking
from lab.model.clock import ClockChoice
from lab.model.errors import UsageProblem
from lab.model.files import write_text
from lab.model.results import exit_code
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.robot.release import release_rows
from lab.robot.suite import Choice, suite_file
from lab.run.comparison import Comparing, accepted_now, compare_release
from lab.run.measured import measured_run
from lab.run.pair import MARGIN, told_apart
from lab.run.parallel import side_by_side
from lab.run.progress import Lines
from lab.run.qualify import check_program, plan
from lab.run.qualify import qualify as run_set
from lab.run.release import QUICK_LOOKS, ReleaseRow, one_by_one, set_seconds
from lab.run.settings import WAIT, RunSettings, choose
from reports.answer_text import render_qualification
from reports.files import make_reports

RELEASE = "release"
QUICK_VIRTUAL_LOOKS = replace(VIRTUAL_PLAN, looks=VIRTUAL_PLAN.looks[:3])
Margin = Annotated[
    Ratio | None,
    typer.Option(
        parser=quantity(Ratio.parse),
        metavar="SHARE",
        help="How much slower than the baseline still passes. Default: 2 %, in real time 5 %.",
    ),
]
Accept = Annotated[
    Path | None,
    typer.Option("--accept", metavar="FILE", help="What may be worse than the baseline, and by how much (see --write-accept)."),
]
WriteAccept = Annotated[
    Path | None,
    typer.Option("--write-accept", metavar="FILE", help="Write what is worse into a file for --accept. The verdict stays."),
]


def register(app: typer.Typer) -> None:
    app.command("qualify")(qualify)


def qualify(
    candidate: Annotated[
        str, typer.Argument(metavar="[CANDIDATE]", help="The client to qualify: a name, a path, NAME=PATH or curl@VERSION.")
    ] = "",
    baseline: Annotated[
        str, typer.Option(metavar="CLIENT", help="The client it may not be worse than: only regressions fail.")
    ] = "",
    absolute: Annotated[
        bool, typer.Option("--absolute", help="A promise that is not kept fails, as it does without a baseline.")
    ] = False,
    accept: Accept = None,
    write_accept: WriteAccept = None,
    suite: Annotated[str, typer.Option(metavar="SUITE", help="The suite of its rows: a name in suites/ or a path.")] = RELEASE,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only rows tagged quick, with fewer samples; --list says how long they take.")
    ] = False,
    include: Annotated[list[str] | None, typer.Option(help="Only rows with this tag.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No rows with this tag.")] = None,
    lanes: Annotated[
        int, typer.Option(min=1, help="In real time: this many light cells side by side, each on a network of its own.")
    ] = 1,
    margin: Margin = None,
    with_machine: Annotated[
        bool, typer.Option("--with-machine", help="Rows about the machine too, in real time: CPU, memory of many streams.")
    ] = False,
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
    """Put a release through its suite, next to a baseline, to one verdict and one exit code.

    With a baseline only what is worse than the baseline's fails; without one, every promise that is not kept. In virtual time.

    QUALIFIED 0, NOT QUALIFIED 1, UNDECIDED 3, INVALID 4. Rows that the client does not support are skipped and counted.
    """
    compared = bool(baseline) and not absolute
    if (accept or write_accept) and not compared:
        raise UsageProblem("--accept and --write-accept are about a comparison", remedy="add --baseline, without --absolute")
    if margin is not None and not 0 < margin.value < 1:
        raise UsageProblem(f"--margin {margin} is not a margin", remedy="give one between 0 % and 100 %, exclusive")
    tag = ["quick" if quick else "full"] if suite == RELEASE else []
    items = release_rows([suite_file(suite)], Choice(include=include or tag, exclude=exclude or ()))
    items = one_by_one(items) if compared else items
    ours, theirs = _clients(candidate, baseline)
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
    if where.clock == "auto" and not with_machine:
        where = replace(where, clock="virtual")
    # An alarm of a comparison needs twenty pairs, and only open figures go on to eighty.
    fewer = quick and not compared
    looks = QUICK_LOOKS if fewer else LookPlan()
    if list_set:
        _show(plan(items, ours, where.clock)[0] if ours else items, looks, where.clock, json_output=json_output)
        return
    if ours is None:
        raise UsageProblem("there is no client to qualify", remedy="lab qualify CANDIDATE, or --list to see the set")
    _check_lanes(lanes, where)
    asked, _ = plan(items, ours, where.clock)
    accepted = _accepted(accept, asked)
    _check_programs(filter(None, (ours, theirs)), where)
    name = ("quick" if quick else "full") if suite == RELEASE else Path(suite).stem
    planned = [*(row.id_of(ours) for row in asked), f"{ours.name}--qualification"]
    with where.options() as common:
        options = replace(
            common,
            looks=looks,
            virtual_looks=QUICK_VIRTUAL_LOOKS if fewer else VIRTUAL_PLAN,
            twins={theirs.name: ours.name} if theirs else {},
        )
        with measured_run(f"qualify-{ours.name}", options, Lines(), reports=make_reports, planned=planned) as session:
            if theirs and compared:
                share = margin.value if margin is not None else None
                how = Comparing(theirs, share, GATE_ALPHA, accepted, str(accept or ""), baseline)
                found = compare_release(session, ours, items, how, set_name=name, lanes=lanes)
            else:
                found, _ = run_set(session, ours, theirs, items, set_name=name, margin=margin or MARGIN, lanes=lanes)
    if write_accept:
        _write_accept(write_accept, session.answers, accepted, candidate, baseline, session.run.name)
    if json_output:
        typer.echo(found.model_dump_json(indent=2))
    else:
        console = stdout_console()
        render_qualification(found, console, cells=session.results, answers=session.answers)
        typer.echo(f"results: {session.run.path}")
    raise typer.Exit(exit_code([found.judged.name]))


def _clients(candidate: str, baseline: str) -> tuple[ClientSpec | None, ClientSpec | None]:
    """Both, under two names."""
    ours, theirs = (parse_client(text) if text else None for text in (candidate, baseline))
    return ours, told_apart(ours, theirs) if ours and theirs else theirs


def _accepted(path: Path | None, asked: Sequence[ReleaseRow]) -> AcceptedFile:
    if path is None:
        return AcceptedFile()
    found = load_accepted(path)
    check_rows(found, [row.name for row in asked], path)
    return found


def _check_programs(clients: Iterable[ClientSpec], where: RunSettings) -> None:
    for client in clients:
        resolve(client)
        if where.shares_programs:
            check_program(client)


def _write_accept(path: Path, answers: Sequence[Answer], before: AcceptedFile, candidate: str, baseline: str, run: str) -> None:
    found = accepted_now(asking(answers, "no-worse"), before, baseline)
    heading = [
        f"Where {candidate} may be worse than {baseline}: lab qualify {candidate} --baseline {baseline} --accept {path.name}",
        f"Written by the lab from the run {run}. A figure fails again when it gets worse than this.",
    ]
    write_text(path, accepted_text(found, heading))
    typer.echo(f"{path}: {len(found.accepted)} accepted", err=True)


def _check_lanes(lanes: int, where: RunSettings) -> None:
    cores = len(os.sched_getaffinity(0))
    if lanes > cores:
        raise UsageProblem(f"--lanes {lanes}: this machine has {cores} cores", remedy=f"at most --lanes {cores}")
    if lanes > 1 and where.backend != "namespaces":
        raise UsageProblem(f"--lanes {lanes} needs --backend namespaces", remedy="leave out --backend or --lanes")
    if lanes > 1 and where.clock == "virtual":
        raise UsageProblem(f"--lanes {lanes} is about real time", remedy="add --with-machine or --clock real")


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
    stdout_console().print(table)
    typer.echo(
        f"{len(items)} lines, about {totals['alone_s'] / 60:.1f} min alone, {totals['with_baseline_s'] / 60:.1f} min with a "
        "baseline; what stays undecided at its first look takes longer"
    )
