"""Claims and their measurements: a ratio of medians with its interval, and one line that says whether the claim is met.

The interval is a percentile bootstrap of the ratio of the two medians, 95 %, seeded. With five samples, the interval of a median
is already their full range (94 % by order statistics), so fewer than five show nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Literal

from benchmarks.common import table

CONFIDENCE = 0.95
LEAST_SAMPLES = 5
_RESAMPLES = 4000
_SEED = 20

Side = Literal["at least", "at most", "more than"]


@dataclass(frozen=True)
class Estimate:
    """A ratio with its interval; `n` is the smaller of the two numbers of samples behind it."""

    value: float
    low: float
    high: float
    n: int

    def told(self, form: str = "{:.3f}") -> str:
        value, low, high = (form.format(each) for each in (self.value, self.low, self.high))
        return f"{value} ({low} to {high}), n = {self.n}"


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """median(ours) / median(theirs); None where either has no sample, or theirs are nothing."""
    if not ours or not theirs or min(theirs) <= 0:
        return None
    return _ratio(tuple(ours), tuple(theirs))


@cache
def _ratio(ours: tuple[float, ...], theirs: tuple[float, ...]) -> Estimate:
    # A seed makes the same samples give the same interval.
    dice = random.Random(_SEED)
    drawn = sorted(
        median(dice.choices(ours, k=len(ours))) / median(dice.choices(theirs, k=len(theirs))) for _ in range(_RESAMPLES)
    )
    edge = round(_RESAMPLES * (1 - CONFIDENCE) / 2)
    n = min(len(ours), len(theirs))
    return Estimate(median(ours) / median(theirs), drawn[edge], drawn[-edge - 1], n)


def worst_of(values: Sequence[float]) -> Estimate | None:
    """The one farthest from zero, whose interval is itself: nothing is inferred from it."""
    if not values:
        return None
    worst = max(values, key=abs)
    return Estimate(worst, worst, worst, len(values))


@dataclass(frozen=True)
class Claim:
    """`problem` is what forbids an answer (a link that did not calibrate); `failed` our own transfers that went wrong."""

    text: str
    side: Side
    bound: float
    measured: Estimate | None
    failed: int = 0
    problem: str = ""
    form: str = "{:.3f}"

    def holds(self, value: float) -> bool:
        if self.side == "at most":
            return value <= self.bound
        return value > self.bound if self.side == "more than" else value >= self.bound

    @property
    def verdict(self) -> str:
        """`met` is said where all of the interval keeps the bound, never of a median alone."""
        if self.problem:
            return "INVALID, see below"
        if self.failed:
            return f"NOT MET: {self.failed} of its transfers failed"
        if self.measured is None:
            return "no figure"
        holds = self.holds(self.measured.value)
        if self.measured.n < LEAST_SAMPLES:
            return f"{'met' if holds else 'not met'} by the median; n < {LEAST_SAMPLES} shows nothing"
        if not holds:
            return "NOT MET"
        edge = self.measured.high if self.side == "at most" else self.measured.low
        return "met" if self.holds(edge) else "met by the median only"

    def row(self) -> list[str]:
        said = self.measured.told(self.form) if self.measured else "-"
        return [self.text, f"{self.side} {self.bound:g}", said, self.verdict]

    def kept(self) -> dict[str, object]:
        """For the raw file, so that the table can be made again."""
        measured = vars(self.measured) if self.measured else None
        asked = {"claim": self.text, "side": self.side, "bound": self.bound}
        return asked | {"measured": measured, "verdict": self.verdict, "problem": self.problem}


def claims_table(claims: Sequence[Claim]) -> str:
    """One line per claim, and below them why some are INVALID."""
    if not claims:
        return "no claim applies to what was measured"
    lines = [table(["claim", "bound", "measured", "met?"], [claim.row() for claim in claims])]
    for problem in dict.fromkeys(claim.problem for claim in claims if claim.problem):
        lines.append(f"{sum(claim.problem == problem for claim in claims)} INVALID: {problem}")
    return "\n".join(lines)
