"""Up to which value of one variable does a client PASS? Decides the next trial of a search, or its answer; pure.

A trial is a cell at one value, its result the cell's verdict. More of the variable (a limit, a round trip, a loss) is harder, so
a PASS is a lower bound and a FAIL an upper bound. The words are those of RFC 9971 (MLRsearch), as far as they fit (ADR 0033):

- relevant upper bound: the smallest value that FAILs; relevant lower bound: the largest that PASSes below it.
- goal width: the search ends once the upper bound is at most this fraction above the lower one.

It halves by the geometric mean, because bounds are compared by their ratio. INCONCLUSIVE and INVALID move no bound: the value
stays open, and the search goes on in the widest gap between the values tried. No value is tried twice, because the same cell
and seed give the same samples. When the interval is narrow enough, probes far from it look for a PASS above a FAIL. Where
there is one, the client has not one threshold, and the search ends there with exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lab.model.results import VerdictName

PROBES = 2
"""Trials outside the interval, where the budget has room for them: half of a gap below it, half of one above."""
_LEAST_GAP = 1 / 8
"""Around an open value the search goes on down to this part of the goal width."""
DIGITS = 4
"""Significant digits of a value, so that names of cells stay short; a width below `LEAST_WIDTH` would need more."""
LEAST_WIDTH = 0.005

Kind = Literal["found", "above", "below", "several", "range", "unknown"]
"""found: an interval of the goal width. above: every value PASSes; below: none does. several: a PASS above a FAIL. range: the
interval is wider than the goal. unknown: an end of the range has neither PASS nor FAIL."""


@dataclass(frozen=True)
class Goal:
    """The range to search, the width of the interval as a fraction of its lower end, and the most trials."""

    low: float
    high: float
    width: float
    budget: int
    step: float = 0.0
    """Values between the ends are multiples of it; 0 for any value."""

    def middle(self, low: float, high: float) -> float:
        """The value to try between two, by ratio."""
        value = rounded(math.sqrt(low * high))
        return round(round(value / self.step) * self.step, 12) if self.step else value


@dataclass(frozen=True)
class Trial:
    """A value that was tried, and the verdict of its cell."""

    value: float
    verdict: VerdictName
    probe: bool = False


@dataclass(frozen=True)
class Next:
    """Try this value."""

    value: float
    why: str
    probe: bool = False


@dataclass(frozen=True)
class Conclusion:
    """The end of a search. `passed` and `failed` are the relevant lower and upper bound, None where no trial is one.

    `open` has the verdicts that kept it from an answer; `probes` is the number of values tried outside the interval.
    """

    kind: Kind
    passed: float | None = None
    failed: float | None = None
    open: tuple[VerdictName, ...] = ()
    probes: int = 0

    @property
    def width(self) -> float | None:
        """The distance of the upper bound above the lower one, as a fraction of the lower one; None without both."""
        return self.failed / self.passed - 1 if self.passed and self.failed else None

    @property
    def verdict(self) -> VerdictName:
        """PASS for an answer; else INVALID where the lab kept it from one, or INCONCLUSIVE."""
        if self.kind in ("found", "above", "below"):
            return "PASS"
        return "INVALID" if "INVALID" in self.open else "INCONCLUSIVE"


def decide(goal: Goal, trials: Sequence[Trial]) -> Next | Conclusion:
    """The next step after `trials`. Raises ValueError for a goal that cannot be, and for a value that was tried twice."""
    _check(goal, trials)
    known = {trial.value: trial.verdict for trial in trials}
    passes = [value for value, verdict in known.items() if verdict == "PASS"]
    failed = min((value for value, verdict in known.items() if verdict == "FAIL"), default=None)
    if failed is not None and passes and max(passes) > failed:
        return Conclusion("several", max((value for value in passes if value < failed), default=None), failed)
    passed = max(passes, default=None)
    return _end(goal, known) or _narrower(goal, known, passed, failed) or _probe(goal, trials, passed, failed)


def rounded(value: float) -> float:
    """To the digits that a value has."""
    return float(f"{value:.{DIGITS}g}")


def _check(goal: Goal, trials: Sequence[Trial]) -> None:
    if not 0 < goal.low < goal.high or not math.isfinite(goal.high):
        raise ValueError(f"a range runs from a value above 0 to a larger one, not from {goal.low:g} to {goal.high:g}")
    if not LEAST_WIDTH <= goal.width < 1 or goal.budget < 2:
        raise ValueError(f"no goal can have a width of {goal.width:g} and {goal.budget} trials")
    if len({trial.value for trial in trials}) < len(trials):
        raise ValueError("a value was tried twice")


def _end(goal: Goal, known: dict[float, VerdictName]) -> Next | Conclusion | None:
    for value, word in ((goal.low, "start"), (goal.high, "end")):
        if value not in known:
            return Next(value, f"the {word} of the range")
    open_ends = tuple(known[value] for value in (goal.low, goal.high) if known[value] not in ("PASS", "FAIL"))
    return Conclusion("unknown", open=open_ends) if open_ends else None


def _narrower(
    goal: Goal, known: dict[float, VerdictName], passed: float | None, failed: float | None
) -> Next | Conclusion | None:
    """Half of the widest gap of an interval that is wider than the goal."""
    if passed is None or failed is None or failed / passed <= 1 + goal.width:
        return None
    inside = sorted(value for value in known if passed <= value <= failed)
    middle = None
    if len(known) < goal.budget:
        middle = _middle(goal, inside, 1 + goal.width * _LEAST_GAP)
    if middle is not None:
        return Next(middle, "between the highest PASS and the lowest FAIL")
    return Conclusion("range", passed, failed, tuple(known[value] for value in inside[1:-1]))


def _probe(goal: Goal, trials: Sequence[Trial], passed: float | None, failed: float | None) -> Next | Conclusion:
    """A trial on the side of the interval that has fewer probes, or the end of the search."""
    values = sorted(trial.value for trial in trials)
    probes = [trial.value for trial in trials if trial.probe]
    if len(trials) < goal.budget and len(probes) < PROBES:
        below = values if passed is None or failed is None else [value for value in values if value <= passed]
        above = values if passed is None or failed is None else [value for value in values if value >= failed]
        sides = [("above", above), ("below", below)]
        if failed is not None and any(value > failed for value in probes):
            sides.reverse()
        for word, side in sides:
            if (middle := _middle(goal, side, 1 + goal.width)) is not None:
                where = "in the range" if passed is None or failed is None else f"{word} the interval"
                return Next(middle, f"a probe {where}: is there one threshold?", probe=True)
    kind: Kind = "found" if passed is not None and failed is not None else "below" if passed is None else "above"
    inside = [trial.verdict for trial in trials if passed and failed and passed < trial.value < failed]
    return Conclusion(kind, passed, failed, tuple(inside), len(probes))


def _middle(goal: Goal, values: Sequence[float], least: float) -> float | None:
    """Half of the widest gap between neighbours, by ratio; None where all gaps are narrower than `least`."""
    if len(values) < 2:
        return None
    low, high = max(pairwise(values), key=lambda gap: gap[1] / gap[0])
    middle = goal.middle(low, high)
    return middle if high / low > least and low < middle < high else None
