"""How many of the planted mistakes a test saw, with the interval that a sample leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass

_Z95 = 1.959964


@dataclass(frozen=True)
class Score:
    """`seen` of `planted` mistakes; `existing` is how many there are to draw from. `equivalent` ones no test could see."""

    seen: int
    planted: int
    existing: int
    equivalent: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(
            self.seen + other.seen,
            self.planted + other.planted,
            self.existing + other.existing,
            self.equivalent + other.equivalent,
        )

    @property
    def told_apart(self) -> int:
        """Those planted that are mistakes."""
        return self.planted - self.equivalent

    @property
    def share(self) -> float:
        return self.seen / self.told_apart if self.told_apart else math.nan

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share among all that exist (Wilson's), without width where all were planted."""
        n, p = self.told_apart, self.share
        if self.planted >= self.existing or n == 0:
            return p, p
        middle = (p + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
        half = _Z95 / (1 + _Z95**2 / n) * math.sqrt(p * (1 - p) / n + _Z95**2 / (4 * n * n))
        return middle - half, middle + half

    def __str__(self) -> str:
        seen = f"{self.seen} of {self.told_apart} seen, {self.share:.1%}"
        without = f"; {self.equivalent} more are equivalent" if self.equivalent else ""
        if self.planted >= self.existing:
            return f"{seen} (all of them{without})"
        low, high = self.interval()
        return f"{seen} (95 % interval {low:.0%} to {high:.0%}; {self.existing} exist{without})"
