"""A candidate's cell next to a baseline's, compared by every figure of the row: how far sampling goes, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab import __version__
from lab.judge.gate import row_verdict
from lab.judge.host import judge_together
from lab.judge.regression import pair_rates, ratio_interval
from lab.judge.tolerance import LookPlan
from lab.judge.worse import Accepted, Gate, Measure, claims_of, fault_claim, has_figures, measures_of, rounds_wanted
from lab.model.answer import Answer, Arm, Claim
from lab.model.cell import Cell
from lab.model.clock import Clock
from lab.model.results import CellResult, Sample, Verdict
from lab.run.pair import SIDES, pair_answer

_BLIND = "the lab did not measure a speed for any transfer that arrived"


@dataclass(frozen=True)
class Row:
    """One row of a comparison: its figures, and what is accepted of them."""

    measures: Sequence[Measure]
    plan: LookPlan
    gate: Gate
    accepted: Accepted = field(default_factory=dict)

    @classmethod
    def of(cls, cell: Cell, clock: Clock, plan: LookPlan, gate: Gate, accepted: Accepted | None = None) -> Row:
        return cls(measures_of(cell, clock, gate), plan, gate, accepted or {})

    def claims(self, candidate: Sequence[Sample], baseline: Sequence[Sample]) -> list[Claim]:
        return claims_of(self.measures, candidate, baseline, self.plan, self.gate, accepted=self.accepted)

    def wanted(self, candidate: Sequence[Sample], baseline: Sequence[Sample]) -> int | None:
        """The total number of pairs to go on to; None where nothing is open, or the plan is at its end."""
        taken = min(len(candidate), len(baseline))
        return rounds_wanted(self.claims(candidate, baseline), taken, self.plan)


def no_worse(
    cell: Cell, pair: str, results: Sequence[CellResult], row: Row, *, order: Sequence[int], problems: Sequence[str]
) -> Answer:
    """Is the candidate worse in any figure? `results` are the candidate's cell and the baseline's.

    Before the figures of the other rows are known: `with_claims` makes it final. `order` has an index per transfer; `problems`
    are the lab's.
    """
    ours, theirs = results
    claims = row.claims(ours.samples, theirs.samples)
    # Samples on a link that failed its calibration do not support a verdict, nor do they for a single cell.
    grounds = ours.samples and theirs.samples and ours.certificate is not None
    blind = [] if all(has_figures(each, row.measures) for each in results) else [_BLIND]
    verdict = judge_together(row_verdict(claims) if grounds else None, results, row.plan, problems=[*problems, *blind])
    rates = pair_rates(ours.samples, theirs.samples)
    return pair_answer(
        pair,
        "no-worse",
        cell,
        results,
        rates,
        order,
        ratio=ratio_interval(rates.ratios, row.plan),
        verdict=verdict,
        claims=claims,
    )


def no_worse_after_fault(pair: str, results: Sequence[Answer], gate: Gate, accepted: Accepted) -> Answer:
    """The counterpart of `no_worse` for a row with a fault: is a file wrong that the baseline has right?"""
    ours, theirs = results
    problems = [[row.problem for row in each.observations] for each in results]
    claim = fault_claim(problems[0], problems[1], gate, accepted)
    spoilt = next((each for each in results if each.judged.name == "INVALID"), None)
    arms = [
        Arm(name=name, value=each.client.name if each.client else "", cell=each.id, client=each.client, verdict=each.judged.name)
        for name, each in zip(SIDES, results, strict=True)
    ]
    return Answer(
        id=pair,
        question="no-worse",
        run=ours.run,
        lab_version=__version__,
        backend=ours.backend,
        clocks=ours.clocks,
        topology=ours.topology,
        transfer=ours.transfer,
        arms=arms,
        claims=[claim],
        verdict=spoilt.judged if spoilt else row_verdict([claim]),
        started_at=ours.started_at,
        ended_at=theirs.ended_at,
    )


def with_claims(answer: Answer, claims: Sequence[Claim], cells: Sequence[CellResult], plan: LookPlan) -> Answer:
    """The answer, its figures corrected for the number of rows. An answer that is INVALID is returned unchanged."""
    before = answer.judged
    if before.name == "INVALID":
        return answer
    verdict: Verdict = judge_together(row_verdict(claims), cells, plan, problems=()) if cells else row_verdict(claims)
    return answer.model_copy(update={"claims": list(claims), "verdict": verdict})
