"""The steps of a bisection: `lab.judge.bisect` chooses the next candidate, a session runs it, and its answer is kept.

Candidates are versions of a client, or revisions of a repository (`lab.run.revisions`); each try is a run of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock
from typing import ClassVar, Literal

from lab import __version__
from lab.assets.curl_versions import order
from lab.clients import versions
from lab.judge.bisect import Conclusion, Expected, Try, decide, likely, longer
from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer, Arm
from lab.model.errors import EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE, LabFault, RoughwaterError, UsageProblem
from lab.model.results import Cause, CellResult, Verdict, VerdictName
from lab.model.scenario import Scenario
from lab.run.progress import Progress
from lab.run.reproduce import figure, transfer_failed
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir

Among = Literal["available", "built"]
SKIPPED = "skipped on request"
MOST_EXPECTED = 16
"""Number of likely next tries to consider; an idle core takes the likeliest."""


def step_answer(
    candidate: str, verdict: VerdictName, figure: str, *, cause: Cause | None = None, result: CellResult | None = None
) -> Answer:
    """The answer of one try; `result` is the cell that ran. `walk` adds why it was due.

    Cause `setup`: the candidate cannot run at all and is not tried again; `transfer`: it FAILs because a transfer failed.
    """
    now = datetime.now(UTC)
    return Answer(
        id=candidate,
        question="bisection-step",
        run=result.run if result else "",
        lab_version=__version__,
        clocks=[result.clock] if result else [],
        arms=[Arm(name=candidate, cell=result.id if result else "", verdict=result.verdict.name if result else None)],
        verdict=Verdict(name=verdict, reason=figure, cause=cause),
        started_at=result.started_at if result else now,
        ended_at=result.ended_at if result else now,
    )


def step_line(answer: Answer) -> str:
    """`3. curl@8.5.0 (halves what is left): FAIL, +1.2 % [RUN]`."""
    facts, verdict = answer.facts, answer.judged
    where = f" [{answer.run}]" if answer.run else ""
    return f"{facts['number']}. {answer.id} ({facts['why']}): {verdict.name}, {verdict.reason}{where}"


@dataclass(frozen=True)
class Found:
    """The result of a search; `fix` when the good end is the newer one, so that a fix was searched for."""

    candidates: tuple[str, ...]
    conclusion: Conclusion
    steps: tuple[Answer, ...]
    fix: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Candidates that were not judged because they were skipped or cannot be built or run, and why."""

    @property
    def exit_code(self) -> int:
        return {"found": EXIT_PASS, "refused": EXIT_USAGE}.get(self.conclusion.kind, EXIT_INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        found, bad = self.conclusion, self.conclusion.suspects[-1:]
        if found.kind == "refused":
            return f"no search: {found.reason}"
        if not bad or found.last_good is None:
            return f"nothing can be said: {found.reason}"
        if found.kind == "range":
            which = "the last bad one" if self.fix else "the first bad one"
            return f"{which} is among {', '.join(found.suspects)}; {found.last_good} is good"
        if self.fix:
            return f"fixed: first good {found.last_good}, last bad {bad[0]}"
        return f"first bad {bad[0]}, last good {found.last_good}"


Judge = Callable[[str, LookPlan], Answer]
"""Runs a candidate by a plan, on samples of its own."""
Expect = Callable[[Sequence[Expected]], None]
"""Called before every try with the tries that may be due next, so that they can be run meanwhile."""


def walk(
    candidates: Sequence[str],
    judge: Judge,
    told: Callable[[Answer], None],
    *,
    fix: bool = False,
    expect: Expect | None = None,
    skip: Collection[str] = (),
) -> Found:
    """From the good end to the bad one, until there is an answer. What `judge` raises (Ctrl-C) ends the walk.

    Candidates in `skip` are not tried; the answer may then be a range.

    A bug is what the bad end shows: where that is a figure, a candidate whose transfers fail has another one and cannot be
    judged, and the other way round.
    """
    seen: defaultdict[str, list[VerdictName]] = defaultdict(list)
    steps: list[Answer] = []
    skipped = dict.fromkeys((name for name in candidates if name in skip), SKIPPED)
    by_transfer: bool | None = None
    while isinstance(due := decide(candidates, seen, skipped), Try):
        if expect is not None:
            expect(likely(candidates, seen, MOST_EXPECTED, skipped))
        answer = judge(due.candidate, due.plan)
        verdict = answer.judged
        failed = verdict.cause == "transfer"
        if verdict.name == "FAIL" and due.candidate == candidates[-1] and by_transfer is None:
            by_transfer = failed
        if verdict.name == "FAIL" and by_transfer is not None and failed != by_transfer:
            reason = f"it FAILs in another way than {candidates[-1]}: {verdict.reason}"
            verdict = verdict.model_copy(update={"name": "INVALID", "reason": reason})
        seen[due.candidate].append(verdict.name)
        if verdict.cause == "setup":
            skipped[due.candidate] = verdict.reason
        facts = {"number": str(len(steps) + 1), "why": due.why}
        steps.append(answer.model_copy(update={"id": due.candidate, "verdict": verdict, "facts": facts}))
        told(steps[-1])
    return Found(tuple(candidates), due, tuple(steps), fix, skipped)


def judge_by_running(
    scenario: Scenario, prepare: Callable[[str], str], options: Options, progress: Progress | None = None
) -> Judge:
    """A Session per try. `prepare` makes a candidate's client ready and names it as `lab run --client` takes it.

    A candidate that cannot be built or started does not end the search: it counts as not judged. In virtual time every try of
    one candidate has a different seed, because a second try with the same seed would only repeat the first.
    """
    tries: Counter[str] = Counter()

    def judge(candidate: str, looks: LookPlan) -> Answer:
        try:
            client = prepare(candidate)
        except RoughwaterError as problem:
            return step_answer(candidate, "INVALID", str(problem), cause="setup")
        tries[candidate] += 1
        return run_once(scenario, client, for_try(options, looks, tries[candidate] - 1), progress)

    return judge


def for_try(options: Options, looks: LookPlan, before: int) -> Options:
    """The options of one try. In virtual time a later try has a longer plan, by the factor in `looks`, and a seed of its own."""
    times = looks.looks[0] // LookPlan().looks[0]
    return replace(options, looks=looks, virtual_looks=longer(options.virtual_looks, times), seed=options.seed + before)


def run_once(scenario: Scenario, client: str, options: Options, progress: Progress | None = None) -> Answer:
    """The scenario's cell on that client, in a run of its own."""
    return Trial(scenario, client, options, progress).run()


class Trial:
    """The scenario's cell on one client, in a run of its own; a run without results is removed."""

    _lock: ClassVar = Lock()
    """A lock on the folder of all results: making or removing a run also changes `latest`."""

    def __init__(self, scenario: Scenario, client: str, options: Options, progress: Progress | None = None) -> None:
        self.cell = scenario.cell(client)
        with self._lock:
            self.record = RunDir.create(f"bisect-{self.cell.client.name}")
        self.session = Session(self.record, options, progress=progress)

    def run(self) -> Answer:
        try:
            with self.session:
                result = self.session.run_cell(self.cell)
        except UsageProblem as problem:
            return step_answer(self.cell.client.name, "INVALID", str(problem), cause="setup")
        except LabFault as fault:
            return step_answer(self.cell.client.name, "INVALID", str(fault), cause="lab")
        finally:
            if not self.session.results:
                self.discard()
        cause: Cause | None = "transfer" if transfer_failed(result) else result.verdict.cause
        found = step_answer(self.cell.client.name, result.verdict.name, figure(result), cause=cause, result=result)
        return found.model_copy(update={"run": self.record.name})

    def discard(self) -> None:
        with self._lock:
            self.record.discard()


def versions_between(good: str, bad: str, among: Among = "available") -> tuple[list[str], bool]:
    """The versions from `good` to `bad`, both included, in that order; and whether good is the newer one.

    With `built` the cache's own, and the ends. Raises UsageProblem for an end that has no place among versions.
    """
    (client, first), (other, last) = (_placed(end) for end in (good, bad))
    if client != other:
        raise UsageProblem(f"{good} and {bad} are versions of two clients", remedy=f"write {client}@VERSION for both")
    if first == last:
        raise UsageProblem(f"{good} cannot be both good and bad", remedy="give two versions")
    fix = order(first) > order(last)
    low, high = sorted((order(first), order(last)))
    between = [version for version in versions.table(client) if low <= order(version) <= high]
    if among == "built":
        between = [version for version in between if version in (first, last) or versions.find(f"{client}@{version}")]
    return [f"{client}@{version}" for version in (reversed(between) if fix else between)], fix


def version_built(candidate: str) -> bool:
    """True if a version can be run as it is."""
    return versions.find(candidate) is not None


def version_ready(build: bool, say: Callable[[str], None]) -> Callable[[str], str]:
    """The function that makes a version ready, by a build if `build` allows one."""

    def ready(candidate: str) -> str:
        if build and not version_built(candidate):  # a build waits for any other, also for one of something else
            versions.build(candidate, say)
        versions.program(candidate)
        return candidate

    return ready


def _placed(end: str) -> tuple[str, str]:
    client, version = versions.split(end)
    if version not in versions.table(client):
        raise UsageProblem(f"{end} is not one of the known versions", remedy=f"name it by its number, e.g. {client}@7.88.1")
    return client, version
