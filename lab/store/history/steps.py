"""Changes of level in a series of one value per run; pure.

Candidates are found by PELT (Killick, Fearnhead and Eckley 2012, J. Am. Stat. Assoc. 107, 1590), with squared distance from the
mean of a segment as its cost: `ruptures.KernelCPD` with the linear kernel is that, exact, and in C. The penalty is a multiple of
the noise's variance times log n; the noise is estimated by first differences, which a step does not inflate, and never taken for
less than a fifth of the smallest step that matters. Before that an isolated outlier (one run on a busy machine) is pulled to its
neighbours; otherwise three runs with the outlier in the middle would be a level of their own.

A candidate counts when Welch's interval of the two levels next to it, over the runs' values as they are, excludes zero and the
change is `least` or more. The weakest candidate that does not count is dropped, its levels become one, and the remaining
candidates are looked at again. Rates of error by simulation: tests/unit/history/test_steps.py and docs/how-to/compare.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from lab.judge.ratio import LogRatio, welch_ratio

MIN_RUNS = 3
"""The fewest runs of a level. A step is thus seen after the third run behind it."""
PENALTY = 4.0
"""Times variance times log n. By simulation: false steps in 1 to 3 % of stationary series of 6 to 100 runs; a step of 2.5 times
the spread in the middle of 30 runs is seen in 98 %."""
ALPHA = 0.005
"""One-sided, of a step's interval, before it is divided by the number of candidates: a step's place was chosen to be large."""
_OUTLIER = 4.0
_NOISE_SHARE = 0.2


@dataclass(frozen=True)
class Step:
    """At `index` a new level begins; the change and its interval are in the unit of the values (log ratios, mostly)."""

    index: int
    change: float
    low: float
    high: float
    confidence: float


def noise(values: Sequence[float]) -> float:
    """The standard deviation from run to run, by the median absolute first difference; 0 for fewer than two values."""
    differences = [abs(after - before) for before, after in pairwise(values)]
    return 1.4826 * median(differences) / math.sqrt(2) if differences else 0.0


def find_steps(values: Sequence[float], least: float) -> list[Step]:
    """Every step of `values`, one per run in the order of time: logarithms, or what is judged on its own scale.

    `least` is the smallest step to report, in the same unit. Raises ValueError for one not above zero and for a value that is
    not finite. Fewer than six values have none.
    """
    if not least > 0:
        raise ValueError(f"the least step must be above zero, got {least}")
    if not all(map(math.isfinite, values)):
        raise ValueError("every value must be finite")
    if len(values) < 2 * MIN_RUNS:
        return []
    breaks = _candidates(values, max(noise(values), _NOISE_SHARE * least))
    alpha = ALPHA / max(1, len(breaks))
    while breaks:
        ratios = [_change(values, breaks, place) for place in range(len(breaks))]
        weak = [place for place, ratio in enumerate(ratios) if not _counts(ratio, least, alpha)]
        if not weak:
            return [_step(index, ratio, alpha) for index, ratio in zip(breaks, ratios, strict=True)]
        breaks.pop(min(weak, key=lambda place: abs(ratios[place].mean)))
    return []


def levels(values: Sequence[float], steps: Sequence[Step]) -> list[float]:
    """The mean of each level."""
    edges = [0, *(step.index for step in steps), len(values)]
    return [fmean(values[start:end]) for start, end in pairwise(edges)]


def _candidates(values: Sequence[float], spread: float) -> list[int]:
    import numpy as np
    from ruptures import KernelCPD

    signal = np.array(_without_outliers(values, spread)).reshape(-1, 1)
    # Its squared distances must not lose their last digits: logarithms of rates are about 15, their steps 0.01.
    signal -= signal.mean()
    search = KernelCPD(kernel="linear", min_size=MIN_RUNS).fit(signal)
    return [int(index) for index in search.predict(pen=PENALTY * spread**2 * math.log(len(values)))[:-1]]


def _without_outliers(values: Sequence[float], spread: float) -> list[float]:
    """A value far from the median of itself and two on each side becomes that median."""
    found: list[float] = []
    for index, value in enumerate(values):
        middle = median(values[max(0, index - 2) : index + 3])
        found.append(middle if abs(value - middle) > _OUTLIER * spread else value)
    return found


def _change(values: Sequence[float], breaks: Sequence[int], place: int) -> LogRatio:
    start = breaks[place - 1] if place else 0
    end = breaks[place + 1] if place + 1 < len(breaks) else len(values)
    centre = values[breaks[place]]
    # Welch's of ratios is on logarithms: of these values, it must be given what they are logarithms of.
    before, after = (
        [math.exp(value - centre) for value in side] for side in (values[start : breaks[place]], values[breaks[place] : end])
    )
    return welch_ratio(before, after)


def _counts(ratio: LogRatio, least: float, alpha: float) -> bool:
    low, high = _ends(ratio, alpha)
    return abs(ratio.mean) >= least and not low <= 0 <= high


def _ends(ratio: LogRatio, alpha: float) -> tuple[float, float]:
    interval = ratio.interval(alpha)
    return math.log(interval.low), math.log(interval.high)


def _step(index: int, ratio: LogRatio, alpha: float) -> Step:
    low, high = _ends(ratio, alpha)
    return Step(index, ratio.mean, low, high, 1 - 2 * alpha)
