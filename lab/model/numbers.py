"""The geometric mean, and how small numbers are printed: with two decimals, or more where two would show zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

_LEAST = 2
_MOST = 6


def decimals(*values: float) -> int:
    """Two, or as many as the largest of `values` needs to show a digit that is not zero; at most six."""
    largest = max(map(abs, values), default=0.0)
    if largest < 10**-_MOST:
        # Too small to show: print it as zero.
        return _LEAST
    return next(digits for digits in range(_LEAST, _MOST + 1) if largest >= 10**-digits)


def signed(value: float) -> str:
    """`+0.31`, `-0.0004`."""
    return f"{value:+z.{decimals(value)}f}"


def percent(fraction: float) -> str:
    """`+19.71 %`, `-0.0004 %`."""
    return f"{signed(fraction * 100)} %"


def percent_interval(mean: float, low: float, high: float) -> tuple[str, str]:
    """`+19.71 %` and `+11.57 to +28.44 %`: the mean has no more digits than its interval supports."""
    digits = decimals(low * 100, high * 100)
    return f"{mean * 100:+z.{digits}f} %", f"{low * 100:+z.{digits}f} to {high * 100:+z.{digits}f} %"


def geometric_mean(values: Sequence[float]) -> float | None:
    """The geometric mean of values above zero; None without values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None
