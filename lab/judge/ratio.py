"""The ratio of two geometric means with its interval, and a tolerance for it; pure. `lab.judge.compare` explains its use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import variance

from lab.judge.decide import place, scaled
from lab.judge.interval import mean_interval, student_quantile
from lab.judge.share import ROUNDING
from lab.judge.tolerance import Band, LookPlan
from lab.model.results import Interval, VerdictName

ALPHA = LookPlan().alpha_per_look
"""The one-sided error at each edge of the band."""


@dataclass(frozen=True)
class LogRatio:
    """An estimate of log(B / A), its standard error and degrees of freedom; `n` counts pairs, or the smaller side's samples."""

    mean: float
    error: float
    degrees: float
    n: int

    def interval(self, alpha: float = ALPHA) -> Interval:
        """The two-sided interval of the ratio, at a confidence of 1 - 2 `alpha`."""
        half = student_quantile(1 - alpha, self.degrees) * self.error if self.error else 0.0
        low, mean, high = (math.exp(value) for value in (self.mean - half, self.mean, self.mean + half))
        return Interval(n=self.n, mean=mean, low=low, high=high, confidence=1 - 2 * alpha)

    def p_outside(self, tolerance: Tolerance) -> float:
        """The p value of the claim "outside", one-sided at the nearer edge. It is below alpha where `interval` lies outside."""
        low, high = tolerance.edges
        beyond = max(low - self.mean, self.mean - high)
        if not self.error:
            return 0.0 if beyond > ROUNDING else 1.0
        return _student_tail(beyond / self.error, self.degrees)


@dataclass(frozen=True)
class Tolerance:
    """The range allowed for a ratio B / A; if `one_sided`, only a slower B is outside."""

    within: float
    one_sided: bool = False

    @property
    def edges(self) -> tuple[float, float]:
        """On the logarithmic scale. Raises ValueError for a `within` outside (0, 1)."""
        low, high = Band.within(self.within).edges
        return low, math.inf if self.one_sided else high

    @property
    def highest(self) -> float | None:
        """The upper edge as a ratio; None for a one-sided tolerance."""
        return None if self.one_sided else 1 + self.within

    def __str__(self) -> str:
        return f"{self.within * 100:g} % slower" if self.one_sided else f"±{self.within * 100:g} %"


def welch_ratio(a: Sequence[float], b: Sequence[float]) -> LogRatio:
    """The ratio of the geometric means, `b` over `a`: Welch's on the logarithms, degrees of freedom by Welch and Satterthwaite.

    Raises ValueError for fewer than two values on a side and for a value that is not finite and above zero.
    """
    logs = [[math.log(rate) for rate in _checked(side)] for side in (a, b)]
    ratio = math.fsum(logs[1]) / len(b) - math.fsum(logs[0]) / len(a)
    # The spread of each mean. Equal values have none, whatever the rounding of their sum.
    spread_a, spread_b = (0.0 if min(side) == max(side) else variance(side) / len(side) for side in logs)
    n, spread = min(len(a), len(b)), spread_a + spread_b
    if spread <= 0:
        return LogRatio(ratio, 0.0, math.inf, n)
    share = spread_a / spread
    degrees = 1 / (share**2 / (len(a) - 1) + (1 - share) ** 2 / (len(b) - 1))
    return LogRatio(ratio, math.sqrt(spread), degrees, n)


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> LogRatio:
    """The counterpart of `welch_ratio` for interleaved rates: from the mean of the log ratios of the i-th pairs."""
    ratios = [math.log(theirs / ours) for ours, theirs in zip(_checked(a), _checked(b), strict=True)]
    own = mean_interval(ratios, 1 - 2 * ALPHA)
    error = 0.0 if own.high == own.low else math.sqrt(variance(ratios) / len(ratios))
    return LogRatio(own.mean, error, len(ratios) - 1, len(ratios))


def judge_ratio(interval: Interval, tolerance: Tolerance) -> VerdictName:
    """The verdict on the interval of a ratio, by its position: inside the tolerance, outside it, or across an edge."""
    return place(scaled(interval, math.log), tolerance.edges)


def _checked(rates: Sequence[float]) -> Sequence[float]:
    if len(rates) < 2:
        raise ValueError(f"an interval needs at least two values, got {len(rates)}")
    if not all(is_rate(rate) for rate in rates):
        raise ValueError(f"every rate must be finite and above zero, got {list(rates)}")
    return rates


def is_rate(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0


def _student_tail(value: float, degrees: float) -> float:
    """The probability that a Student t variable with `degrees` of freedom lies above `value`."""
    if math.isinf(value):
        return 0.0 if value > 0 else 1.0
    from scipy.special import stdtr

    return float(stdtr(degrees, -value))
