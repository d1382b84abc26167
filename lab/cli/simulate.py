"""`lab simulate`: does the judge keep its promises? Ten thousand simulated cells per scenario."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab.cli.options import Json
from lab.cli.output import stdout_console
from lab.judge.decide import VIRTUAL_PLAN
from lab.judge.simulate import PLAN, Row, Simulation, simulate
from lab.judge.simulate_gate import simulate_gates
from lab.model.errors import EXIT_FAIL, UsageProblem

VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE")


class GateOf(StrEnum):
    """The set of rows whose gate is simulated."""

    QUICK = "quick"
    FULL = "full"


GATES = {GateOf.QUICK: 7, GateOf.FULL: 66}
"""Rows of that set."""


class PlanOf(StrEnum):
    """The clock whose plan of looks is simulated."""

    REAL = "real"
    VIRTUAL = "virtual"


def register(app: typer.Typer) -> None:
    app.command("simulate")(simulate_command)


def simulate_command(
    cells: Annotated[int, typer.Option(help="Simulated cells per scenario.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same table.")] = 1,
    clock: Annotated[PlanOf, typer.Option(help="Simulate this clock's plan of looks.")] = PlanOf.REAL,
    gate: Annotated[
        GateOf | None,
        typer.Option(help="Simulate qualifications by comparison with the rows of this set; a cell is then a gate."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Judge simulated clients whose truth is known, by the code that judges real ones: how often is the judge wrong?

    Exit code 1 when a promise is broken: the complete 95 % interval of the observed share lies above the bound. Needs no lab.
    """
    if cells < 1 or seed < 0:
        raise UsageProblem(
            f"--cells {cells} --seed {seed} cannot be simulated", remedy="give at least one cell and a seed of 0 or more"
        )
    plan = VIRTUAL_PLAN if clock is PlanOf.VIRTUAL else PLAN
    drawn = partial(simulate, cells, seed, plan)
    if gate is not None:
        plan = VIRTUAL_PLAN
        drawn = partial(simulate_gates, cells, seed, rows=GATES[gate], plan=plan)
    progress = Console(file=sys.stderr)
    with progress.status("drawing clients ...") as status:
        rows: list[Row] = []
        for row in drawn():
            rows.append(row)
            status.update(f"{row.scenario}: {row.word}")
    done = Simulation(seed=seed, looks=list(plan.looks), alpha_per_look=plan.alpha_per_look, rows=rows)
    if json_output:
        typer.echo(done.model_dump_json(indent=2))
    else:
        render(done, stdout_console())
    if done.broken:
        raise typer.Exit(EXIT_FAIL)


def render(done: Simulation, console: Console) -> None:
    """Print the table, and one line on whether the promises were kept."""
    table = Table("scenario", "wrong", "asked", "seen", "95 % interval", "PASS / FAIL / INCONCLUSIVE", "samples", "promise")
    for row in done.rows:
        table.add_row(
            row.scenario,
            row.counted,
            "" if row.asked is None else f"<= {row.asked * 100:g} %",
            f"{row.share * 100:.2f} %",
            f"{row.low * 100:.2f} to {row.high * 100:.2f} %",
            " / ".join(str(row.verdicts.get(name, 0)) for name in VERDICTS),  # type: ignore[call-overload]
            f"{row.mean_samples:.1f}",
            row.word,
        )
    console.print(table)
    looks = ", ".join(map(str, done.looks))
    console.print(f"{done.rows[0].cells} cells each, looks at {looks}, alpha {done.alpha_per_look:g} per look, seed {done.seed}")
    if done.broken:
        console.print(f"BROKEN: {'; '.join(f'{row.scenario} ({row.share * 100:.2f} %)' for row in done.broken)}")
    else:
        console.print(f"every one of {sum(row.asked is not None for row in done.rows)} promises is kept, as far as this can tell")
