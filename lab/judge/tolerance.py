"""Is a speed within its tolerance? An equivalence test with a fixed plan of looks; pure.

"Within 5 %" is a claim, so it has to be shown: PASS when the interval of the mean deviation lies wholly inside the band,
FAIL when wholly outside, INCONCLUSIVE otherwise. "No significant difference" is never a PASS. Everything is computed on
`log(1 + deviation)`, where ratios are symmetric, and told in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.judge.caveats import drift_caveat, outlier_caveat, size_caveat
from lab.judge.interval import mean_interval
from lab.result.models import Interval, Sample, Verdict, VerdictName
from lab.spec.models import Expectation


@dataclass(frozen=True)
class LookPlan:
    """When the interval is looked at, fixed before the first sample.

    Looking four times at .05 lets a client at the band's very edge pass 12 times in 100; with Pocock's .0182 per look it is
    5 (facts/suites.md 3.3, and the simulation in tests/unit/judge).
    """

    looks: tuple[int, ...] = (5, 10, 15, 20)
    alpha_per_look: float = 0.0182

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < 2 or any(a >= b for a, b in pairwise(self.looks)):
            raise ValueError(f"looks must rise and start at 2 or more, got {self.looks}")
        if not 0 < self.alpha_per_look < 0.5:
            raise ValueError(f"alpha_per_look must be between 0 and 0.5, got {self.alpha_per_look}")

    @classmethod
    def single(cls, n: int, alpha: float = 0.05) -> LookPlan:
        """One look at `n` samples: no correction is due, the interval is the ordinary 90 % one."""
        return cls(looks=(n,), alpha_per_look=alpha)

    @property
    def confidence(self) -> float:
        """Two-sided confidence of the interval at each look."""
        return 1 - 2 * self.alpha_per_look

    @property
    def cap(self) -> int:
        return self.looks[-1]


def judge_tolerance(deviations: Sequence[float], tolerance: float, plan: LookPlan) -> Verdict:
    """Judge deviations (fractions, in the order taken) against +-`tolerance` (a fraction) by the plan's looks.

    The first look that decides is the verdict; what was sampled after it is not used, because choosing among looks is
    what the plan forbids. Before the first look the verdict is INCONCLUSIVE. Raises ValueError for a tolerance outside
    (0, 1) and for a deviation at or below -1.
    """
    values = _log_ratios(deviations, tolerance)
    edges = _edges(tolerance)
    used, name, interval = _decide(values, edges, plan)
    looks = [look for look in plan.looks if look <= used]
    seen = values[:used] if looks else values
    found = [outlier_caveat(seen, tolerance), drift_caveat(seen, tolerance)]
    if name == "INCONCLUSIVE":
        found.insert(0, size_caveat(seen, edges, plan.alpha_per_look, plan.cap))
    elif used < len(values):
        found.append(f"decided at {used} samples; {len(values) - used} taken after that are not used")
    return Verdict(
        name=name,
        reason=_reason(name, interval, tolerance, taken=len(values), looks=looks, plan=plan),
        interval=interval,
        band_low=-tolerance,
        band_high=tolerance,
        looks=looks,
        alpha_per_look=plan.alpha_per_look,
        warnings=[sentence for sentence in found if sentence],
    )


def next_look(deviations: Sequence[float], tolerance: float, plan: LookPlan) -> int | None:
    """The total number of samples at which the next look is due; None when decided or when the plan is at its end."""
    values = _log_ratios(deviations, tolerance)
    if _decide(values, _edges(tolerance), plan)[1] != "INCONCLUSIVE":
        return None
    return _look_after(len(values), plan)


def judge_samples(samples: Sequence[Sample], expectation: Expectation, plan: LookPlan) -> Verdict:
    """Judge whole transfers: one that failed FAILs the cell, whatever the speed of the others.

    A sample without a deviation where one is expected makes the cell INVALID: the lab did not measure what it judges.
    """
    for sample in samples:
        if not sample.ok:
            what = sample.problem or f"exit code {sample.exit_code}"
            return Verdict(name="FAIL", reason=f"transfer {sample.index + 1} of {len(samples)} failed: {what}")
    if expectation.kind == "none":
        return _judge_completion(samples)
    blind = [sample.index + 1 for sample in samples if sample.deviation is None]
    if blind:
        return Verdict(name="INVALID", reason=f"the lab has no speed to judge for transfer {', '.join(map(str, blind))}")
    return judge_tolerance(_deviations(samples), expectation.tolerance.value, plan)


def samples_wanted(samples: Sequence[Sample], expectation: Expectation, plan: LookPlan) -> int | None:
    """The total number of samples to go on to; None when the verdict stands or the plan is at its end.

    Where nothing is expected of the speed, the plan's first look is enough.
    """
    if any(not sample.ok for sample in samples):
        return None
    if expectation.kind == "none":
        return plan.looks[0] if len(samples) < plan.looks[0] else None
    if any(sample.deviation is None for sample in samples):
        return None
    return next_look(_deviations(samples), expectation.tolerance.value, plan)


def with_invalid(verdict: Verdict | None, problems: Sequence[str]) -> Verdict:
    """The same figures, but the lab was not what it claims, so that nothing is said of the client.

    Without problems the verdict stands. None is a cell that never came to be judged: INVALID with the lab's problems alone.
    """
    if verdict is None:
        return Verdict(name="INVALID", reason=f"the lab, not the client: {'; '.join(problems) or 'nothing was measured'}")
    if not problems:
        return verdict
    reason = f"the lab, not the client: {'; '.join(problems)} (would have been {verdict.name}: {verdict.reason})"
    return verdict.model_copy(update={"name": "INVALID", "reason": reason})


def _judge_completion(samples: Sequence[Sample]) -> Verdict:
    if not samples:
        return Verdict(name="INCONCLUSIVE", reason="no transfer was made")
    return Verdict(name="PASS", reason=f"every transfer arrived whole; nothing was expected of their speed, n = {len(samples)}")


def _deviations(samples: Sequence[Sample]) -> list[float]:
    return [sample.deviation for sample in samples if sample.deviation is not None]


def _edges(tolerance: float) -> tuple[float, float]:
    return math.log1p(-tolerance), math.log1p(tolerance)


def _log_ratios(deviations: Sequence[float], tolerance: float) -> list[float]:
    if not 0 < tolerance < 1:
        raise ValueError(f"a tolerance is a fraction between 0 and 1, got {tolerance}")
    if any(not deviation > -1 for deviation in deviations):
        raise ValueError(f"a deviation is above -1 (a speed above zero), got {list(deviations)}")
    return [math.log1p(deviation) for deviation in deviations]


def _decide(values: Sequence[float], edges: tuple[float, float], plan: LookPlan) -> tuple[int, VerdictName, Interval | None]:
    """The samples used, the verdict and the interval (in fractions) of the look that decided, else of the last one.

    Before the first look the interval is that of all samples, for the reader only.
    """
    low, high = edges
    interval: Interval | None = None
    used = len(values)
    for look in (look for look in plan.looks if look <= len(values)):
        used, interval = look, mean_interval(values[:look], plan.confidence)
        if low <= interval.low and interval.high <= high:
            return look, "PASS", _fractions(interval)
        if interval.high < low or interval.low > high:
            return look, "FAIL", _fractions(interval)
    if interval is None and len(values) >= 2:
        interval = mean_interval(values, plan.confidence)
    return used, "INCONCLUSIVE", _fractions(interval) if interval else None


def _fractions(interval: Interval) -> Interval:
    return interval.model_copy(update={key: math.expm1(getattr(interval, key)) for key in ("mean", "low", "high")})


def _look_after(taken: int, plan: LookPlan) -> int | None:
    return next((look for look in plan.looks if look > taken), None)


def _reason(
    name: VerdictName, interval: Interval | None, tolerance: float, *, taken: int, looks: Sequence[int], plan: LookPlan
) -> str:
    band = f"±{tolerance * 100:g} %"
    later = _look_after(taken, plan)
    wait = f"; the next look is at {later}" if name == "INCONCLUSIVE" and later else ""
    if interval is None:
        return f"{taken} of the {plan.looks[0]} samples that a first look at {band} needs{wait}"
    figures = (
        f"mean {interval.mean * 100:+z.2f} %, {interval.confidence * 100:.4g} % interval "
        f"{interval.low * 100:+z.2f} to {interval.high * 100:+z.2f} %"
    )
    if not looks:
        return f"{figures}, too few samples to be judged against {band}, n = {interval.n}{wait}"
    place = {"PASS": "inside", "FAIL": "outside", "INCONCLUSIVE": "across an edge of"}[name]
    return f"{figures}, {place} {band}, n = {interval.n}{wait}"
