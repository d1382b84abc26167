"""`lab repro`: known bugs, each run on the clients that are said to have it and on those said not to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lab.cli.options import AnyBackend, AnyHost, Beside, Clock, Json, Router, RunSeed, Wait
from lab.cli.output import stdout_console
from lab.model.answer import Answer
from lab.model.results import exit_code
from lab.model.scenario import Scenario
from lab.model.transfer import ClientSpec
from lab.robot.bugs import find_scenarios, list_scenarios
from lab.run.measured import measured_run
from lab.run.progress import Lines
from lab.run.questions import Asking
from lab.run.reproduce import build, check_clients, plan, reproduce, unbuilt
from lab.run.settings import WAIT, choose
from lab.store.run_dir import RunDir
from reports.answer_text import print_line, verdict_word
from reports.files import make_reports


def register(app: typer.Typer) -> None:
    app.command("repro")(repro)


def _complete(incomplete: str) -> list[str]:
    return [each.name for each in list_scenarios() if each.name.startswith(incomplete)]


def repro(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO...]",
            autocompletion=_complete,
            help="A row of suites/repros.robot, or the path of a suite; else all.",
        ),
    ] = None,
    times: Annotated[int, typer.Option(min=1, max=100, help="Number of rounds; each is a new run on a new network.")] = 1,
    list_them: Annotated[bool, typer.Option("--list", help="Only list the rows, and run nothing.")] = False,
    build_first: Annotated[bool, typer.Option("--build", help="Build the versions that are missing first.")] = False,
    clock: Clock = "auto",
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    json_output: Json = False,
) -> None:
    """Reproduce known bugs: FAIL on the versions that have one, PASS on those that have not.

    Exit code 0 when every client did as the row says, 1 when one is decided otherwise, 3 undecided, 4 the lab's fault.
    """
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
    scenarios = [scenario for name in names for scenario in find_scenarios(name)] if names else list_scenarios()
    if list_them:
        _list(scenarios, json_output)
        return
    due = plan(scenarios)
    if build_first:
        build(unbuilt(cell.client for *_, cell in due), lambda text: typer.echo(f"client: {text}", err=True))
    check_clients(cell for *_, cell in due)
    rounds: list[list[Answer]] = []
    records: list[RunDir] = []
    progress = Lines()
    asked = [*dict.fromkeys(cell.id for *_, cell in due)]
    with where.options() as options:
        for number in range(times):
            # A cell's file has the cell's name: a second round of it needs another run, and another seed.
            round_options = replace(options, seed=options.seed + number)
            with measured_run("repro", round_options, progress, reports=make_reports, planned=asked) as session:
                rounds.append(reproduce(Asking(session), due))
            records.append(session.run)
    code = exit_code(answer.judged.name for answers in rounds for answer in answers)
    if json_output:
        numbered = [(number, answer) for number, answers in enumerate(rounds, start=1) for answer in answers]
        found = [{"round": number, **answer.model_dump(mode="json")} for number, answer in numbered]
        typer.echo(json.dumps({"answers": found, "exit_code": code}, indent=2))
    else:
        for number, answers in enumerate(rounds, start=1):
            _table(answers, f"round {number}" if times > 1 else "")
        for record in records:
            typer.echo(f"results: {record.path}")
    raise typer.Exit(code)


def _table(answers: Sequence[Answer], title: str) -> None:
    console = stdout_console()
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for heading in ("scenario", "client", "expected", "found"):
        table.add_column(heading, no_wrap=True)
    table.add_column("figure", overflow="fold")
    for answer in answers:
        facts, (arm,) = answer.facts, answer.arms
        mark = "" if answer.judged.name == "PASS" else "not as expected: "
        found = verdict_word(arm.verdict or "INVALID")
        table.add_row(facts["scenario"], arm.name, facts["expected"], found, Text(f"{mark}{facts['figure']}"))
    console.print(table)
    held = sum(answer.judged.name == "PASS" for answer in answers)
    console.print(f"{held} of {len(answers)} as expected", highlight=False)


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
    console = stdout_console()
    console.print(table)
    console.print()
    for scenario in scenarios:
        symptom = " ".join(scenario.symptom.split())
        print_line(console, f"{scenario.name}: {symptom}{f' {scenario.report}' if scenario.report else ''}")
    if missing:
        typer.echo(f"not built yet: lab client build {' '.join(missing)}")
