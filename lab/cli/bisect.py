"""`lab bisect`: which version, or which revision of a repository, is the first to have a bug (or the last)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import AnyBackend, AnyHost, Beside, Clock, Json, Router, RunSeed, Wait
from lab.clients.registry import resolve
from lab.model.answer import Answer
from lab.model.errors import NotSupported, UsageProblem
from lab.model.paths import results_dir
from lab.model.results import Sample, Verdict
from lab.model.scenario import Scenario
from lab.model.transfer import ClientSpec
from lab.robot.bugs import find_scenario, list_scenarios
from lab.run.clocks import clock_for
from lab.run.probes import search
from lab.run.progress import Lines
from lab.run.revisions import Builder, client_name, revisions_between
from lab.run.search import Among, Found, step_line, version_built, version_ready, versions_between
from lab.run.session import Options
from lab.run.settings import WAIT, choose


def register(app: typer.Typer) -> None:
    app.command("bisect")(bisect)


class _Steps(Lines):
    """A search tells its own steps; a try's samples are only seen while it runs."""

    def sample(self, cell: str, sample: Sample, of: int) -> None:
        self.count(sample)
        self.step(f"{cell}: {sample.index + 1} of {of}")

    def verdict(self, cell: str, verdict: Verdict) -> None:  # noqa: ARG002
        self.clear()

    def skipped(self, reason: str) -> None:  # noqa: ARG002
        self.clear()


def _complete(incomplete: str) -> list[str]:
    return [each.name for each in list_scenarios() if each.name.startswith(incomplete)]


def bisect(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO", autocompletion=_complete, help="A row of suites/repros.robot, FILE.robot:ROW, or a cell's name."
        ),
    ],
    good: Annotated[str, typer.Option(metavar="CLIENT@VERSION|REV", help="One that does not have the bug.")],
    bad: Annotated[str, typer.Option(metavar="CLIENT@VERSION|REV", help="One that has it; an older one finds the fix.")],
    build: Annotated[bool, typer.Option("--build/--no-build", help="Build versions when their turn comes.")] = True,
    among: Annotated[Among, typer.Option(help="All versions there are, or only those built already.")] = "available",
    build_command: Annotated[
        str, typer.Option(metavar="COMMAND", help="Search revisions instead: builds one, by sh, in its tree, {tree}.")
    ] = "",
    repo: Annotated[Path, typer.Option(metavar="PATH", help="The git repository of those revisions.")] = Path(),
    program: Annotated[str, typer.Option(metavar="PATH", help="What the command builds, below the tree.")] = "",
    clock: Clock = "auto",
    seed: RunSeed = None,
    router: Router = "auto",
    backend: AnyBackend = "auto",
    wait: Wait = WAIT,
    beside: Beside = False,
    any_host: AnyHost = False,
    json_output: Json = False,
) -> None:
    """Find the first version that FAILs a scenario, between a version that PASSes and a version that FAILs.

    A cell's name is a scenario: lab bisect curl--dsl-50--http1-put-1999999B-at-1MBps --good curl@8.17.0 --bad curl@8.22.0.
    Exit code 0: found. 3: not found, or not narrowed down to one version. 2: the good version does not PASS, or the bad one
    does not FAIL.
    """
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
    meant = find_scenario(scenario)
    if bool(build_command) != bool(program):
        raise UsageProblem(
            "--build-command and --program belong together", remedy="give both: how to build, and which program the build makes"
        )
    subjects: Mapping[str, str] = {}
    # A try that is refused the machine would count as a candidate that cannot be judged.
    clock_of_tries = clock_for([meant.cell(meant.client)], where.clock)
    with where.options(real_now=clock_of_tries == "real") as options:
        if build_command:
            found, subjects = _revisions(meant, repo.absolute(), good, bad, build_command, program, options, json_output)
        else:
            found = _versions(meant, good, bad, among, build, options, json_output)
    if json_output:
        whole = {**asdict(found.conclusion), "fix": found.fix, "candidates": found.candidates, "exit_code": found.exit_code}
        steps = [step.model_dump(mode="json") for step in found.steps]
        typer.echo(json.dumps({**whole, "subjects": dict(subjects), "steps": steps}, indent=2))
    else:
        _tell(found, subjects)
    raise typer.Exit(found.exit_code)


def _versions(scenario: Scenario, good: str, bad: str, among: Among, build: bool, options: Options, quiet: bool) -> Found:
    candidates, fix = versions_between(good, bad, among)
    if not build:
        for end in (candidates[0], candidates[-1]):
            _check(scenario, end)
    _say(quiet, f"{len(candidates)} versions, {candidates[0]} (good) to {candidates[-1]} (bad)")
    progress = _Steps()
    ready = version_ready(build, lambda text: typer.echo(f"client: {text}", err=True))
    told = _telling(quiet, progress)
    return search(candidates, scenario, ready, options, told, ready=version_built, progress=progress, fix=fix)


def _revisions(
    scenario: Scenario, repo: Path, good: str, bad: str, command: str, program: str, options: Options, quiet: bool
) -> tuple[Found, Mapping[str, str]]:
    span = revisions_between(repo, good, bad)
    _say(quiet, f"{len(span.names)} revisions, {span.told(span.names[0])} (good) to {span.told(span.names[-1])} (bad)")
    progress = _Steps()
    with tempfile.TemporaryDirectory(prefix="throughline-bisect-", ignore_cleanup_errors=True) as builds:
        builder = Builder(repo, command, program, client_name(program, scenario.client), Path(builds))
        told = _telling(quiet, progress)
        found = search(span.names, scenario, builder, options, told, ready=builder.built, progress=progress, fix=span.fix)
    return found, span.subjects


def _check(scenario: Scenario, client: str) -> None:
    """Say before anything is started that an end is not there, or cannot do what is asked."""
    if reason := resolve(ClientSpec.parse(client)).supports(scenario.transfer):
        raise NotSupported(f"{client} cannot do {scenario.what}: {reason}")


def _telling(quiet: bool, progress: Lines) -> Callable[[Answer], None]:
    def told(step: Answer) -> None:
        progress.clear()
        # With --json a line per step goes where people look while it lasts.
        typer.echo(step_line(step), err=quiet)

    return told


def _say(quiet: bool, text: str) -> None:
    typer.echo(text, err=quiet)


def _tell(found: Found, subjects: Mapping[str, str]) -> None:
    for line in found.unjudged:
        typer.echo(f"not judged: {line}")
    typer.echo(f"{found.headline} ({len(found.steps)} tries; runs in {results_dir()})")
    if found.conclusion.kind in ("found", "range"):
        typer.echo(found.conclusion.reason)
    for name in (found.conclusion.last_good, *found.conclusion.suspects):
        if name is not None and name in subjects:
            typer.echo(f"{name}: {subjects[name]}")
