"""Several claims at once: which p values of a run's comparisons stand when all of them are taken together; pure.

Sixty cells, each judged at an alpha of 5 %, raise three false alarms on a client that is nowhere slower. Each tolerance is a
requirement of its own and keeps its alpha. The regressions of a run are one question ("is it slower somewhere?") and are
corrected by Holm's step-down procedure (1979, Scand. J. Statist. 6, 65): the chance of any false alarm among them stays below
alpha, whatever the dependence between the cells.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p values, in the order given: a claim whose adjusted p is at most alpha stands for all of them.

    Raises ValueError for a value outside 0 to 1.
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"a p value lies between 0 and 1, got {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted
