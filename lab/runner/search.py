"""The walk of a bisection. `lab.judge.bisect` says what is due next, a Session finds out, and this keeps what was said.

Candidates are versions of a client, or revisions of a repository (`lab.runner.revisions`); each try is a run of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import ClassVar, Literal

from lab.assets import curl_build
from lab.assets.curl_versions import VERSIONS, order
from lab.client import versions
from lab.errors import EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE, LabFault, ThroughlineError, UsageProblem
from lab.judge.bisect import UNDECIDED_TRIES, Answer, Expected, Try, decide, likely, longer
from lab.judge.tolerance import LookPlan
from lab.result.models import VerdictName
from lab.result.store import RunDir
from lab.runner.progress import Progress
from lab.runner.reproduce import figure, transfer_failed
from lab.runner.session import Options, Session
from lab.spec.scenario import Scenario

Among = Literal["available", "built"]
MOST_EXPECTED = 16
"""As many tries ahead are thought of; a core that is idle takes the likeliest."""


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
Expect = Callable[[Sequence[Expected]], None]
"""Hears before every try what may be due from there on, so that some of it can be run meanwhile."""


def walk(
    candidates: Sequence[str], judge: Judge, told: Callable[[Step], None], *, fix: bool = False, expect: Expect | None = None
) -> Found:
    """From the good end to the bad one, until there is an answer. What `judge` raises (Ctrl-C) ends the walk.

    A bug is what the bad end shows: where that is a figure, a candidate whose transfers fail has another one and cannot be
    judged, and the other way round.
    """
    seen: defaultdict[str, list[VerdictName]] = defaultdict(list)
    steps: list[Step] = []
    by_transfer: bool | None = None
    while isinstance(due := decide(candidates, seen), Try):
        if expect is not None:
            expect(likely(candidates, seen, MOST_EXPECTED))
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

    What cannot be made ready or does not run at all is no reason to end the search: it cannot be judged. In virtual time every
    try of one candidate has a seed of its own, or a second one would only repeat the first.
    """
    tries: Counter[str] = Counter()

    def judge(candidate: str, looks: LookPlan) -> Judged:
        try:
            client = prepare(candidate)
        except ThroughlineError as problem:
            return Judged("INVALID", str(problem), hopeless=True)
        tries[candidate] += 1
        return run_once(scenario, client, for_try(options, looks, tries[candidate] - 1), progress)

    return judge


def for_try(options: Options, looks: LookPlan, before: int) -> Options:
    """The options of one try. In virtual time a later try has a longer plan, by the factor in `looks`, and a seed of its own."""
    times = looks.looks[0] // LookPlan().looks[0]
    return replace(options, looks=looks, virtual_looks=longer(options.virtual_looks, times), seed=options.seed + before)


def run_once(scenario: Scenario, client: str, options: Options, progress: Progress | None = None) -> Judged:
    """The scenario's cell on that client, in a run of its own."""
    return Trial(scenario, client, options, progress).run()


class Trial:
    """The scenario's cell on one client, in a run of its own; a run that came to nothing leaves nothing behind."""

    _lock: ClassVar = Lock()
    """A lock on the folder of all results: whoever makes or removes a run there also corrects `latest`."""

    def __init__(self, scenario: Scenario, client: str, options: Options, progress: Progress | None = None) -> None:
        self.cell = scenario.cell(client)
        with self._lock:
            self.record = RunDir.create(f"bisect-{self.cell.client.name}")
        self.session = Session(self.record, options, progress=progress)

    def run(self) -> Judged:
        try:
            with self.session:
                result = self.session.run_cell(self.cell)
        except UsageProblem as problem:
            return Judged("INVALID", str(problem), hopeless=True)
        except LabFault as fault:
            return Judged("INVALID", str(fault))
        finally:
            if not self.session.results:
                self.discard()
        return Judged(result.verdict.name, figure(result), failed=transfer_failed(result), run=self.record.name)

    def discard(self) -> None:
        with self._lock:
            self.record.discard()


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


def version_built(candidate: str) -> bool:
    """Whether a version can be run as it is."""
    version = versions.parse(candidate)
    return version == versions.SYSTEM or curl_build.find(version) is not None


def version_ready(build: bool, say: Callable[[str], None]) -> Callable[[str], str]:
    """Of a search among versions: what makes one ready, by building what is due, if it may."""

    def ready(candidate: str) -> str:
        if build and not version_built(candidate):  # a build waits for any other, also for one of something else
            curl_build.build(versions.parse(candidate), say)
        versions.program(candidate)
        return candidate

    return ready


def _placed(end: str) -> str:
    version = versions.parse(end)
    if version not in VERSIONS:
        raise UsageProblem(f"{end} has no place among the versions", remedy="name it by its number, e.g. curl@7.88.1")
    return version
