"""Qualify by comparison: every row next to a baseline's, and regressions alone decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lab import __version__
from lab.clients.registry import resolve
from lab.judge.gate import corrected
from lab.judge.worse import GATE_ALPHA, Gate, claim_words, count_claims, figure_title
from lab.model.accepted import AcceptedFigure, AcceptedFile
from lab.model.answer import ARRIVES, BASELINE, CANDIDATE, Answer, Arm, Claim, Part, Standing
from lab.model.clock import CLOCKS, Clock
from lab.model.errors import NotSupported
from lab.model.results import CellResult, Verdict, VerdictName, count_line, worst
from lab.model.transfer import ClientSpec
from lab.run.no_worse import no_worse_after_fault, with_claims
from lab.run.qualify import WORDS, clock_of, run_rows, skip
from lab.run.questions import FaultQuestion
from lab.run.release import ReleaseRow, one_by_one
from lab.run.session import Session

_TOO_MUCH = ("better than accepted", "no longer worse", "no longer fails")


@dataclass(frozen=True)
class Compared:
    """The outcome of a row. Without an answer the baseline cannot do the row, without results the candidate; `note` says why."""

    asked: ReleaseRow
    results: Sequence[CellResult | Answer]
    """The candidate's, then the baseline's."""
    answer: Answer | None = None
    note: str = ""

    @property
    def cells(self) -> list[CellResult]:
        return [each for each in self.results if isinstance(each, CellResult)]

    @property
    def promises(self) -> list[VerdictName]:
        """The verdict of each alone."""
        return [each.judged.name if isinstance(each, Answer) else each.verdict.name for each in self.results]

    @property
    def clocks(self) -> list[Clock]:
        first = self.results[0]
        return first.clocks if isinstance(first, Answer) else [first.clock]

    @property
    def spoilt(self) -> bool:
        """True if the lab was at fault, not a client."""
        return self.answer is not None and self.answer.judged.name == "INVALID"

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims of its answer; none of an INVALID answer."""
        return self.answer.claims if self.answer and not self.spoilt else ()


@dataclass(frozen=True)
class Comparing:
    """The terms of a release's comparison: the baseline, the margin, and the accepted figures."""

    baseline: ClientSpec
    margin: float | None = None
    alpha: float = GATE_ALPHA
    accepted: AcceptedFile = field(default_factory=AcceptedFile)
    accepted_from: str = ""
    called: str = ""
    """The baseline as the user wrote it."""


def compare_release(
    session: Session, candidate: ClientSpec, rows: Sequence[ReleaseRow], how: Comparing, *, set_name: str, lanes: int = 1
) -> Answer:
    """Run the rows that both can do, next to each other; write the answer. Raises as `plan` and `Session.run_compared`."""
    started_at = datetime.now(UTC)
    asked, skipped = skip(session, one_by_one(rows), candidate)
    clients = [candidate, how.baseline]
    reasons = {row: resolve(how.baseline).supports(row.transfer) for row in asked}
    clocks = {row: clock_of(row, clients, session.options.clock) for row in asked}
    figures = sum(_figures(row, candidate, clocks[row]) for row in asked if not reasons[row])
    gate = Gate(max(figures, 1), how.alpha, how.margin)

    def run(row: ReleaseRow, own: Session) -> Compared:
        fault, accepted = isinstance(row.question, FaultQuestion), how.accepted.of(row.name)
        cell = row.cell(candidate)
        if reasons[row]:
            alone = row.fault(candidate).ask(own) if fault else own.run_cell(cell)
            return Compared(row, [alone], note=f"{how.baseline.name} cannot do it: {reasons[row]}")
        if fault:
            both = [row.fault(client).ask(own) for client in clients]
            pair = f"{both[0].id}--vs-{how.baseline.name}"
            return Compared(row, both, own.keep(no_worse_after_fault(pair, both, gate, accepted)))
        answer, cells = own.run_compared(cell, row.cell(how.baseline), gate=gate, accepted=accepted)
        return Compared(row, cells, answer)

    def run_or_skip(row: ReleaseRow, own: Session) -> Compared:
        try:
            return run(row, own)
        except NotSupported as reason:  # noted by the session; only a program that runs knows what it was built with
            return Compared(row, [], note=reason.message)

    outcomes = run_rows(session, asked, run_or_skip, clients, lanes)
    skipped |= {each.asked.name: each.note for each in outcomes if not each.results}
    found = _final(session, candidate, [each for each in outcomes if each.results], gate)
    answer = Answer(
        id=f"{candidate.name}--qualification",
        question="qualification",
        run=session.run.name,
        lab_version=__version__,
        clocks=[clock for clock in CLOCKS if any(clock in each.clocks for each in found)],
        arms=[Arm(name=CANDIDATE, value=candidate.name), Arm(name=BASELINE, value=how.baseline.name)],
        parts=[_part(each) for each in found],
        skipped=skipped,
        facts=_facts(set_name, gate, how),
        verdict=_verdict(found, how, skipped),
        started_at=started_at,
        ended_at=datetime.now(UTC),
    )
    return session.keep(answer)


def accepted_now(found: Sequence[Answer], before: AcceptedFile, baseline: str) -> AcceptedFile:
    """Everything that has to be accepted for these comparisons to pass, with the reasons that `before` gives."""
    whys = {(each.row, each.figure): each.why for each in before.accepted}
    figures = []
    for answer in found:
        row = answer.arm(CANDIDATE).cell.partition("--")[2]
        for claim in answer.claims:
            if (worse := _still_worse(claim)) is not None:
                why = whys.get((row, claim.figure), "")
                figures.append(AcceptedFigure(row=row, figure=claim.figure, worse=worse, why=why))
    return AcceptedFile(baseline=baseline, accepted=figures)


def _still_worse(claim: Claim) -> float | None:
    """The size of a regression, new or already accepted; None for any other claim."""
    if claim.standing not in ("regression", "accepted"):
        return None
    if claim.figure == ARRIVES:
        return (claim.candidate or 0.0) / claim.n if claim.candidate else None
    if claim.worse is None or claim.worse.mean <= claim.margin:
        return None
    return claim.worse.mean


def _final(session: Session, candidate: ClientSpec, found: Sequence[Compared], gate: Gate) -> list[Compared]:
    """The rows with their figures as they stand among those of all rows, written again where that changed them."""
    done = []
    for each, claims in zip(found, corrected([each.claims for each in found], gate), strict=True):
        if each.answer is None or each.spoilt:
            done.append(each)
            continue
        plan = session.looks_for([each.asked.cell(candidate)])
        answer = with_claims(each.answer, claims, each.cells, plan)
        session.run.write_answer(answer)
        session.answers[:] = [answer if other.id == answer.id else other for other in session.answers]
        done.append(Compared(each.asked, each.results, answer, each.note))
    return done


def _figures(row: ReleaseRow, candidate: ClientSpec, clock: Clock) -> int:
    """The number of compared figures; after a fault only one, the correctness of the file."""
    return 1 if isinstance(row.question, FaultQuestion) else count_claims(row.cell(candidate), clock)


def _part(found: Compared) -> Part:
    promises = found.promises
    notes = [found.note] if found.note else []
    notes += _promise_notes(promises)
    if found.answer:
        notes += [f"{_said(claim)}: {claim_words(claim)}" for claim in found.claims if _said(claim)]
    return Part(
        id=found.results[0].id,
        why=found.asked.why,
        verdict=promises[0],
        baseline=promises[1] if len(promises) > 1 else None,
        comparison=found.answer.id if found.answer else None,
        regression=found.answer.judged.name if found.answer else None,
        promise_counts=False,
        notes=notes,
    )


def _promise_notes(promises: Sequence[VerdictName]) -> list[str]:
    if promises[0] == "FAIL" and len(promises) == 1:
        return ["its promise is broken"]
    if promises[0] == "FAIL":
        return ["known: both break this promise" if promises[1] == "FAIL" else "its promise is broken, the baseline's is not"]
    return ["its promise is kept, the baseline breaks it"] if promises[1:] == ["FAIL"] and promises[0] == "PASS" else []


def _said(claim: Claim) -> str:
    """The word for a figure that a reader of the qualification should see; empty for the others."""
    return "" if claim.standing == "fine" else claim.standing


def _verdict(found: Sequence[Compared], how: Comparing, skipped: Mapping[str, str]) -> Verdict:
    verdicts = [each.answer.judged.name for each in found if each.answer]
    name = worst(verdicts)
    parts = [f"{count_line(verdicts)}{f', {len(skipped)} skipped' if skipped else ''}"]
    alone = sum(each.answer is None for each in found)
    parts += [f"{alone} not compared" if alone else ""]
    counts: Counter[Standing] = Counter(claim.standing for each in found for claim in each.claims)
    figures = sum(counts.values())
    parts.append(f"{counts['regression']} of {figures} figures worse than {how.baseline.name}'s")
    both = sum(set(each.promises) == {"FAIL"} for each in found if each.answer)
    parts += [f"{both} promises broken by both" if both else ""]
    parts += [f"{counts[word]} {word}" for word in ("known", "accepted", "open", "scattered", "better") if counts[word]]
    gone = _gone(found, how)
    warnings = [f"accepted, and {what}" for what in gone]
    if how.accepted.baseline and how.called and how.accepted.baseline != how.called:
        warnings.append(f"what is accepted was measured against {how.accepted.baseline}, this baseline is {how.called}")
    reason = f"{WORDS[name]}: {'; '.join(part for part in parts if part)}"
    return Verdict(name=name, reason=reason, cause="verdicts", warnings=warnings)


def _gone(found: Sequence[Compared], how: Comparing) -> list[str]:
    """The ways in which the file of accepted figures is out of date, one phrase each."""
    claims = {(each.asked.name, claim.figure): claim for each in found for claim in each.claims}
    told = []
    others = sum((each.row, each.figure) not in claims for each in how.accepted.accepted)
    if others:
        told.append(f"of rows or figures that were not compared: {others} of {len(how.accepted.accepted)}")
    for each in how.accepted.accepted:
        claim = claims.get((each.row, each.figure))
        what = f"{figure_title(each.figure)} of {each.row}"
        if claim is not None and claim.standing == "accepted" and claim.note in _TOO_MUCH:
            now = f", now {claim.worse.mean * 100:+.3g} %" if claim.worse else ""
            told.append(f"{claim.note}: {what} (accepted {each.worse * 100:.3g} %{now})")
    return told


def _facts(set_name: str, gate: Gate, how: Comparing) -> dict[str, str]:
    facts = {"set": set_name, "by": "comparison", "figures": str(gate.claims), "false_alarms_at_most": f"{gate.alpha:g}"}
    return facts | ({"accepted": how.accepted_from} if how.accepted_from else {})
