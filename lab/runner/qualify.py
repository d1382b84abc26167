"""A release through its set: the candidate's cells, each beside the baseline's, and one verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from lab import __version__
from lab.backend.local import LocalHost
from lab.client.adapter import ClientAdapter
from lab.client.registry import resolve
from lab.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, NotSupported, ThroughlineError
from lab.result.models import CellResult, VerdictName
from lab.result.qualification import PairResult, Qualification, QualifiedItem, SkippedItem
from lab.result.store import exit_code
from lab.result.study import StudyResult
from lab.result.table import count_line
from lab.runner.ahead import run_all
from lab.runner.clocks import ClockChoice, clock_for, needs_real_time
from lab.runner.lanes import RUN_AGAIN, Job, run_jobs
from lab.runner.release_set import Asked
from lab.runner.session import Session
from lab.runner.study import arms_of
from lab.spec.clock import Clock
from lab.spec.models import ClientSpec
from lab.spec.units import Ratio

SetName = Literal["quick", "full"]
_WORDS = {EXIT_PASS: "QUALIFIED", EXIT_FAIL: "NOT QUALIFIED", EXIT_INCONCLUSIVE: "UNDECIDED", EXIT_INVALID: "INVALID"}


@dataclass(frozen=True)
class Outcome:
    """What one line of the set came to. The candidate's result is in a study's line a study, else a cell."""

    asked: Asked
    candidate: CellResult | StudyResult
    baseline: CellResult | None = None
    pair: PairResult | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdicts(self) -> list[VerdictName]:
        """Those that count."""
        return [self.candidate.verdict.name, *([self.pair.verdict.name] if self.pair and self.pair.verdict else [])]

    @property
    def spoilt(self) -> bool:
        """By the lab, not by the client."""
        return "INVALID" in self.verdicts

    def item(self) -> QualifiedItem:
        notes = [*self.notes, *(note for note in self.candidate.verdict.warnings if note == RUN_AGAIN)]
        if self.candidate.verdict.name == "FAIL" and self.baseline and self.baseline.verdict.name == "FAIL":
            notes.append("the baseline fails this too")
        if self.pair and self.pair.untold:
            notes.append(f"the ratio is not judged: {self.pair.untold}")
        return QualifiedItem(
            id=self.candidate.id,
            why=self.asked.why,
            verdict=self.candidate.verdict.name,
            baseline=self.baseline.verdict.name if self.baseline else None,
            pair=self.pair.id if self.pair else None,
            regression=self.pair.verdict.name if self.pair and self.pair.verdict else None,
            notes=notes,
        )


def check_program(client: ClientSpec) -> None:
    """Start the client on this machine, which namespaces share, for its version. Raises UsageProblem when it does not."""
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        resolve(client).identify(LocalHost("client", Path(folder)))


def plan(items: Sequence[Asked], candidate: ClientSpec, clock: ClockChoice = "auto") -> tuple[list[Asked], list[SkippedItem]]:
    """What the candidate can be asked by that clock, and what it cannot. Raises NotSupported when nothing is left."""
    adapter = resolve(candidate)
    reasons = {item: _reason_against(item, candidate, adapter, clock) for item in items}
    skipped = [SkippedItem(name=item.name, reason=reason) for item, reason in reasons.items() if reason]
    asked = [item for item, reason in reasons.items() if not reason]
    if not asked:
        why = "; ".join(dict.fromkeys(item.reason for item in skipped)) or "it is empty"
        raise NotSupported(f"{candidate.name} can do nothing of this set: {why}")
    return asked, skipped


def qualify(
    session: Session,
    candidate: ClientSpec,
    baseline: ClientSpec | None,
    items: Sequence[Asked],
    *,
    set_name: SetName,
    margin: Ratio,
    lanes: int = 1,
) -> tuple[Qualification, list[Outcome]]:
    """Run what of the set the candidate can do, write it, and say what it comes to. Raises as `plan` and `Session.run_pair`."""
    started_at = datetime.now(UTC)
    asked, skipped = plan(items, candidate, session.options.clock)
    for item in skipped:
        session.skipped[f"{candidate.name}--{item.name}"] = item.reason
        session.progress.skipped(f"{candidate.name} cannot do {item.name}: {item.reason}")
    run = partial(_run, candidate=candidate, baseline=baseline, margin=margin)
    outcomes = _outcomes(session, asked, run, [candidate, *([baseline] if baseline else [])], lanes)
    verdicts = [name for outcome in outcomes for name in outcome.verdicts]
    code = exit_code(verdicts)
    counted = f"{count_line(verdicts)}{f', {len(skipped)} skipped' if skipped else ''}"
    qualification = Qualification(
        run=session.run.name,
        lab_version=__version__,
        candidate=candidate.name,
        baseline=baseline.name if baseline else None,
        margin=margin,
        set=set_name,
        items=[outcome.item() for outcome in outcomes],
        skipped=skipped,
        headline=f"{_WORDS[code]}: {counted}",
        exit_code=code,
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
    session.run.write_qualification(qualification)
    return qualification, outcomes


def _outcomes(
    session: Session, items: Sequence[Asked], run: Callable[[Asked, Session], Outcome], clients: Sequence[ClientSpec], lanes: int
) -> list[Outcome]:
    """In virtual time side by side, a machine per core; then the others. Raises as the first that had a problem."""
    virtual = [item for item in items if clock_of(item, clients, session.options.clock) == "virtual"]
    real = [item for item in items if item not in virtual]
    found: dict[Asked, Outcome] = {}
    for item, outcome in zip(virtual, run_all(session, [partial(run, item) for item in virtual]), strict=True):
        if isinstance(outcome, ThroughlineError):
            session.problem = session.problem or outcome
            raise outcome
        found[item] = outcome
    jobs = [Job(partial(run, item), item.light) for item in real]
    found |= zip(real, run_jobs(session, jobs, lanes, lambda outcome: outcome.spoilt), strict=True)
    return [found[item] for item in items]


def clock_of(item: Asked, clients: Sequence[ClientSpec], clock: ClockChoice) -> Clock:
    """Of a line with those clients. Raises NotSupported as `clock_for`."""
    return clock_for([item.cell(client) for client in clients], clock)


def _reason_against(item: Asked, client: ClientSpec, adapter: ClientAdapter, clock: ClockChoice) -> str:
    if reason := adapter.supports(item.transfer):
        return reason
    if clock == "virtual" and (reason := needs_real_time(item.cell(client))):
        return reason
    if not item.buffers:
        return ""
    try:
        arms_of(item.study(client), adapter)
    except NotSupported as problem:
        return problem.message.partition(": ")[2]
    return ""


def _run(item: Asked, session: Session, *, candidate: ClientSpec, baseline: ClientSpec | None, margin: Ratio) -> Outcome:
    if item.buffers:
        return Outcome(item, session.run_study(item.study(candidate)))
    cell = item.cell(candidate)
    if baseline is None:
        return Outcome(item, session.run_cell(cell))
    if reason := resolve(baseline).supports(item.transfer):
        return Outcome(item, session.run_cell(cell), notes=(f"{baseline.name} cannot do it: {reason}",))
    pair = session.run_pair(cell, item.cell(baseline), margin=margin)
    ours, beside = (session.result(side.cell) for side in (pair.candidate, pair.baseline))
    return Outcome(item, ours, beside, pair)
