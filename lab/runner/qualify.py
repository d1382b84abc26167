"""A release through its set: the candidate's cells, each beside the baseline's, and one verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from lab import __version__
from lab.backend.local import LocalHost
from lab.client.adapter import ClientAdapter
from lab.client.registry import resolve
from lab.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, NotSupported
from lab.result.models import CellResult, VerdictName
from lab.result.qualification import PairResult, Qualification, QualifiedItem, SkippedItem
from lab.result.store import exit_code
from lab.result.study import StudyResult
from lab.result.table import count_line
from lab.runner.lanes import RUN_AGAIN, Job, run_jobs
from lab.runner.release_set import Asked
from lab.runner.session import Session
from lab.runner.study import arms_of
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


def plan(items: Sequence[Asked], candidate: ClientSpec) -> tuple[list[Asked], list[SkippedItem]]:
    """What the candidate can be asked, and what it cannot. Raises NotSupported when nothing is left."""
    adapter = resolve(candidate)
    reasons = {item: _reason_against(item, candidate, adapter) for item in items}
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
    asked, skipped = plan(items, candidate)
    for item in skipped:
        session.skipped[f"{candidate.name}--{item.name}"] = item.reason
        session.progress.skipped(f"{candidate.name} cannot do {item.name}: {item.reason}")
    jobs = [Job(partial(_run, item, candidate, baseline, margin), item.light) for item in asked]
    outcomes = run_jobs(session, jobs, lanes, lambda outcome: outcome.spoilt)
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


def _reason_against(item: Asked, client: ClientSpec, adapter: ClientAdapter) -> str:
    if not item.buffers:
        return adapter.supports(item.transfer)
    if reason := adapter.supports(item.transfer):
        return reason
    try:
        arms_of(item.study(client), adapter)
    except NotSupported as problem:
        return problem.message.partition(": ")[2]
    return ""


def _run(item: Asked, candidate: ClientSpec, baseline: ClientSpec | None, margin: Ratio, session: Session) -> Outcome:
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
