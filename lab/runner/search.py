"""The walk of a bisection. `lab.judge.bisect` says what is due next, a Session finds out, and this keeps what was said.

Candidates are versions of a client, or revisions of a repository (`lab.runner.revisions`); each try is a run of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lab.assets import curl_build
from lab.assets.curl_versions import VERSIONS, order
from lab.client import versions
from lab.errors import EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE, LabFault, ThroughlineError, UsageProblem
from lab.judge.bisect import UNDECIDED_TRIES, Answer, Try, decide
from lab.judge.tolerance import LookPlan
from lab.result.models import VerdictName
from lab.result.store import RunDir
from lab.runner.progress import Progress
from lab.runner.reproduce import figure, transfer_failed
from lab.runner.session import Options, Session
from lab.spec.scenario import Scenario

Among = Literal["available", "built"]


@dataclass(frozen=True)
class Judged:
    """What came of one try. `failed`: it FAILs by a transfer that failed; `hopeless`: trying again will not help."""

    verdict: VerdictName
    figure: str
    failed: bool = False
    hopeless: bool = False
    run: str = ""


@dataclass(frozen=True)
class Step:
    """One try, and why it was due."""

    number: int
    candidate: str
    why: str
    judged: Judged

    def __str__(self) -> str:
        judged = self.judged
        where = f" [{judged.run}]" if judged.run else ""
        return f"{self.number}. {self.candidate} ({self.why}): {judged.verdict}, {judged.figure}{where}"


@dataclass(frozen=True)
class Found:
    """The end of a walk; `fix` when the good end is the newer one, so that what was searched for is a fix."""

    candidates: tuple[str, ...]
    answer: Answer
    steps: tuple[Step, ...]
    fix: bool = False

    @property
    def exit_code(self) -> int:
        return {"found": EXIT_PASS, "refused": EXIT_USAGE}.get(self.answer.kind, EXIT_INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """What was found, in words that fit the direction."""
        answer, bad = self.answer, self.answer.suspects[-1:]
        if answer.kind == "refused":
            return f"no search: {answer.reason}"
        if not bad or answer.last_good is None:
            return f"nothing can be said: {answer.reason}"
        if answer.kind == "range":
            which = "the last bad one" if self.fix else "the first bad one"
            return f"{which} is among {', '.join(answer.suspects)}; {answer.last_good} is good"
        if self.fix:
            return f"fixed: first good {answer.last_good}, last bad {bad[0]}"
        return f"first bad {bad[0]}, last good {answer.last_good}"

    @property
    def unjudged(self) -> list[str]:
        """Why some could not be tried at all, a line each."""
        return [f"{step.candidate}: {step.judged.figure}" for step in self.steps if step.judged.hopeless]


Judge = Callable[[str, LookPlan], Judged]
"""Runs a candidate by a plan, on samples of its own."""


def walk(candidates: Sequence[str], judge: Judge, told: Callable[[Step], None], *, fix: bool = False) -> Found:
    """From the good end to the bad one, until there is an answer. What `judge` raises (Ctrl-C) ends the walk.

    A bug is what the bad end shows: where that is a figure, a candidate whose transfers fail has another one and cannot be
    judged, and the other way round.
    """
    seen: defaultdict[str, list[VerdictName]] = defaultdict(list)
    steps: list[Step] = []
    by_transfer: bool | None = None
    while isinstance(due := decide(candidates, seen), Try):
        judged = judge(due.candidate, due.plan)
        if judged.verdict == "FAIL" and due.candidate == candidates[-1] and by_transfer is None:
            by_transfer = judged.failed
        if judged.verdict == "FAIL" and by_transfer is not None and judged.failed != by_transfer:
            judged = replace(judged, verdict="INVALID", figure=f"it FAILs in another way than {candidates[-1]}: {judged.figure}")
        seen[due.candidate] += [judged.verdict] * (UNDECIDED_TRIES if judged.hopeless else 1)
        steps.append(Step(len(steps) + 1, due.candidate, due.why, judged))
        told(steps[-1])
    return Found(tuple(candidates), due, tuple(steps), fix)


def judge_by_running(
    scenario: Scenario, prepare: Callable[[str], str], options: Options, progress: Progress | None = None
) -> Judge:
    """A Session per try. `prepare` makes a candidate's client ready and names it as `lab run --client` takes it.

    What cannot be made ready or does not run at all is no reason to end the search: it cannot be judged.
    """

    def judge(candidate: str, looks: LookPlan) -> Judged:
        try:
            client = prepare(candidate)
        except ThroughlineError as problem:
            return Judged("INVALID", str(problem), hopeless=True)
        return run_once(scenario, client, replace(options, looks=looks), progress)

    return judge


def run_once(scenario: Scenario, client: str, options: Options, progress: Progress | None = None) -> Judged:
    """The scenario's cell on that client, in a run of its own; a run that came to nothing leaves nothing behind."""
    cell = scenario.cell(client)
    run = RunDir.create(f"bisect-{cell.client.name}")
    session = Session(run, options, progress=progress)
    try:
        with session:
            result = session.run_cell(cell)
    except UsageProblem as problem:
        return Judged("INVALID", str(problem), hopeless=True)
    except LabFault as fault:
        return Judged("INVALID", str(fault))
    finally:
        if not session.results:
            run.discard()
    return Judged(result.verdict.name, figure(result), failed=transfer_failed(result), run=run.name)


def versions_between(good: str, bad: str, among: Among = "available") -> tuple[list[str], bool]:
    """Versions of the table from `good` to `bad`, both included, in that order; and whether good is the newer one.

    With `built` the cache's own, and the ends. Raises UsageProblem for an end that has no place among versions.
    """
    first, last = (_placed(end) for end in (good, bad))
    if first == last:
        raise UsageProblem(f"{good} cannot be both good and bad", remedy="give two versions")
    fix = order(first) > order(last)
    low, high = sorted((order(first), order(last)))
    between = [version for version in VERSIONS if low <= order(version) <= high]
    if among == "built":
        between = [version for version in between if version in (first, last) or curl_build.find(version)]
    return [f"{versions.CLIENT}@{version}" for version in (reversed(between) if fix else between)], fix


def version_ready(build: bool, say: Callable[[str], None]) -> Callable[[str], str]:
    """Of a search among versions: what makes one ready, by building what is due, if it may."""

    def ready(candidate: str) -> str:
        if build:
            curl_build.build(versions.parse(candidate), say)
        versions.program(candidate)
        return candidate

    return ready


def _placed(end: str) -> str:
    version = versions.parse(end)
    if version not in VERSIONS:
        raise UsageProblem(f"{end} has no place among the versions", remedy="name it by its number, e.g. curl@7.88.1")
    return version
