"""Is a candidate no slower than a baseline by more than a margin? The ratio of their rates over interleaved pairs; pure.

"No worse by more than 5 %" is a claim of non-inferiority that has to be shown: PASS when the interval of the ratio candidate /
baseline begins at or above 1 - margin, FAIL when it ends below, INCONCLUSIVE otherwise. A faster candidate never fails. Each end
of the interval errs in at most the plan's alpha per look, as in `lab.judge.tolerance`.

The i-th transfers of the two ran one after the other, in alternating order (`lab.judge.sweep.turn_order`). So influences
common to a pair (drift, a busy machine) cancel in its log ratio. Assumptions: these differences are independent and roughly
normal. One value is one pair of transfers. Error rates by simulation: tests/unit/judge/test_regression.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.judge.caveats import about, bimodal_caveat, drift_caveat, outlier_caveat, size_caveat
from lab.judge.decide import LookPlan, decide, scaled
from lab.judge.interval import mean_interval
from lab.judge.sweep import Arm, byte_rates, common_clock
from lab.model.answer import RateClock
from lab.model.results import Interval, IntervalMethod, Sample, Verdict


@dataclass(frozen=True)
class Rates:
    """Bytes per second of the transfers of two clients, by one clock; the i-th of both are a pair.

    Both lists are empty without a clock.
    """

    clock: RateClock | None
    candidate: list[float]
    baseline: list[float]

    @property
    def ratios(self) -> list[float]:
        """Candidate / baseline on the logarithmic scale, a value per pair."""
        return [math.log(ours / theirs) for ours, theirs in zip(self.candidate, self.baseline, strict=False)]


def pair_rates(candidate: Sequence[Sample], baseline: Sequence[Sample]) -> Rates:
    """The rates of all transfers before the first failure of either client."""
    arms = [Arm("candidate", _whole(candidate)), Arm("baseline", _whole(baseline))]
    samples = [sample for arm in arms for sample in arm.samples]
    clock = common_clock(samples) if samples else None
    ours, theirs = byte_rates(arms, clock) if clock else ([], [])
    # A rate of zero has no logarithm, e.g. for an empty file.
    if clock is None or not all(math.isfinite(rate) and rate > 0 for rate in (*ours, *theirs)):
        return Rates(None, [], [])
    return Rates(clock, ours, theirs)


def ratio_interval(ratios: Sequence[float], plan: LookPlan) -> Interval | None:
    """The interval of log ratios, as a ratio; None for fewer than two. Only for display: a verdict has its own interval."""
    return scaled(mean_interval(ratios, plan.confidence), math.exp) if len(ratios) >= 2 else None


def judge_ratios(ratios: Sequence[float], margin: float, plan: LookPlan) -> Verdict:
    """Judge log ratios, in the order taken, by the plan's looks; the first that decides gives the verdict.

    `margin` is a fraction. Raises ValueError for one outside (0, 1) and for a ratio that is not finite.
    """
    if not 0 < margin < 1:
        raise ValueError(f"a margin is a fraction between 0 and 1, got {margin}")
    taken = len(ratios)
    decision = decide(plan, taken, lambda look: mean_interval(ratios[:look], plan.confidence), (math.log1p(-margin), math.inf))
    used, name, looks = decision.used, decision.name, decision.looks
    interval = scaled(decision.interval, math.exp) if decision.interval else None
    method: IntervalMethod | None = "pairs" if interval else None
    later = plan.after(taken)
    wait = f"; the next look is after pair {later}" if name == "INCONCLUSIVE" and later else ""
    if interval is None or not looks:
        reason = f"{taken} of the {plan.looks[0]} pairs needed for the first look{wait}"
        return Verdict(name="INCONCLUSIVE", reason=reason, interval=interval, method=method, band_low=1 - margin)
    place = {"PASS": "not below", "FAIL": "below", "INCONCLUSIVE": "across"}[name]
    return Verdict(
        name=name,
        reason=f"candidate / baseline {interval.mean:.3f}, {interval.confidence * 100:.4g} % interval {interval.low:.3f} to "
        f"{interval.high:.3f}, {place} {1 - margin:g}, n = {interval.n} pairs{wait}",
        interval=interval,
        method=method,
        band_low=1 - margin,
        looks=looks,
        alpha_per_look=plan.alpha_per_look,
        warnings=_caveats(ratios[:used], margin, plan, taken=taken, open_still=name == "INCONCLUSIVE"),
    )


def judge_regression(candidate: Sequence[Sample], baseline: Sequence[Sample], margin: float, plan: LookPlan) -> Verdict | None:
    """Judge the pairs of samples. None if a transfer of the baseline failed, because there is nothing to compare with.

    A transfer that failed only with the candidate is a regression. Without a common clock the lab is at fault.
    """
    if any(not sample.ok for sample in baseline):
        return None
    if failed := next((sample for sample in candidate if not sample.ok), None):
        what = failed.problem or f"exit code {failed.exit_code}"
        return Verdict(
            name="FAIL", reason=f"transfer {failed.index + 1} failed with the candidate, but not with the baseline: {what}"
        )
    rates = pair_rates(candidate, baseline)
    if rates.clock is None and candidate and baseline:
        return Verdict(name="INVALID", reason="the lab did not measure a speed for every transfer")
    return judge_ratios(rates.ratios, margin, plan)


def pairs_wanted(candidate: Sequence[Sample], baseline: Sequence[Sample], margin: float, plan: LookPlan) -> int | None:
    """The total number of pairs to go on to; None when the verdict stands or is impossible, or when the plan is at its end."""
    verdict = judge_regression(candidate, baseline, margin, plan)
    if verdict is None or verdict.name != "INCONCLUSIVE":
        return None
    taken = min(len(candidate), len(baseline))
    return plan.after(taken)


def _whole(samples: Sequence[Sample]) -> list[Sample]:
    until = next((index for index, sample in enumerate(samples) if not sample.ok), len(samples))
    return list(samples[:until])


def _caveats(seen: Sequence[float], margin: float, plan: LookPlan, *, taken: int, open_still: bool) -> list[str]:
    found = [outlier_caveat(seen, margin), bimodal_caveat(seen, margin), drift_caveat(seen, margin)]
    if open_still:
        found.insert(0, size_caveat(seen, (math.log1p(-margin), math.inf), plan.alpha_per_look, plan.cap))
    told = [about("candidate / baseline", caveat) for caveat in found if caveat]
    if len(seen) < taken and not open_still:
        told.append(f"decided after {len(seen)} pairs; {taken - len(seen)} taken after that are not used")
    return told
