"""`lab run`.

A cell by its name needs neither Robot nor workers, and no table before it has run: each is imported where it is used.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import (
    AnyBackend,
    AnyHost,
    Beside,
    Clock,
    EndpointOf,
    Env,
    Json,
    JunitNoVerdict,
    Price,
    Router,
    RunSeed,
    UserlandOf,
    Wait,
    variables,
)
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.model.base import PROFILE_MARK
from lab.model.cell import Cell
from lab.model.errors import UsageProblem
from lab.run.named_cells import named_cells, run_cells
from lab.run.progress import Lines
from lab.run.resume import Resumed
from lab.run.settings import WAIT, Only, choose
from lab.servers.sshd import SshdOptions
from lab.store.run_dir import RunDir
from reports.no_verdict import NoVerdict

if TYPE_CHECKING:
    from robot.api import TestSuite

    from lab.assets.inferno import Inferno
    from lab.robot.profiles import Profile
    from lab.run.questions import Crew, Question
    from lab.run.session import Session


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def _complete_target(incomplete: str) -> list[str]:
    from lab.robot.profiles import list_profiles
    from lab.robot.suite import list_suites

    names = [*list_suites(), *(f"{PROFILE_MARK}{name}" for name in list_profiles())]
    return [name for name in names if name.startswith(incomplete)]


def run(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE|CELL|@PROFILE...", autocompletion=_complete_target, help="Suites, cells by name, or a profile."
        ),
    ],
    clock: Clock = "auto",
    seed: RunSeed = None,
    price: Price = None,
    userland: UserlandOf = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    client: Annotated[
        list[str] | None, typer.Option(help="The client under test: a name, a path, or NAME=PATH; several, one after the other.")
    ] = None,
    topology: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="The YAML file of a network that a cell names; several, once each.")
    ] = None,
    endpoint: EndpointOf = "",
    include: Annotated[list[str] | None, typer.Option(help="Only tests of the suite with this tag.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="No tests of the suite with this tag, e.g. slow.")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Only tests of the suite that match this pattern.")] = None,
    variable: Annotated[list[str] | None, typer.Option("-v", help="A Robot variable, NAME:VALUE.")] = None,
    env: Env = None,
    pcap: Annotated[
        bool, typer.Option("--pcap", help="Keep a capture per sample, over TLS with the keys that the client writes.")
    ] = False,
    why: Annotated[bool, typer.Option("--why", help="In virtual time: find what held each sample back.")] = False,
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
    no_verdict: JunitNoVerdict = "usual",
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run on the workers of this Dask scheduler, e.g. tcp://10.0.0.1:8786; see lab workers."
        ),
    ] = None,
    needs: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --workers: only workers that offer this, e.g. arch:x86_64.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with a run that was cut short: run only what it lacks.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--dry-run", help="Only print the cells, and run nothing.")] = False,
    json_output: Json = False,
) -> None:
    """Run suites, a profile of several, or cells by name, and print the verdicts.

    A cell is CLIENT--TOPOLOGY--TRANSFER, e.g. curl--dsl-20--http1-get-5MiB-at-1MBps. It runs in virtual time, which nothing on
    this machine disturbs, unless it asks about the machine: CPU, requests per second, an unshaped link, Windows.
    """
    profile = _profile(targets)
    suites = [] if profile else _suites(targets)
    if (suites or profile) and topology:
        raise UsageProblem("--topology is for cells", remedy="a suite names its networks itself, by name or path")
    if (suites or profile) and endpoint:
        raise UsageProblem("--endpoint is for cells", remedy="a row of a suite names its network as NETWORK@ENDPOINT")
    robot, given = dict([_split(text) for text in variable or []]), variables(env)
    chosen = {"--include": include, "--exclude": exclude, "--test": test, "-v": variable}
    _check_choice(profile.suites if profile else suites, chosen, robot)
    suite, questions = _read(profile or suites, client or (), chosen, robot) if profile or suites else (None, [])
    if profile:
        clock, no_verdict = profile.unless(clock, no_verdict)
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
        userlands=userland or (),
    )
    cells = [] if suite is not None else named_cells(targets, client or (), topology or (), endpoint)
    if list_only:
        _list(suite, cells, robot)
        return
    if why and where.clock == "real":
        raise UsageProblem("--why and real time contradict each other", remedy="watch in virtual time")
    if pcap and where.backend == "compose":
        raise UsageProblem("containers may not capture packets", remedy="use --pcap with --backend namespaces")
    _check_workers(workers, needs or (), {"--pcap": pcap, "--why": why, "--flamegraph": flamegraph, "--syscalls": syscalls})
    begun = Resumed.find(resume) if resume else None
    progress = Lines()
    tools = _perf_tools(progress.step, where.backend, flamegraph=flamegraph, syscalls=syscalls)
    # With workers this machine measures nothing itself.
    with where.options(real_now=False if workers else None) as common, _crew(workers, needs or (), wait.s) as crew:
        options = replace(
            common,
            pcap=pcap,
            why=why,
            looks=_up_to(max_samples, LookPlan()),
            virtual_looks=_up_to(max_samples, VIRTUAL_PLAN),
            flamegraph=tools,
            syscalls=syscalls,
            variables=given,
            sshd=SshdOptions(old_clients=old_ssh),
        )
        name = profile.run_name if profile else "-".join(path.stem for path in suites) or "cells"
        reports = partial(_report, no_verdict=no_verdict)
        if suite is not None:
            from lab.robot.suite import run_suites

            session = run_suites(
                suite, questions, options, progress, name=name, variables=robot, reports=reports, crew=crew, resume=begun
            )
        else:
            session = run_cells(cells, options, progress, reports=reports, crew=crew, resume=begun)
    if profile:
        _tidy(profile, session.run.path.parent)
    record = session.recorded
    assert record is not None, "a run without results has ended in a problem"
    if json_output:
        typer.echo(record.model_dump_json(indent=2))
    else:
        _print(session)
    raise typer.Exit(record.exit_code)


def _report(run: RunDir, no_verdict: NoVerdict) -> None:
    """The run's reports; of a run that Ctrl-C or a signal ended also what there is, and the command to go on.

    A run that a problem ended has the problem's one line.
    """
    from lab.cli.output import console_on
    from lab.store.stored_run import read_run_folder
    from reports.files import make_reports
    from reports.text import render_run

    make_reports(run, no_verdict)
    found = read_run_folder(run.path)
    if found.whole or found.record is None or found.record.exit_code <= _SIGNALS:
        return
    if found.cells or found.answers:
        render_run(found.cells, console_on(sys.stderr), answers=found.answers, skipped=found.skipped)
    words = list(found.record.command[1:])
    if "--resume" in words:
        at = words.index("--resume")
        del words[at : at + 2]
    words = [word for word in words if not word.startswith("--resume=")]
    typer.echo(f"lab: not complete: {found.state}; go on with: {shlex.join(['lab', *words, '--resume', run.name])}", err=True)


def _print(session: Session) -> None:
    from lab.cli.output import stdout_console
    from reports.text import render_run

    render_run(session.results, stdout_console(), answers=session.answers, skipped=session.skipped)
    typer.echo(f"results: {session.run.path}")


def _crew(workers: str | None, needs: Sequence[str], wait_s: float) -> AbstractContextManager[Crew | None]:
    """The workers of that scheduler, if one is named."""
    if workers is None:
        return nullcontext()
    from lab.run.workers.crew import crew_at

    return crew_at(workers, needs, wait_s=wait_s)


def _perf_tools(step: Callable[[str], None], backend: str, *, flamegraph: bool, syscalls: bool) -> Inferno | None:
    """The program that draws flame graphs, if they are asked for. Raises UsageProblem where perf cannot do what is asked for."""
    tools = None
    if flamegraph:
        from lab.run.flamegraph import get_ready

        tools = get_ready(step, backend)
    if syscalls:
        from lab.run import system_calls

        system_calls.check(backend)
    return tools


def _read(
    asked: Profile | Sequence[Path],
    clients: Sequence[str],
    chosen: Mapping[str, Sequence[str] | None],
    variables: Mapping[str, str],
) -> tuple[TestSuite, list[Question]]:
    """The suites, or the profile, as one suite with what is chosen of it; and its questions. Raises UsageProblem."""
    from lab.robot.profiles import read_profile
    from lab.robot.suite import Choice, read_suites
    from lab.robot.tables import questions_of

    choice = Choice(*(chosen[option] or () for option in ("--test", "--include", "--exclude")))
    suite = read_suites(asked, clients, choice) if isinstance(asked, Sequence) else read_profile(asked, clients, choice)
    return suite, questions_of(suite, variables)


def _suites(targets: Sequence[str]) -> list[Path]:
    """The files of the suites; none where the targets are cells. Raises UsageProblem for a mixture and for an unknown name."""
    names = [target for target in targets if "--" not in target or target.endswith(".robot")]
    if not names:
        return []
    from lab.robot.suite import find_suite, no_suite

    suites = [suite for target in names if (suite := find_suite(target))]
    if suites and len(suites) < len(targets):
        other = next(target for target in targets if not find_suite(target))
        if "--" in other:
            raise UsageProblem("suites and cells cannot be mixed", remedy="name suites, or cells, and run the others after them")
        raise no_suite(other, _NOR_CELL)
    if not suites and (word := next((target for target in targets if "--" not in target), "")):
        raise no_suite(word, _NOR_CELL)
    return suites


def _check_choice(suites: Sequence[Path], chosen: Mapping[str, Sequence[str] | None], variables: Mapping[str, str]) -> None:
    """Raise UsageProblem where an option about suites has nothing to choose from: cells, or suites without such a variable."""
    if suites:
        from lab.robot.suite import check_variables

        check_variables(suites, variables)
    elif option := next((option for option, given in chosen.items() if given), ""):
        raise UsageProblem(f"{option} is for suites, and a cell has no rows or variables", remedy="leave it out")


def _tidy(profile: Profile, results: Path) -> None:
    from lab.store.retention import keep_newest

    for old in keep_newest(profile.run_name, profile.keep, results) if profile.keep else ():
        typer.echo(f"lab: {old} is removed: profile {profile.name} keeps {profile.keep} runs", err=True)


def _profile(targets: Sequence[str]) -> Profile | None:
    """The profile that is asked for, if any."""
    if not any(target.startswith(PROFILE_MARK) for target in targets):
        return None
    if len(targets) > 1:
        raise UsageProblem("a profile is a run of its own", remedy="run it alone, or write one with all the suites")
    from lab.robot.profiles import load_profile

    return load_profile(targets[0].removeprefix(PROFILE_MARK))


_NOR_CELL = ", and a cell is called CLIENT--TOPOLOGY--TRANSFER"
_SIGNALS = 128
"""Exit codes above it are those of a command that a signal ended."""
_PERF = Only("--flamegraph", "perf cannot see into the guest")
_CALLS = Only("--syscalls", "perf cannot see into the guest")


def _check_workers(workers: str | None, needs: Sequence[str], evidence: Mapping[str, bool]) -> None:
    if needs and not workers:
        raise UsageProblem("--needs is about workers", remedy="give their scheduler's address: --workers tcp://...")
    if workers and (kept := next((option for option, given in evidence.items() if given), "")):
        raise UsageProblem(f"{kept} and --workers contradict each other", remedy=f"use {kept} on the machine that runs the cells")


def _list(suite: TestSuite | None, cells: Sequence[Cell], variables: Mapping[str, str]) -> None:
    """The names of what would be asked, one per line."""
    for cell in cells:
        typer.echo(cell.id)
    if suite is None:
        return
    from lab.robot.tables import read_rows

    for row in read_rows(suite, variables):
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
