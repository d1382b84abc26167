"""Do most transfers lie outside the band, wherever their mean lies? A sign test; pure.

A client with two speeds, one too slow and one too fast, can have a mean within 5 % while every transfer is further off. It does
not keep its limit, and more samples would only make its mean more certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

ROUNDING = 1e-12
"""For log ratios: a value exactly on an edge must not miss it by the last bit of a logarithm."""


def outside(values: Sequence[float], edges: tuple[float, float]) -> int:
    """Number of values outside the edges, which belong to the band. Values and edges are logarithms."""
    low, high = edges
    return sum(not low - ROUNDING <= value <= high + ROUNDING for value in values)


def most_outside(values: Sequence[float], edges: tuple[float, float], alpha: float) -> bool:
    """True if the values show, with an error of at most `alpha`, that more than half of all transfers lie outside the edges.

    The exact binomial test of 1/2: the sign test (Conover, Practical Nonparametric Statistics, section 3.4). A band with an
    open side makes no claim about single transfers, so the answer is always False.
    """
    if not values or any(math.isinf(edge) for edge in edges):
        return False
    n, beyond = len(values), outside(values, edges)
    as_many = sum(math.comb(n, k) for k in range(beyond, n + 1))
    return as_many < alpha * (1 << n)
