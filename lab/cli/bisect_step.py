"""`lab bisect-step`: one step of `git bisect run`, in the tree that git has checked out."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from lab.cli.options import Clock, RunSeed
from lab.judge.bisect import UNDECIDED_TRIES, next_plan
from lab.model.answer import Answer
from lab.model.errors import EXIT_FAIL, EXIT_PASS, LabFault, RoughwaterError, UsageProblem
from lab.model.paths import cache_dir
from lab.model.results import VerdictName
from lab.model.scenario import Scenario
from lab.robot.bugs import find_scenario
from lab.run.clocks import clock_for
from lab.run.options import Options
from lab.run.revisions import build, client_name
from lab.run.search import for_try, run_once
from lab.run.settings import choose

EXIT_SKIP = 125
"""For git: this revision cannot be judged, try another one."""
EXIT_STOP = 128
"""For git: end the search. It takes every code from 1 to 127 but 125 for a bad revision."""


class _ForGit(TyperCommand):
    """A wrong option ends git's search, instead of making a revision bad."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "format_message"):
                error.exit_code = EXIT_STOP  # type: ignore[attr-defined]
            raise


def register(app: typer.Typer) -> None:
    app.command("bisect-step", cls=_ForGit)(bisect_step)


def bisect_step(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="A row of suites/repros.robot, FILE.robot:ROW, or a cell's name.")
    ],
    program: Annotated[str, typer.Option(metavar="PATH", help="The client that the tree builds, below the current folder.")],
    build_command: Annotated[
        str, typer.Option(metavar="COMMAND", help="Builds it, by sh, in the current folder; without it PROGRAM is there already.")
    ] = "",
    clock: Clock = "auto",
    seed: RunSeed = None,
) -> None:
    """Judge the tree that git has checked out, with the exit codes of `git bisect run`.

    git bisect run lab bisect-step CELL --build-command 'make -j4' --program src/client

    Exit code 0: good, the cell PASSes. 1: bad, it FAILs. 125: skip, because it cannot be built, its transfers fail, or three
    tries were INCONCLUSIVE or INVALID. 128: wrong options; git stops. For a bug that makes transfers fail, use `lab bisect`.
    """
    try:
        code, line = _step(scenario, program, build_command, clock, seed)
    except UsageProblem as problem:
        code, line = EXIT_STOP, str(problem)
    except RoughwaterError as problem:
        code, line = EXIT_SKIP, str(problem)
    except Exception:
        # Python's own exit code of an error is 1: bad.
        traceback.print_exc()
        code, line = EXIT_STOP, "an error in the lab itself, see above"
    typer.echo(f"{ {EXIT_PASS: 'good', EXIT_FAIL: 'bad', EXIT_SKIP: 'skip'}.get(code, 'stop') }: {line}")
    sys.exit(code)


def _step(scenario: str, program: str, build_command: str, clock: Any, seed: int | None) -> tuple[int, str]:
    meant = find_scenario(scenario)
    where = choose(clock, "auto", "auto", seed=seed)
    tree = Path.cwd()
    made = tree / program
    if build_command:
        log = cache_dir() / f"build-step-{tree.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        made = build(build_command, program, tree, log, name="this revision")
    elif not made.is_file():
        raise LabFault(f"there is no {made}", remedy="build it first, or give --build-command")
    client = f"{client_name(program, meant.client)}-step={made}"
    real = clock_for([meant.cell(meant.client)], where.clock) == "real"
    with where.options(real_now=real) as options:
        return _judge(meant, client, options)


def _judge(scenario: Scenario, client: str, options: Options) -> tuple[int, str]:
    """Exit code and reason after at most three tries, which take more samples while the verdict is open."""
    seen: list[VerdictName] = []
    while True:
        answer = run_once(scenario, client, for_try(options, next_plan(seen), len(seen)))
        verdict = answer.judged
        seen.append(verdict.name)
        told = f"{verdict.name}, {verdict.reason} [{answer.run}]"
        if verdict.name == "PASS":
            return EXIT_PASS, told
        if verdict.name == "FAIL":
            return (EXIT_FAIL if _shows_bug(answer, scenario) else EXIT_SKIP), told
        if verdict.cause == "setup" or len(seen) == UNDECIDED_TRIES:
            return EXIT_SKIP, told


def _shows_bug(answer: Answer, scenario: Scenario) -> bool:
    """True if the FAIL is the bug: where a figure is judged, a failed transfer is something else."""
    return answer.judged.cause != "transfer" or scenario.expectation.kind == "none"
