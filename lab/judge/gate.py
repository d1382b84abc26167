"""All figures of all rows together: which regressions stand, and what the rows come to; pure.

Every figure of every row may raise a false alarm, so that the error rate of the gate is what counts. While rows are sampled each
figure alarms only at the gate's level over their number (Bonferroni; `lab.judge.worse.Gate`). When all are sampled, Holm's
step-down procedure (`lab.judge.family`) takes their p values together: it keeps every such alarm and may add an open one.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.judge.family import holm
from lab.judge.worse import Gate, claim_words, sizes_words, verdict_of
from lab.model.answer import STANDINGS, Claim
from lab.model.results import Verdict


def corrected(rows: Sequence[Sequence[Claim]], gate: Gate) -> list[list[Claim]]:
    """The rows with the p values of their figures adjusted for all of them.

    An open figure whose p value stands becomes a regression.
    """
    # A figure without a p value had its PASS before any look could alarm: it was asked all the same, and counts at p = 1.
    values = [1.0 if claim.p is None else claim.p for row in rows for claim in row]
    adjusted = iter(holm(values))
    return [[_adjusted(claim, next(adjusted), gate) for claim in row] for row in rows]


def _adjusted(claim: Claim, p: float, gate: Gate) -> Claim:
    if claim.p is None:
        return claim
    late = claim.standing == "open" and p <= gate.alpha
    return claim.model_copy(update={"p_adjusted": p, "standing": "regression" if late else claim.standing})


def row_verdict(claims: Sequence[Claim]) -> Verdict:
    """The verdict on the figures of one row, with its reason."""
    name = verdict_of(claims)
    loud = [claim for claim in claims if claim.standing not in ("fine", "better", "scattered")]
    loud.sort(key=lambda claim: -STANDINGS.index(claim.standing))
    quiet = [claim for claim in claims if claim.standing in ("scattered", "better")]
    parts = [f"{claim.standing}: {claim_words(claim)}{_p_words(claim)}" for claim in (*loud, *quiet)]
    if not loud:
        pairs = max((claim.n for claim in claims), default=0)
        sizes = sizes_words(claims)
        parts.append(f"no figure is worse by more than its margin, n = {pairs} pairs{f' ({sizes})' if sizes else ''}")
    return Verdict(name=name, reason="; ".join(parts), cause="figure")


def _p_words(claim: Claim) -> str:
    if claim.standing != "regression" or claim.p_adjusted is None:
        return ""
    return f" (p = {claim.p_adjusted:.2g} over all figures)"
