"""Does throughput hold across the settings of a sweep? The slowest setting's mean against the fastest's; pure.

The claim "the slowest reaches at least `floor` of the fastest" has to be shown: PASS when the lower end of the ratio's
interval is at or above the floor, FAIL when the upper end is below it, INCONCLUSIVE otherwise. Means are geometric (log rates).

The observed ratio is biased: among k equal settings it compares the luckiest with the unluckiest, which turns 1 into 0.978 on
average at k = 6, five rounds and 2 % of noise. The interval does not rest on it. With D = max - min of the true log
means and rounds i = 1..n, every pair (j, l) has its own differences d_i = y_ij - y_il, and with them its own Student bounds:

- upper end of D: the largest of all pairs' one-sided upper bounds, each at the plan's own alpha. D is the difference of *one*
  pair, and that pair's bound alone keeps the promise, so no correction for their number is due (the
  intersection-union test: Berger 1982, Technometrics 24, 295; Berger and Hsu 1996, Statistical Science 11, 283).
- lower end of D: the largest of all pairs' lower bounds. Here the best of k(k-1) chances is picked, so each is taken at
  alpha / (k(k-1)) (Bonferroni, which holds however the pairs depend on each other).

Assumptions: a setting's differences from another, round by round, are independent and roughly normal. Settings may be differently
noisy: nothing is pooled, as Tukey's range would. Influences common to a round (drift, a busy machine) cancel. One value is one
transfer. Error rates by simulation: tests/unit/judge/test_sweep.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from statistics import median

from lab.judge.caveats import about, drift_caveat, outlier_caveat, size_caveat
from lab.judge.decide import LookPlan, decide, scaled
from lab.judge.interval import mean_interval
from lab.model.answer import RateClock
from lab.model.results import Interval, Sample, Verdict


@dataclass(frozen=True)
class Arm:
    """One setting of the sweep; its samples in the order of the rounds."""

    name: str
    samples: Sequence[Sample]


def turn_order(arms: int, round_index: int) -> list[int]:
    """The order of the settings in a round: forwards, then backwards, with each pair of rounds starting one further.

    After two rounds every setting has the same mean position, so a steady drift favours no setting (ABBA for more than two).
    """
    first = round_index // 2 % arms
    order = [(first + step) % arms for step in range(arms)]
    return order[::-1] if round_index % 2 else order


def common_clock(samples: Sequence[Sample]) -> RateClock | None:
    """The clock that timed every transfer: first to last body byte where all have it, else the time of the complete transfer.

    Clocks are never mixed, because two of them differ by more than two settings may.
    """
    if all(sample.body_byte_s is not None for sample in samples):
        clocks = {sample.body_clock or "client" for sample in samples}
        if len(clocks) == 1:
            return clocks.pop()
    return "total" if all(sample.total_byte_s is not None for sample in samples) else None


def byte_rates(arms: Sequence[Arm], clock: RateClock) -> list[list[float]]:
    """Bytes per second of every arm's successful transfers, in the order of the rounds."""
    key = "total_byte_s" if clock == "total" else "body_byte_s"
    return [[getattr(sample, key) for sample in arm.samples if sample.ok] for arm in arms]


def ratio_interval(rates: Sequence[Sequence[float]], alpha: float) -> Interval:
    """Slowest mean / fastest mean with its interval. Each end errs in at most `alpha` of all studies (see the module).

    `rates` has a row per arm, all of the same length; column j is round j. `mean` is the observed ratio.
    Raises ValueError for fewer than two arms or rounds, rows of different length, and rates that are not above zero.
    """
    return scaled(_log_interval(rates, alpha), math.exp)


def _log_interval(rates: Sequence[Sequence[float]], alpha: float) -> Interval:
    """The interval of the logarithm of that ratio: never above 0."""
    logs = _logs(rates)
    rounds, count = len(logs[0]), len(logs)
    upper = lower = 0.0
    for one, other in combinations(logs, 2):
        differences = [a - b for a, b in zip(one, other, strict=True)]
        # Both ends serve: the pair's other order has the same interval, turned round.
        own = mean_interval(differences, 1 - 2 * alpha)
        shared = mean_interval(differences, 1 - 2 * alpha / (count * (count - 1)))
        upper, lower = max(upper, own.high, -own.low), max(lower, shared.low, -shared.high)
    means = [math.fsum(row) / rounds for row in logs]
    seen = max(means) - min(means)
    # Rounding aside, lower <= seen <= upper by construction.
    return Interval(n=rounds, mean=-seen, low=min(-upper, -seen), high=max(-lower, -seen), confidence=1 - 2 * alpha)


def judge_rates(names: Sequence[str], rates: Sequence[Sequence[float]], floor: float, plan: LookPlan) -> Verdict:
    """Judge bare rates (a row per setting) against `floor`; the plan's looks count rounds, the interval is of the ratio.

    The first look that decides gives the verdict; rounds after it are not used. Raises ValueError as `ratio_interval`, and for a
    floor outside (0, 1).
    """
    if not 0 < floor < 1:
        raise ValueError(f"a floor is a ratio between 0 and 1, got {floor}")
    taken = min((len(row) for row in rates), default=0)
    decision = decide(
        plan,
        taken,
        lambda look: _log_interval([row[:look] for row in rates], plan.alpha_per_look),
        (math.log(floor), math.inf),
    )
    used, name, looks = decision.used, decision.name, decision.looks
    later = plan.after(taken)
    wait = f"; the next look is after round {later}" if name == "INCONCLUSIVE" and later else ""
    if decision.interval is None:
        return Verdict(name=name, reason=f"{taken} of the {plan.looks[0]} rounds that a first look needs{wait}", band_low=floor)
    interval = scaled(decision.interval, math.exp)
    seen = [row[:used] for row in rates]
    warnings = _caveats(names, seen, floor, plan, undecided=name == "INCONCLUSIVE")
    if name != "INCONCLUSIVE" and used < taken:
        warnings.append(f"decided after {used} rounds; {taken - used} taken after that are not used")
    means = [math.fsum(row) / used for row in _logs(seen)]
    slow, fast = means.index(min(means)), means.index(max(means))
    place = {
        "PASS": f"not below {floor:g}",
        "FAIL": f"below {floor:g}",
        "INCONCLUSIVE": f"across {floor:g}" if looks else f"too few rounds to be judged against {floor:g}",
    }[name]
    reason = (
        f"the slowest ({names[slow]}, {math.exp(means[slow]) / 1e6:.2f} MB/s) reaches {interval.mean:.3f} of the fastest "
        f"({names[fast]}, {math.exp(means[fast]) / 1e6:.2f} MB/s), {interval.confidence * 100:.4g} % interval "
        f"{interval.low:.3f} to {interval.high:.3f}, {place}, n = {used} rounds of {len(names)}{wait}"
    )
    return Verdict(
        name=name,
        reason=reason,
        interval=interval,
        method="pairs",
        band_low=floor,
        looks=looks,
        alpha_per_look=plan.alpha_per_look,
        warnings=warnings,
    )


def judge_sweep(arms: Sequence[Arm], floor: float, plan: LookPlan) -> Verdict:
    """Judge complete transfers: a failed one FAILs the sweep and is named; without a common clock the lab is at fault."""
    for arm in arms:
        for sample in arm.samples:
            if not sample.ok:
                what = sample.problem or f"exit code {sample.exit_code}"
                return Verdict(name="FAIL", reason=f"transfer {sample.index + 1} with {arm.name} failed: {what}")
    clock = common_clock([sample for arm in arms for sample in arm.samples])
    if clock is None:
        return Verdict(name="INVALID", reason="the lab did not measure a speed for every transfer")
    return judge_rates([arm.name for arm in arms], byte_rates(arms, clock), floor, plan)


def rounds_wanted(arms: Sequence[Arm], floor: float, plan: LookPlan) -> int | None:
    """The total number of rounds to go on to; None when the verdict stands or the plan is at its end."""
    verdict = judge_sweep(arms, floor, plan)
    taken = min(len(arm.samples) for arm in arms)
    return plan.after(taken) if verdict.name == "INCONCLUSIVE" else None


def _caveats(
    names: Sequence[str], rates: Sequence[Sequence[float]], floor: float, plan: LookPlan, *, undecided: bool
) -> list[str]:
    """Per setting, relative to its round's median, so that a disturbed round is not an outlier or a drift of one setting."""
    logs = _logs(rates)
    found: list[str] = []
    if undecided:
        pairs = [[a - b for a, b in zip(one, other, strict=True)] for one, other in permutations(logs, 2)]
        widest = max(pairs, key=lambda values: mean_interval(values, plan.confidence).high)
        edge = -math.log(floor)
        found += filter(None, [size_caveat(widest, (-edge, edge), plan.alpha_per_look, plan.cap)])
    middles = [median(column) for column in zip(*logs, strict=True)]
    for name, row in zip(names, logs, strict=True):
        relative = [value - middle for value, middle in zip(row, middles, strict=True)]
        caveats = (outlier_caveat(relative, 1 - floor), drift_caveat(relative, 1 - floor))
        found += [about(f"{name}, against the others of its round", caveat) for caveat in caveats if caveat]
    return found


def _logs(rates: Sequence[Sequence[float]]) -> list[list[float]]:
    if len(rates) < 2:
        raise ValueError(f"a comparison needs at least two settings, got {len(rates)}")
    if len({len(row) for row in rates}) != 1:
        raise ValueError(f"every setting needs a rate in every round, got {[len(row) for row in rates]}")
    if any(not (math.isfinite(rate) and rate > 0) for row in rates for rate in row):
        raise ValueError("every rate must be finite and above zero")
    return [[math.log(rate) for rate in row] for row in rates]
