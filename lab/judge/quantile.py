"""The quantile of a sample, without an assumption about its distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of all are not above (nearest rank); None without values."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else None
