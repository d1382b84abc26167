"""Is a speed within its tolerance? An equivalence test with a fixed plan of looks; pure.

"Within 5 %" is a claim that has to be shown: PASS when the interval of the mean deviation lies inside the band, FAIL when it lies
outside or when most transfers are shown to lie outside (`lab.judge.share`), INCONCLUSIVE otherwise. "No significant difference"
is never a PASS. All computation is on `log(1 + deviation)`, where ratios are symmetric; results are fractions. The interval is
Student's, joined with a bootstrap's where the samples are skewed (`lab.judge.skewed`).

"No slower by more than 5 %" (the last hundred files of a set against the first) is the same with a one-edged band:
non-inferiority, where each end of the interval errs in at most alpha. A figure against its bound is judged in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.judge.caveats import bimodal_caveat, drift_caveat, outlier_caveat, size_caveat
from lab.judge.decide import Decision, Edges, LookPlan, decide, scaled
from lab.judge.interval import mean_interval
from lab.judge.share import most_outside, outside
from lab.judge.skewed import is_skewed, widened
from lab.model.figures import Bound
from lab.model.numbers import percent, percent_interval
from lab.model.results import Interval, Sample, Verdict, VerdictName
from lab.model.transfer import Expectation

_RELEVANT_TO_BOUND = 0.05
"""Stands for the width of a band that ends at 0, by which caveats are measured."""
BOOTSTRAP_SEED = 20260101
"""Always the same, so that the same samples give the same verdict."""

__all__ = ["Band", "LookPlan", "judge_band", "judge_samples", "judge_tolerance", "next_look", "samples_wanted", "with_invalid"]


@dataclass(frozen=True)
class Band:
    """The range allowed for a mean deviation; a side without an edge is open."""

    low: float | None
    high: float

    @classmethod
    def within(cls, tolerance: float) -> Band:
        """The same distance below and above."""
        return cls(-_fraction(tolerance), tolerance)

    @classmethod
    def at_most(cls, tolerance: float) -> Band:
        """Only larger deviations are outside."""
        return cls(None, _fraction(tolerance))

    @classmethod
    def up_to_bound(cls) -> Band:
        """For fractions beyond a bound."""
        return cls(None, 0.0)

    @property
    def edges(self) -> Edges:
        """On the logarithmic scale."""
        return -math.inf if self.low is None else math.log1p(self.low), math.log1p(self.high)

    def __str__(self) -> str:
        return f"{'+' if self.low is None else '±'}{self.high * 100:g} %"


def judge_tolerance(deviations: Sequence[float], tolerance: float, plan: LookPlan) -> Verdict:
    """`judge_band` with a band of +-`tolerance` (a fraction). Also raises ValueError for a tolerance outside (0, 1)."""
    return judge_band(deviations, Band.within(tolerance), plan)


def judge_band(deviations: Sequence[float], band: Band, plan: LookPlan, bound: Bound | None = None) -> Verdict:
    """Judge deviations (fractions, in the order taken) against the band by the plan's looks.

    The first look that decides gives the verdict; samples after it are not used, because a plan forbids choosing among looks.
    Before the first look the verdict is INCONCLUSIVE. Raises ValueError for a deviation at or below -1.
    Where the deviations are fractions beyond a `bound`, the reason has the figures behind them.
    """
    values = _log_ratios(deviations)
    edges, tolerance = band.edges, band.high or _RELEVANT_TO_BOUND
    decision = decide_values(values, edges, plan)
    used, name = decision.used, decision.name
    interval = scaled(decision.interval, math.expm1) if decision.interval else None
    seen = values[:used]
    # The fraction falls as the figure rises if more is better.
    rising = [-value for value in seen] if bound and bound.figure.more_is_better else seen
    found = [
        outlier_caveat(seen, tolerance, bound.text if bound else percent),
        bimodal_caveat(seen, tolerance, bound.text if bound else percent),
        drift_caveat(rising, tolerance),
    ]
    if name == "INCONCLUSIVE":
        found.insert(0, size_caveat(seen, edges, plan.alpha_per_look, plan.cap))
    elif used < len(values):
        found.append(f"decided at {used} samples; {len(values) - used} taken after that are not used")
    return Verdict(
        name=name,
        reason=_reason(
            name,
            interval,
            band,
            taken=len(values),
            looks=decision.looks,
            plan=plan,
            bound=bound,
            beyond=outside(seen, edges) if decision.most_outside else 0,
        ),
        interval=interval,
        method=("student and bootstrap" if decision.widened else "student") if interval else None,
        band_low=band.low,
        band_high=band.high,
        looks=decision.looks,
        alpha_per_look=plan.alpha_per_look,
        warnings=[sentence for sentence in found if sentence],
    )


def next_look(deviations: Sequence[float], tolerance: float, plan: LookPlan) -> int | None:
    """The total number of samples at which the next look is due; None when decided or when the plan is at its end."""
    return _next_look(deviations, Band.within(tolerance), plan)


def judge_samples(samples: Sequence[Sample], expectation: Expectation, plan: LookPlan) -> Verdict:
    """Judge the samples of a cell: a failed transfer FAILs the cell, however fast the others were.

    A sample without the judged figure makes the cell INVALID, because the lab did not measure what it judges.
    """
    for sample in samples:
        if not sample.ok:
            what = sample.problem or f"exit code {sample.exit_code}"
            return Verdict(name="FAIL", reason=f"transfer {sample.index + 1} of {len(samples)} failed: {what}")
    if expectation.kind == "none":
        return _judge_completion(samples)
    values = [_judged_value(sample, expectation) for sample in samples]
    blind = ", ".join(str(sample.index + 1) for sample, value in zip(samples, values, strict=True) if value is None)
    if blind and expectation.kind == "steady":
        # Not INVALID: the lab is not at fault when all files come within one tick of the receiver's clock.
        reason = f"no times of the first and the last hundred files to compare in transfer {blind}; all arrived intact"
        return Verdict(name="INCONCLUSIVE", reason=reason)
    if blind:
        what = expectation.figure.title if expectation.bounded else "speed"
        return Verdict(name="INVALID", reason=f"the lab did not measure the {what} of transfer {blind}")
    verdict = judge_band([value for value in values if value is not None], _band(expectation), plan, expectation.bounded)
    if expectation.kind == "steady":
        return verdict.model_copy(update={"reason": f"the last hundred files against the first, time per file: {verdict.reason}"})
    return verdict


def samples_wanted(samples: Sequence[Sample], expectation: Expectation, plan: LookPlan) -> int | None:
    """The total number of samples to go on to; None when the verdict stands or the plan is at its end.

    Where no speed is expected, the plan's first look is enough.
    """
    if any(not sample.ok for sample in samples):
        return None
    if expectation.kind == "none":
        return plan.looks[0] if len(samples) < plan.looks[0] else None
    values = [_judged_value(sample, expectation) for sample in samples]
    if any(value is None for value in values):
        return None
    return _next_look([value for value in values if value is not None], _band(expectation), plan)


def with_invalid(verdict: Verdict | None, problems: Sequence[str]) -> Verdict:
    """INVALID with the same figures, because the lab was at fault and says nothing about the client.

    Without problems the verdict stands. None stands for a cell that was never judged: INVALID with the lab's problems only.
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
    return Verdict(name="PASS", reason=f"every transfer arrived intact; no speed was expected, n = {len(samples)}")


def _judged_value(sample: Sample, expectation: Expectation) -> float | None:
    """The fraction of one transfer that the expectation judges; None where it was not measured."""
    return expectation.bounded.fraction(sample) if expectation.bounded else expectation.figure.of(sample)


def _band(expectation: Expectation) -> Band:
    tolerance = expectation.tolerance.value
    if expectation.named:
        return Band.up_to_bound()
    return Band.at_most(tolerance) if expectation.kind == "steady" else Band.within(tolerance)


def _next_look(deviations: Sequence[float], band: Band, plan: LookPlan) -> int | None:
    values = _log_ratios(deviations)
    return plan.after(len(values)) if decide_values(values, band.edges, plan, final=False).name == "INCONCLUSIVE" else None


def _fraction(tolerance: float) -> float:
    if not 0 < tolerance < 1:
        raise ValueError(f"a tolerance is a fraction between 0 and 1, got {tolerance}")
    return tolerance


def _log_ratios(deviations: Sequence[float]) -> list[float]:
    if any(not deviation > -1 for deviation in deviations):
        raise ValueError(f"a deviation is above -1 (a speed above zero), got {list(deviations)}")
    return [math.log1p(deviation) for deviation in deviations]


def decide_values(values: Sequence[float], edges: Edges, plan: LookPlan, *, final: bool = True) -> Decision:
    """The decision behind every verdict, on log ratios and edges on the same scale."""

    def interval_at(look: int) -> Interval:
        return mean_interval(values[:look], plan.confidence)

    def widen(look: int, student: Interval) -> Interval:
        seen = values[:look]
        return widened(student, seen, BOOTSTRAP_SEED) if is_skewed(seen) else student

    def most_beyond(look: int) -> bool:
        return most_outside(values[:look], edges, plan.alpha_per_look)

    return decide(plan, len(values), interval_at, edges, widen, most_outside=most_beyond, final=final)


def _reason(
    name: VerdictName,
    interval: Interval | None,
    band: Band,
    *,
    taken: int,
    looks: Sequence[int],
    plan: LookPlan,
    bound: Bound | None,
    beyond: int,
) -> str:
    later = plan.after(taken)
    wait = f"; the next look is at {later}" if name == "INCONCLUSIVE" and later else ""
    edge = f"{bound}" if bound else f"{band}"
    if interval is None:
        return f"{taken} of the {plan.looks[0]} samples that a first look at {edge} needs{wait}"
    confidence = f"{interval.confidence * 100:.4g} % interval"
    if bound:
        figures = f"mean {bound.figure.title} {bound.text(interval.mean)}, {confidence} {bound.span(interval.low, interval.high)}"
        few = "" if looks else "; too few samples to be judged"
        return f"{figures}, {bound} asked, n = {interval.n}{few}{wait}"
    mean, span = percent_interval(interval.mean, interval.low, interval.high)
    figures = f"mean {mean}, {confidence} {span}"
    if not looks:
        return f"{figures}, too few samples to be judged against {edge}, n = {interval.n}{wait}"
    if beyond:
        return f"{beyond} of {interval.n} transfers outside {edge}; {figures}, n = {interval.n}"
    place = {"PASS": "inside", "FAIL": "outside", "INCONCLUSIVE": "across an edge of"}[name]
    if band.low is None:
        place = {"PASS": "not above", "FAIL": "above", "INCONCLUSIVE": "across"}[name]
    return f"{figures}, {place} {edge}, n = {interval.n}{wait}"
