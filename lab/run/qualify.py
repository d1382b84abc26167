"""Qualify a release: the candidate's cells interleaved with the baseline's, and one verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeVar

from lab import __version__
from lab.clients.adapter import ClientAdapter
from lab.clients.registry import resolve, userland_of
from lab.hosts.local import LocalHost
from lab.model.answer import BASELINE, CANDIDATE, Answer, Arm, Part
from lab.model.cell import Cell
from lab.model.clock import CLOCKS, Clock, ClockChoice
from lab.model.errors import NotSupported, RoughwaterError
from lab.model.results import CellResult, Verdict, VerdictName, count_line, worst
from lab.model.scratch import scratch_folder
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.run.clocks import clock_for, needs_real_time, needs_virtual_time
from lab.run.events.faults import refusal
from lab.run.parallel import RUN_AGAIN, Job, run_all, run_jobs
from lab.run.questions import FaultQuestion
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.run.study import arms_of

WITH_MACHINE = "--with-machine asks it"
WORDS: dict[VerdictName, str] = {"PASS": "QUALIFIED", "FAIL": "NOT QUALIFIED", "INCONCLUSIVE": "UNDECIDED", "INVALID": "INVALID"}


@dataclass(frozen=True)
class Outcome:
    """The results of one line of the set. The candidate's result is an answer where the line sweeps buffer sizes, else a cell."""

    asked: ReleaseRow
    candidate: CellResult | Answer
    baseline: CellResult | None = None
    pair: Answer | None = None
    notes: tuple[str, ...] = ()

    @property
    def clocks(self) -> list[Clock]:
        return [self.candidate.clock] if isinstance(self.candidate, CellResult) else self.candidate.clocks

    @property
    def spoilt(self) -> bool:
        """True if the lab was at fault, not the client."""
        return "INVALID" in self.part().verdicts

    def part(self) -> Part:
        verdict = self.candidate.judged if isinstance(self.candidate, Answer) else self.candidate.verdict
        notes = [*self.notes, *(note for note in verdict.warnings if note == RUN_AGAIN)]
        if verdict.name == "FAIL" and self.baseline and self.baseline.verdict.name == "FAIL":
            notes.append("the baseline fails this too")
        if self.pair and self.pair.not_judged:
            notes.append(f"the ratio is not judged: {self.pair.not_judged}")
        return Part(
            id=self.candidate.id,
            why=self.asked.why,
            verdict=verdict.name,
            baseline=self.baseline.verdict.name if self.baseline else None,
            comparison=self.pair.id if self.pair else None,
            regression=self.pair.verdict.name if self.pair and self.pair.verdict else None,
            notes=notes,
        )


class Spoilable(Protocol):
    """The outcome of a row."""

    @property
    def spoilt(self) -> bool: ...


Found = TypeVar("Found", bound=Spoilable)


def check_program(client: ClientSpec) -> None:
    """Start the client on this machine, which namespaces share, for its version. Raises UsageProblem when it does not.

    A userland's program is not there to be started before a machine in virtual time is.
    """
    if userland_of(client):
        return
    with scratch_folder("roughwater-") as folder:
        resolve(client).identify(LocalHost("client", folder))


def plan(
    rows: Sequence[ReleaseRow], candidate: ClientSpec, clock: ClockChoice = "auto"
) -> tuple[list[ReleaseRow], dict[str, str]]:
    """The lines that the candidate can do by that clock, and by name why not the others. Raises NotSupported for none."""
    adapter = resolve(candidate)
    reasons = {row: _reason_against(row, candidate, adapter, clock) for row in rows}
    skipped = {row.name: reason for row, reason in reasons.items() if reason}
    asked = [row for row, reason in reasons.items() if not reason]
    if not asked:
        why = "; ".join(dict.fromkeys(skipped.values())) or "it is empty"
        raise NotSupported(f"{candidate.name} can run no row of this suite: {why}")
    return asked, skipped


def qualify(
    session: Session,
    candidate: ClientSpec,
    baseline: ClientSpec | None,
    rows: Sequence[ReleaseRow],
    *,
    set_name: str,
    margin: Ratio,
    lanes: int = 1,
) -> tuple[Answer, list[Outcome]]:
    """Run the lines of the set that the candidate can do; write the answer. Raises as `plan` and `Session.run_pair`."""
    started_at = datetime.now(UTC)
    asked, skipped = skip(session, rows, candidate)
    run = partial(_run, candidate=candidate, baseline=baseline, margin=margin)
    outcomes = run_rows(session, asked, run, [candidate, *([baseline] if baseline else [])], lanes)
    parts = [outcome.part() for outcome in outcomes]
    verdicts = [name for part in parts for name in part.verdicts]
    found = worst(verdicts)
    counted = f"{count_line(verdicts)}{f', {len(skipped)} skipped' if skipped else ''}"
    answer = Answer(
        id=f"{candidate.name}--qualification",
        question="qualification",
        run=session.run.name,
        lab_version=__version__,
        clocks=[clock for clock in CLOCKS if any(clock in outcome.clocks for outcome in outcomes)],
        arms=[Arm(name=name, value=each.name) for name, each in ((CANDIDATE, candidate), (BASELINE, baseline)) if each],
        parts=parts,
        skipped=skipped,
        facts={"set": set_name},
        bound=margin,
        verdict=Verdict(name=found, reason=f"{WORDS[found]}: {counted}", cause="verdicts"),
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
    return session.keep(answer), outcomes


def skip(session: Session, rows: Sequence[ReleaseRow], candidate: ClientSpec) -> tuple[list[ReleaseRow], dict[str, str]]:
    """Call `plan`, and note the skipped rows in the session. Raises as `plan`."""
    asked, skipped = plan(rows, candidate, session.options.clock)
    for name, reason in skipped.items():
        session.skipped[f"{candidate.name}--{name}"] = reason
        session.progress.skipped(f"{candidate.name} cannot do {name}: {reason}")
    return asked, skipped


def run_rows(
    session: Session,
    rows: Sequence[ReleaseRow],
    run: Callable[[ReleaseRow, Session], Found],
    clients: Sequence[ClientSpec],
    lanes: int,
) -> list[Found]:
    """Run the lines of virtual time in parallel, a machine per core, then the others. Raises the first problem."""
    virtual = [row for row in rows if clock_of(row, clients, session.options.clock) == "virtual"]
    real = [row for row in rows if row not in virtual]
    found: dict[ReleaseRow, Found] = {}
    for row, outcome in zip(virtual, run_all(session, [partial(run, row) for row in virtual]), strict=True):
        if isinstance(outcome, RoughwaterError):
            raise outcome
        found[row] = outcome
    jobs = [Job(partial(run, row), row.light) for row in real]
    found |= zip(real, run_jobs(session, jobs, lanes, lambda outcome: outcome.spoilt), strict=True)
    return [found[row] for row in rows]


def clock_of(row: ReleaseRow, clients: Sequence[ClientSpec], clock: ClockChoice) -> Clock:
    """The clock of a line with those clients. Raises NotSupported as `clock_for`."""
    return clock_for([row.cell(client) for client in clients], clock)


def _reason_against(row: ReleaseRow, client: ClientSpec, adapter: ClientAdapter, clock: ClockChoice) -> str:
    return (
        adapter.supports(row.transfer) or _reason_by_clock(row.cell(client), clock) or _reason_of_question(row, client, adapter)
    )


def _reason_by_clock(cell: Cell, clock: ClockChoice) -> str:
    if clock == "virtual" and (reason := needs_real_time(cell)):
        return f"{reason} ({WITH_MACHINE})"
    if clock == "real" and (what := needs_virtual_time(cell)):
        return f"{what}, which runs in virtual time only"
    return ""


def _reason_of_question(row: ReleaseRow, client: ClientSpec, adapter: ClientAdapter) -> str:
    if isinstance(row.question, FaultQuestion):
        return refusal(row.question.fault, row.transfer)
    if not row.buffers:
        return ""
    try:
        arms_of(row.study(client), adapter)
    except NotSupported as problem:
        return problem.message.partition(": ")[2]
    return ""


def _run(row: ReleaseRow, session: Session, *, candidate: ClientSpec, baseline: ClientSpec | None, margin: Ratio) -> Outcome:
    if isinstance(row.question, FaultQuestion):
        return Outcome(row, row.fault(candidate).ask(session))
    if row.buffers:
        return Outcome(row, session.run_study(row.study(candidate)))
    cell = row.cell(candidate)
    if baseline is None:
        return Outcome(row, session.run_cell(cell))
    if reason := resolve(baseline).supports(row.transfer):
        return Outcome(row, session.run_cell(cell), notes=(f"{baseline.name} cannot do it: {reason}",))
    pair = session.run_pair(cell, row.cell(baseline), margin=margin)
    ours, beside = (session.result(pair.arm(name).cell) for name in (CANDIDATE, BASELINE))
    return Outcome(row, ours, beside, pair)
