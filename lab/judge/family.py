"""Several claims at once: how many regressions of a whole run are chance, and which p values say so; pure.

Sixty cells, each with its own alpha of 5 %, raise three false alarms on a client that is no slower anywhere. Tolerances are each
their own requirement and keep their own alpha; regressions of a whole run are one question ("is it slower somewhere?") and are
corrected by Holm's step-down procedure (1979, Scand. J. Statist. 6, 65): the chance of a false alarm anywhere in the whole family
stays below alpha, whatever the dependence between the cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

from lab.judge.share import ROUNDING


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p values, in the order given: a claim whose adjusted p is at most alpha stands at that alpha for all together.

    Raises ValueError for what is no probability.
    """
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError(f"a p value lies between 0 and 1, got {list(p_values)}")
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted


def one_sided_p(ratios: Sequence[float], margin: float) -> float:
    """The p value of the claim "slower by more than `margin`" (a fraction), of log ratios candidate / baseline of pairs.

    Student's test of one look; one that was judged by looks is to be held against the plan's alpha per look, not against .05.
    Equal ratios have no spread: 0 beyond the margin, 1 at it or within. Raises ValueError for fewer than two ratios, for one that
    is not finite and for a margin outside (0, 1).
    """
    if len(ratios) < 2 or not all(math.isfinite(ratio) for ratio in ratios):
        raise ValueError(f"a p value needs at least two finite ratios, got {list(ratios)}")
    if not 0 < margin < 1:
        raise ValueError(f"a margin is a fraction between 0 and 1, got {margin}")
    from scipy.special import stdtr

    beyond = math.log1p(-margin) - math.fsum(ratios) / len(ratios)
    if min(ratios) == max(ratios):
        return 0.0 if beyond > ROUNDING else 1.0
    return float(stdtr(len(ratios) - 1, -beyond * math.sqrt(len(ratios)) / stdev(ratios)))
