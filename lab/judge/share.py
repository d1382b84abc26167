"""Do most transfers lie outside the band, wherever their mean lies? A sign test; pure.

A client with two speeds, one too slow and one too fast, can have a mean that is within 5 % and no transfer that is. It does not
keep its limit, and more samples would only make its mean more certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ROUNDING = 1e-12
"""On log ratios: what lies exactly on an edge must not miss it by the last bit of a logarithm."""


def outside(values: Sequence[float], edges: tuple[float, float]) -> int:
    """How many of the values lie outside the edges; the edges belong to the band. All on the logarithmic scale."""
    low, high = edges
    return sum(not low - ROUNDING <= value <= high + ROUNDING for value in values)


def most_outside(values: Sequence[float], edges: tuple[float, float], alpha: float) -> bool:
    """Whether it is shown, with an error of at most `alpha`, that more than half of all transfers lie outside both edges.

    The exact binomial test of 1/2: the sign test (Conover, Practical Nonparametric Statistics, section 3.4). A band with an open
    side says nothing of single transfers, and is never shown to be missed by most.
    """
    if not values or any(math.isinf(edge) for edge in edges):
        return False
    n, beyond = len(values), outside(values, edges)
    as_many = sum(math.comb(n, k) for k in range(beyond, n + 1))
    return as_many < alpha * (1 << n)
