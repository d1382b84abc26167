"""Caveats for a reader about to trust a verdict: too few samples to decide, an outlier, two groups, a drift.

Caveats never change a verdict. Each one is a sentence behind lead words that stay the same (`SIZE`, `OUTLIER`, `BIMODAL`,
`DRIFT`, `INTERRUPTED`); `values` are log ratios in the order the samples were taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import NormalDist, median, stdev

from lab.judge.interval import student_quantile
from lab.model.numbers import percent

SIZE = "n too small for this band"
OUTLIER = "outlier"
BIMODAL = "bimodal"
DRIFT = "drift over the run"
INTERRUPTED = "may not repeat to the byte"

CHANCE_TO_DECIDE = 0.90
OUTLIER_SCORE = 5.0
DRIFT_P = 0.02
"""Five samples in strict order, the most that five can say, have p = 2/120 = 0.017."""
_FAR_FROM_DRIFT = 2
"""Times DRIFT_P: where p by the normal distribution is larger, the exact p is larger than DRIFT_P."""
RELEVANT_SHARE = 0.25
"""A share of the tolerance: a smaller outlier or drift cannot have changed the verdict."""
MAX_PREDICTED = 1000
BIMODAL_LEAST = 8
BIMODAL_SHARE = 0.20
"""The share of the samples that the smaller group must have; fewer are outliers."""
_GAP_TIMES_N = 40.0
_LEAST_GAP = 2.0


def predict_samples(mean: float, spread: float, edges: tuple[float, float], alpha: float) -> int | None:
    """Samples that decide with a chance of 90 % if `mean` and `spread` (standard deviation) are the true ones.

    `alpha` is the one-sided error at each edge. None when more than 1000 would be needed.
    """
    room = min(abs(mean - edge) for edge in edges)
    if spread == 0:
        return 2
    quantile = NormalDist().inv_cdf(CHANCE_TO_DECIDE)
    # Student's quantile is never below the normal one, so fewer samples than the normal one needs can be left out.
    least = ((NormalDist().inv_cdf(1 - alpha) + quantile) * spread / room) ** 2 if room else math.inf
    for n in range(max(2, math.floor(min(least, MAX_PREDICTED + 1))), MAX_PREDICTED + 1):
        if (student_quantile(1 - alpha, n - 1) + quantile) * spread / math.sqrt(n) <= room:
            return n
    return None


def size_caveat(values: Sequence[float], edges: tuple[float, float], alpha: float, cap: int) -> str | None:
    """A warning if the spread is so large that the plan is unlikely to decide by its last look at `cap` samples; else None."""
    if len(values) < 3:
        return None
    spread = stdev(values)
    needed = predict_samples(math.fsum(values) / len(values), spread, edges, alpha)
    if needed is not None and needed <= cap:
        return None
    about = f"about {needed}" if needed is not None else f"more than {MAX_PREDICTED}"
    return f"{SIZE}: with a spread of {spread * 100:.2f} % from run to run this needs {about} samples; the plan ends at {cap}"


def outlier_caveat(values: Sequence[float], tolerance: float, tell: Callable[[float], str] = percent) -> str | None:
    """Names the sample that lies far from the rest by the modified z-score (median and MAD); `tell` prints a fraction."""
    if len(values) < 5:
        return None
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    worst = max(range(len(values)), key=distances.__getitem__)
    scale = 1.4826 * median(distances)
    if distances[worst] <= max(OUTLIER_SCORE * scale, RELEVANT_SHARE * tolerance):
        return None
    said = f"sample {worst + 1} ({tell(math.expm1(values[worst]))}) lies far from the others (median {tell(math.expm1(middle))})"
    return f"{OUTLIER}: {said}"


def bimodal_caveat(values: Sequence[float], tolerance: float, tell: Callable[[float], str] = percent) -> str | None:
    """A sentence when the values lie in two groups, each at least a fifth of them; for eight values or more.

    The rule: sort the values and take the widest gap that leaves a fifth on either side. It must exceed 40/n standard deviations
    (pooled, within the groups), and at least 2. One in a hundred normal samples has such a gap, for n from 8 to 20 (200,000 draws
    each: 5.05 at 8, 3.90 at 10, 2.42 at 15, 1.78 at 20), because a few values have wide gaps by chance.
    """
    n = len(values)
    if n < BIMODAL_LEAST:
        return None
    ordered = sorted(values)
    least = math.ceil(BIMODAL_SHARE * n)
    split = max(range(least, n - least + 1), key=lambda at: ordered[at] - ordered[at - 1])
    gap = ordered[split] - ordered[split - 1]
    groups = ordered[:split], ordered[split:]
    means = [math.fsum(group) / len(group) for group in groups]
    within = math.fsum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
    if gap <= max(_GAP_TIMES_N / n, _LEAST_GAP) * math.sqrt(within / (n - 2)) or means[1] - means[0] < RELEVANT_SHARE * tolerance:
        return None
    first, second = (f"{len(group)} samples around {tell(math.expm1(mean))}" for group, mean in zip(groups, means, strict=True))
    return f"{BIMODAL}: {first} and {second}, nothing between: a mean describes neither"


def drift_caveat(values: Sequence[float], tolerance: float) -> str | None:
    """A sentence when the values rise or fall with their order (Kendall) by a relevant amount (Theil-Sen)."""
    n = len(values)
    if n < 5 or min(values) == max(values):
        return None
    slope = median((values[j] - values[i]) / (j - i) for i in range(n) for j in range(i + 1, n))
    total = slope * (n - 1)
    if abs(total) < RELEVANT_SHARE * tolerance or _kendall_normal_p(values) > _FAR_FROM_DRIFT * DRIFT_P:
        return None
    # A second of processor time to load, so that only an order that looks like a drift pays for it.
    from scipy.stats import kendalltau

    if float(kendalltau(range(n), values).pvalue) > DRIFT_P:
        return None
    return f"{DRIFT}: the samples drift by {percent(math.expm1(total))} from the first to the last: they may not be independent"


def _kendall_normal_p(values: Sequence[float]) -> float:
    """The p value of Kendall's test of these values against their order by the normal distribution, ties counted.

    It is scipy's for many values and for ties. Where the exact p of few values is at most DRIFT_P, this one is too.
    """
    n = len(values)
    score = sum((later > earlier) - (later < earlier) for at, earlier in enumerate(values) for later in values[at + 1 :])
    tied = sum(count * (count - 1) * (2 * count + 5) for count in Counter(values).values())
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - tied) / 18)
    return 2 * NormalDist().cdf(-abs(score) / deviation)


def interruption_caveat(interruptions: Sequence[int]) -> str | None:
    """A sentence when virtual time interrupted the client of a sample; the numbers are by sample."""
    found = [at for at, number in enumerate(interruptions) if number]
    if not found:
        return None
    where = f"sample {found[0] + 1}" if len(found) == 1 else f"{len(found)} samples"
    return f"{INTERRUPTED}: the client computed for long without a system call in {where} ({sum(interruptions)} interruptions)"


def about(subject: str, caveat: str) -> str:
    """The caveat with its subject (a row of samples) inserted after the lead words."""
    lead, _, said = caveat.partition(": ")
    return f"{lead}: {subject}: {said}"
