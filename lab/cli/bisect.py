"""`lab bisect`: which version, or which revision of a repository, is the first to have a bug (or the last)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
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
from lab.run.bisection import CHANGED, commit_words, keep_search
from lab.run.clocks import clock_for
from lab.run.probes import search
from lab.run.progress import Lines
from lab.run.revisions import Builder, build_folder, client_name, commit_facts, revisions_between, skipped_revisions
from lab.run.search import SKIPPED, Among, Found, step_line, version_built, version_ready, versions_between
from lab.run.session import Options
from lab.run.settings import WAIT, choose
from reports.files import BISECTION, make_reports


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
    incremental: Annotated[
        bool, typer.Option("--incremental", help="One tree for all revisions; builds reuse what the one before has made.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep trees and programs here, for a further search.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="CLIENT@VERSION|REV|REV..REV", help="Do not try these; repeatable.")
    ] = None,
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
    Candidates in --skip, and those that cannot be built or judged, are skipped. The search is a run of its own, with a page.
    Exit code 0: found. 3: not found, or not narrowed down to one version. 2: the good version does not PASS, or the bad one
    does not FAIL.
    """
    where = choose(clock, backend, router, seed=seed, wait=wait, beside=beside, any_host=any_host)
    meant = find_scenario(scenario)
    if bool(build_command) != bool(program):
        raise UsageProblem(
            "--build-command and --program belong together", remedy="give both: how to build, and which program the build makes"
        )
    if not build_command and (incremental or keep is not None):
        raise UsageProblem("--incremental and --keep are for revisions", remedy="give --build-command and --program too")
    started_at = datetime.now(UTC)
    # A try that is refused the machine would count as a candidate that cannot be judged.
    ends = (client_name(program, meant.client),) if build_command else (good, bad)
    clock_of_tries = clock_for([meant.cell(client) for client in (meant.client, *ends)], where.clock)
    with where.options(real_now=clock_of_tries == "real") as options:
        if build_command:
            source = _Source(repo.absolute(), build_command, program, incremental, keep)
            searched = _revisions(meant, source, (good, bad), skip or [], options, json_output)
        else:
            searched = _versions(meant, (good, bad), among, build, skip or [], options, json_output)
    found = searched.found
    page = None
    if found.steps:
        run = keep_search(found, meant, started_at=started_at, facts=searched.facts)
        make_reports(run)
        page = run.path / BISECTION
    if json_output:
        complete = {**asdict(found.conclusion), "fix": found.fix, "candidates": found.candidates, "exit_code": found.exit_code}
        steps = [step.model_dump(mode="json") for step in found.steps]
        more = {"skipped": dict(found.skipped), "facts": dict(searched.facts), "page": str(page) if page else None}
        typer.echo(json.dumps({**complete, "subjects": dict(searched.subjects), **more, "steps": steps}, indent=2))
    else:
        _tell(searched)
    raise typer.Exit(found.exit_code)


@dataclass(frozen=True)
class _Source:
    """The repository of the revisions, and the way to build them."""

    repo: Path
    command: str
    program: str
    incremental: bool
    keep: Path | None


@dataclass(frozen=True)
class _Searched:
    """A search, its candidates' subjects, and further facts for the page."""

    found: Found
    subjects: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


def _versions(
    scenario: Scenario, ends: tuple[str, str], among: Among, build: bool, skip: Sequence[str], options: Options, quiet: bool
) -> _Searched:
    candidates, fix = versions_between(*ends, among)
    for name in skip:
        if name not in candidates[1:-1]:
            raise UsageProblem(f"--skip {name}: not one of the versions between the ends", remedy=", ".join(candidates[1:-1]))
    if not build:
        for end in (candidates[0], candidates[-1]):
            _check(scenario, end)
    _say(quiet, f"{len(candidates)} versions, {candidates[0]} (good) to {candidates[-1]} (bad)")
    progress = _Steps()
    prepare = version_ready(build, lambda text: typer.echo(f"client: {text}", err=True))
    told = _telling(quiet, progress)
    found = search(candidates, scenario, prepare, options, told, ready=version_built, progress=progress, fix=fix, skip=skip)
    return _Searched(found)


def _revisions(
    scenario: Scenario, source: _Source, ends: tuple[str, str], skip: Sequence[str], options: Options, quiet: bool
) -> _Searched:
    span = revisions_between(source.repo, *ends)
    skipped = skipped_revisions(source.repo, span, skip)
    _say(quiet, f"{len(span.names)} revisions, {span.told(span.names[0])} (good) to {span.told(span.names[-1])} (bad)")
    progress = _Steps()
    client = client_name(source.program, scenario.client)
    with build_folder(source.keep, f"{source.program} {source.command}") as builds:
        builder = Builder(source.repo, source.command, source.program, client, builds, incremental=source.incremental)
        told = _telling(quiet, progress)
        try:
            found = search(
                span.names, scenario, builder, options, told, ready=builder.built, progress=progress, fix=span.fix, skip=skipped
            )
        finally:
            if source.keep is None:
                builder.remove_tree()
    facts = {"build": source.command}
    if found.conclusion.kind == "found":
        # In the search for a fix the commit to name is the good one.
        culprit = found.conclusion.last_good if span.fix else found.conclusion.suspects[0]
        facts |= commit_words(commit_facts(source.repo, culprit or ""))
    return _Searched(found, span.subjects, facts)


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


def _tell(searched: _Searched) -> None:
    found, subjects = searched.found, searched.subjects
    requested = [name for name, reason in found.skipped.items() if reason == SKIPPED]
    if requested:
        typer.echo(f"{SKIPPED}: {', '.join(requested)}")
    for candidate, reason in found.skipped.items():
        if reason != SKIPPED:
            typer.echo(f"not judged: {candidate}: {reason}")
    typer.echo(f"{found.headline} ({len(found.steps)} tries; runs in {results_dir()})")
    if found.conclusion.kind in ("found", "range"):
        typer.echo(found.conclusion.reason)
    for name in (found.conclusion.last_good, *found.conclusion.suspects):
        if name is not None and name in subjects:
            typer.echo(f"{name}: {subjects[name]}")
    if "commit" in searched.facts:
        typer.echo(f"{searched.facts['author']}, {searched.facts['date']}")
        typer.echo(searched.facts[CHANGED])
