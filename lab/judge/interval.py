"""The mean of independent values with its two-sided Student interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from lab.judge.student import quantile
from lab.model.results import Interval


def mean_interval(values: Sequence[float], confidence: float) -> Interval:
    """The interval in which the true mean lies with `confidence`, in the unit of `values`.

    Assumes independent values of roughly normal spread: one per transfer, never slices of one transfer.
    Equal values give an interval of zero width. Raises ValueError for fewer than two values, for a value that
    is not finite, and for a confidence outside (0, 1).
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs at least two values, got {n}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"every value must be finite, got {list(values)}")
    if min(values) == max(values):
        # The rounding of a sum must not push equal values off a band's edge.
        return Interval(n=n, mean=values[0], low=values[0], high=values[0], confidence=confidence)
    mean = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = student_quantile((1 + confidence) / 2, n - 1) * deviation / math.sqrt(n)
    return Interval(n=n, mean=mean, low=mean - half, high=mean + half, confidence=confidence)


@lru_cache(maxsize=4096)
def student_quantile(probability: float, degrees: float) -> float:
    """The value below which a Student t variable with `degrees` of freedom lies with `probability`."""
    return quantile(probability, degrees)
