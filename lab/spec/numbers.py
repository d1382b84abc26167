"""How small numbers are written: two decimals, and more where two would say zero. In virtual time errors are that small."""

from __future__ import annotations

_LEAST = 2
_MOST = 6


def decimals(*values: float) -> int:
    """Two, or as many as the largest of `values` needs to show a digit that is not zero; at most six."""
    largest = max(map(abs, values), default=0.0)
    if largest < 10**-_MOST:
        # Nobody can tell it from zero.
        return _LEAST
    return next(digits for digits in range(_LEAST, _MOST + 1) if largest >= 10**-digits)


def signed(value: float) -> str:
    """`+0.31`, `-0.0004`."""
    return f"{value:+z.{decimals(value)}f}"


def percent(fraction: float) -> str:
    """`+19.71 %`, `-0.0004 %`."""
    return f"{signed(fraction * 100)} %"


def percent_interval(mean: float, low: float, high: float) -> tuple[str, str]:
    """`+19.71 %` and `+11.57 to +28.44 %`: a mean is not told more exactly than its interval is known."""
    digits = decimals(low * 100, high * 100)
    return f"{mean * 100:+z.{digits}f} %", f"{low * 100:+z.{digits}f} to {high * 100:+z.{digits}f} %"
