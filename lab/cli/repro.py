"""`lab repro`: known bugs, each run on the clients that are said to have it and on those said not to."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.cli.options import WAIT, AnyBackend, AnyHost, AskedBackend, AskedClock, Beside, Clock, Json, Router, RunSeed, Wait
from lab.cli.place import Turn, place, session_options
from lab.result.store import RunDir
from lab.result.table import verdict_word
from lab.runner.progress import Lines
from lab.runner.reproduce import Outcome, build, check_clients, plan, reproduce, unbuilt, worst_exit_code
from lab.runner.session import Session
from lab.spec.models import ClientSpec
from lab.spec.scenario import Scenario, find_scenario, list_scenarios


def register(app: typer.Typer) -> None:
    app.command("repro")(repro)


def _complete(incomplete: str) -> list[str]:
    return [name for name in list_scenarios() if name.startswith(incomplete)]


def repro(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO...]", autocompletion=_complete, help="A name, or the path of a YAML file; else all."),
    ] = None,
    times: Annotated[int, typer.Option(min=1, max=100, help="So many rounds, each a run and a network of its own.")] = 1,
    list_them: Annotated[bool, typer.Option("--list", help="Only say what there is.")] = False,
    build_first: Annotated[bool, typer.Option("--build", help="Build the versions that are missing first.")] = False,
    clock: Clock = AskedClock.AUTO,
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = AskedBackend.AUTO,
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    json_output: Json = False,
) -> None:
    """Reproduce known bugs: FAIL on the versions that have one, PASS on those that have not.

    Exit code 0 when every client did what was said of it, 1 when one is decided otherwise, 3 undecided, 4 the lab's fault.
    """
    where = place(clock, backend, router, seed=seed)
    scenarios = [find_scenario(name) for name in names or list_scenarios()]
    if not names:
        # Cells on one link follow each other, and share a calibration.
        scenarios.sort(key=lambda scenario: scenario.topology)
    if list_them:
        _list(scenarios, json_output)
        return
    due = plan(scenarios)
    if build_first:
        build(unbuilt(cell.client for *_, cell in due), lambda text: typer.echo(f"client: {text}", err=True))
    check_clients(cell for *_, cell in due)
    rounds: list[list[Outcome]] = []
    records: list[RunDir] = []
    progress = Lines()
    with Turn(wait, beside=beside, now=where.clock == "real") as turn:
        options = session_options(where, turn, any_host=any_host)
        for number in range(times):
            # A cell's file has the cell's name: a second round of it belongs into a run of its own, and has its own seed.
            record = RunDir.create("repro")
            session = Session(record, replace(options, seed=options.seed + number), progress=progress)
            try:
                with session:
                    rounds.append(reproduce(session, due))
            finally:
                progress.clear()
                if not session.results:
                    record.discard()
            records.append(record)
    code = worst_exit_code(outcome for round_ in rounds for outcome in round_)
    if json_output:
        found = [{"round": number, **asdict(outcome)} for number, round_ in enumerate(rounds, start=1) for outcome in round_]
        typer.echo(json.dumps({"outcomes": found, "exit_code": code}, indent=2))
    else:
        for number, outcomes in enumerate(rounds, start=1):
            _table(outcomes, f"round {number}" if times > 1 else "")
        for record in records:
            typer.echo(f"results: {record.path}")
    raise typer.Exit(code)


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)


def _table(outcomes: Sequence[Outcome], title: str) -> None:
    console = _console()
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for heading in ("scenario", "client", "expected", "found"):
        table.add_column(heading, no_wrap=True)
    table.add_column("figure", overflow="fold")
    for outcome in outcomes:
        mark = "" if outcome.as_expected else "not as expected: "
        table.add_row(
            outcome.scenario, outcome.client, outcome.expected, verdict_word(outcome.found), Text(f"{mark}{outcome.figure}")
        )
    console.print(table)
    held = sum(outcome.as_expected for outcome in outcomes)
    console.print(f"{held} of {len(outcomes)} as expected", highlight=False)


def _list(scenarios: Sequence[Scenario], json_output: bool) -> None:
    missing = unbuilt(ClientSpec.parse(client) for scenario in scenarios for client, _ in scenario.said)
    if json_output:
        found = [{**scenario.model_dump(mode="json"), "what": scenario.what} for scenario in scenarios]
        typer.echo(json.dumps({"scenarios": found, "not_built": missing}, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    for heading in ("cell", "good", "bad"):
        table.add_column(heading, overflow="fold")
    for scenario in scenarios:
        table.add_row(scenario.name, scenario.what, ", ".join(scenario.good), ", ".join(scenario.bad))
    _console().print(table)
    if missing:
        typer.echo(f"not built yet: lab client build {' '.join(missing)}")
