"""The looks at the samples, and the decision of each: the loop under every verdict that adapts its number of samples. Pure.

An interval inside the edges is PASS, outside FAIL, across an edge INCONCLUSIVE. The first look that decides gives the verdict.
Samples after it are not used, because a plan forbids choosing among looks. Where single transfers count as well as their mean, a
look that shows most of them outside the edges is FAIL, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from lab.judge.share import ROUNDING
from lab.model.results import Interval, VerdictName

Edges = tuple[float, float]
"""Lower and upper on the logarithmic scale; an open side is infinite."""


@dataclass(frozen=True)
class LookPlan:
    """The sample counts at which the interval is looked at, fixed before the first sample.

    Looking four times at .05 lets a client at the band's very edge pass 12 times in 100. Pocock's constant for samples so small,
    .0182 per look, makes it 5.03 (2,000,000 draws): 5, but not "at most 5". At .016 it is 4.5, so that ten thousand simulated
    cells show the promise kept and not just missed by chance (`lab simulate`).
    """

    looks: tuple[int, ...] = (5, 10, 15, 20)
    alpha_per_look: float = 0.016

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < 2 or any(a >= b for a, b in pairwise(self.looks)):
            raise ValueError(f"looks must rise and start at 2 or more, got {self.looks}")
        if not 0 < self.alpha_per_look < 0.5:
            raise ValueError(f"alpha_per_look must be between 0 and 0.5, got {self.alpha_per_look}")

    @classmethod
    def single(cls, n: int, alpha: float = 0.05) -> LookPlan:
        """One look at `n` samples: no correction is due, the interval is the ordinary 90 % one."""
        return cls(looks=(n,), alpha_per_look=alpha)

    @property
    def confidence(self) -> float:
        """Two-sided confidence of the interval at each look."""
        return 1 - 2 * self.alpha_per_look

    @property
    def cap(self) -> int:
        return self.looks[-1]

    def until(self, taken: int) -> list[int]:
        """The looks that `taken` samples allow."""
        return [look for look in self.looks if look <= taken]

    def after(self, taken: int) -> int | None:
        """The total number of samples at which the next look is due; None at the plan's end."""
        return next((look for look in self.looks if look > taken), None)


VIRTUAL_PLAN = LookPlan(looks=(5, 10, 20, 40, 80), alpha_per_look=0.0115)
"""In virtual time a sample costs little, so the plan goes on until most clients with two speeds are decided.

Five looks at .016 would let a client at the band's very edge pass 5.98 times in 100. At .0130 it is 4.96; at .0115 it is 4.44
(4,000,000 draws), which is the margin that four looks at .016 have (4.45).
"""


@dataclass(frozen=True)
class Decision:
    """The result of the looks.

    `interval`, on the logarithmic scale, is from the look that decided, else from the last one. Before the first look it is from
    all samples and decides nothing; with fewer than two it is None. It rests on `used` samples.
    """

    used: int
    name: VerdictName
    interval: Interval | None
    looks: list[int]
    widened: bool = False
    most_outside: bool = False
    """FAIL because of most transfers, not because of their mean."""


def place(interval: Interval, edges: Edges) -> VerdictName:
    """PASS inside the edges, FAIL outside, INCONCLUSIVE across one; all on the logarithmic scale."""
    low, high = edges
    if low - ROUNDING <= interval.low and interval.high <= high + ROUNDING:
        return "PASS"
    return "FAIL" if interval.high < low - ROUNDING or interval.low > high + ROUNDING else "INCONCLUSIVE"


def decide(
    plan: LookPlan,
    taken: int,
    interval_at: Callable[[int], Interval],
    edges: Edges,
    widen: Callable[[int, Interval], Interval] | None = None,
    *,
    most_outside: Callable[[int], bool] | None = None,
    final: bool = True,
) -> Decision:
    """Look at the first 5, 10, ... of `taken` samples as planned.

    `interval_at(n)` is the interval of the first n, on the logarithmic scale. `widen` may return a wider one (or the same). That
    can undo a decision but never make one, so it is called only where it could matter, and at the last look if the result is
    `final`. `most_outside(n)` is whether most of the first n are shown to lie outside the edges, whatever their mean.
    """
    looks = plan.until(taken)
    for look in looks:
        narrow = interval = interval_at(look)
        name = place(interval, edges)
        outside = most_outside is not None and most_outside(look)
        # A look with most values outside may decide too, and the interval it reports must not depend on samples taken later.
        if widen and (name != "INCONCLUSIVE" or (final and (outside or look == looks[-1]))):
            interval = widen(look, narrow)
            name = place(interval, edges)
        split = outside and name != "FAIL"
        if split or name != "INCONCLUSIVE" or look == looks[-1]:
            verdict = "FAIL" if split else name
            return Decision(look, verdict, interval, plan.until(look), widened=interval is not narrow, most_outside=split)
    return Decision(taken, "INCONCLUSIVE", interval_at(taken) if taken >= 2 else None, [])


def scaled(interval: Interval, scale: Callable[[float], float]) -> Interval:
    """The same interval in another unit, e.g. `math.exp` for a ratio, `math.expm1` for a fraction."""
    return interval.model_copy(update={key: scale(getattr(interval, key)) for key in ("mean", "low", "high")})
