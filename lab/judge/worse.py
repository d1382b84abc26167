"""Is a candidate worse than a baseline in a figure? Pairs of transfers, an exact test for an alarm; pure.

The i-th transfers of both had the same seed and ran one after the other, in turns (`lab.judge.sweep.turn_order`). Where both
programs are equal, either is as likely to be the worse one, whatever the spread, the tails or the number of speeds. Therefore an
alarm needs the exact sign test: among the pairs that differ by more than the margin, the candidate is the worse one too often for
chance (binomial, one half). It takes twenty pairs, because fewer cannot be as strict as a gate needs. It also takes the size: the
interval of the mean (Student's, by the plan's looks) lies beyond the margin.

A PASS is shown by the mean: its interval lies inside the margin, mostly after five pairs. Where pairs scatter by more than the
margin, that may take hundreds; from twenty on it is enough that the interval lies inside one standard deviation of a pair, and
that pairs are not mostly worse. Such a figure is `scattered`, and its scatter is printed: a smaller regression is not seen. A
figure that is neither is open.

The margins, and why:

| figure | worse is | margin | and at least | because |
|---|---|---|---|---|
| arrives | a file that is missing, cut or wrong | none | one file | the baseline has none in as many transfers |
| rate | slower; with a limit, further from it | 2 % | | the lab's seeds give equal programs less, where they do not scatter |
| wall | longer, start to end of the process | 2 % | 10 ms | a tick of timers; with a limit, no shorter than that allows |
| burst | a faster 100 ms, with a limit | 10 % | 16 KiB | one record of TLS, and a buffer of curl's |
| memory | a larger peak | 10 % | 1 MiB | an arena of malloc, pages of libraries |
| the row's own | as its figure says | 2 %; CPU 10 % | | CPU time is counted in ticks |

In real time the margins of 2 % are 5 %, because the machine takes part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import stdev

from lab.judge.decide import LookPlan
from lab.judge.interval import mean_interval
from lab.judge.share import ROUNDING
from lab.model.answer import ARRIVES, Claim, Standing
from lab.model.cell import Cell
from lab.model.clock import Clock
from lab.model.figures import FIGURES, RATE, Figure
from lab.model.numbers import geometric_mean, percent, percent_interval
from lab.model.results import CellResult, Interval, Sample, VerdictName

GATE_ALPHA = 0.01
"""The error rate of calling an equal client worse, over all figures of all rows."""
LEAST_FOR_ALARM = 20
"""Pairs. Fewer cannot be strict enough for a gate of some hundred figures: 1/2^20 is 1 in 1,000,000, and 1/2^10 1 in 1000."""
_VIRTUAL, _REAL = 0.02, 0.05
_COARSE = 0.10
_BURST_WINDOW_S = 0.1
_FLOORS = {"wall": 0.010, "burst": 16384.0, "memory": float(1 << 20)}
"""In the unit of the result's field; a burst's in bytes of its window."""
_CPU = frozenset({"processor", "cpu", "cost"})
_SAME_AS = {"limit": "rate", "deviation": "rate", "fill": "rate", "total": "wall", "overall": "wall", "body": "rate"}
"""By the expectation of a row, a figure that answers it as well."""
_WORDS = {"rate": "rate", "wall": "time to complete", "burst": "bursts", "memory": "memory", ARRIVES: "files that arrive"}

Accepted = Mapping[str, float]
"""By figure, how much worse was accepted, a fraction."""


@dataclass(frozen=True)
class Gate:
    """The gate as the figures of one row see it: the error rate over all figures, and the number of figures that share it."""

    claims: int = 1
    alpha: float = GATE_ALPHA
    margin: float | None = None
    """In place of the usual margin of rate and time."""

    def __post_init__(self) -> None:
        if self.claims < 1 or not 0 < self.alpha < 0.5:
            raise ValueError(f"a gate needs claims and an alpha below 0.5, got {self.claims} and {self.alpha}")

    @property
    def level(self) -> float:
        """The level at which one figure alone raises an alarm while the others are not known yet (Bonferroni)."""
        return self.alpha / self.claims


@dataclass(frozen=True)
class Measure:
    """The comparison of one figure of a row."""

    figure: str
    margin: float
    harm: Callable[[Sample, Sample], float | None] = field(compare=False)
    """Candidate's and baseline's sample: the logarithm of how much worse the candidate's is; None where either has none."""
    floor: Callable[[Sample], float] = field(compare=False, default=lambda _: 0.0)
    """The smallest difference that counts, as a fraction of the baseline's sample."""

    @property
    def title(self) -> str:
        return figure_title(self.figure)

    def value(self, sample: Sample) -> float | None:
        return FIGURES[self.figure].of(sample)


def figure_title(figure: str) -> str:
    """`time to complete`, for people."""
    return _WORDS[figure] if figure in _WORDS else FIGURES[figure].title


def margin_of(clock: Clock, asked: float | None = None) -> float:
    """The margin of rate and time by this clock, a fraction."""
    return asked if asked is not None else _REAL if clock == "real" else _VIRTUAL


def measures_of(cell: Cell, clock: Clock, gate: Gate | None = None) -> list[Measure]:
    """The figures of a row that are compared, besides whether the files arrive; those that mean something by this clock."""
    margin = margin_of(clock, gate.margin if gate else None)
    seen = _Seen(cell, clock)
    found = []
    if RATE.applies(seen):
        found.append(Measure("rate", margin, _further if cell.transfer.limit else _slower))
        least_s = 0.0 if cell.transfer.limit_byte_s is None else cell.transfer.total_bytes / cell.transfer.limit_byte_s
        found.append(Measure("wall", margin, _longer(least_s), _wall_floor))
    if limit := cell.transfer.limit_byte_s:
        found.append(Measure("burst", _COARSE, _more("burst"), _burst_floor(limit)))
    found.append(Measure("memory", _COARSE, _more("memory"), _memory_floor))
    own = _own(cell)
    if own and own.name not in {each.figure for each in found} and own.applies(seen):
        harm = _slower_at_the_end if own.name == "slowdown" else _more(own.name)
        found.append(Measure(own.name, _COARSE if own.name in _CPU else margin, harm))
    return found


def count_claims(cell: Cell, clock: Clock) -> int:
    """The number of compared figures of a row, the arrival of the files among them."""
    return 1 + len(measures_of(cell, clock))


def claims_of(
    measures: Sequence[Measure],
    candidate: Sequence[Sample],
    baseline: Sequence[Sample],
    plan: LookPlan,
    gate: Gate,
    *,
    accepted: Accepted | None = None,
) -> list[Claim]:
    """Each figure by the pairs taken so far. A figure that no pair has is left out."""
    accepted = accepted or {}
    pairs = list(zip(candidate, baseline, strict=False))
    found = [_arrived(pairs, plan, gate, accepted.get(ARRIVES))]
    whole = [(ours, theirs) for ours, theirs in pairs if ours.ok and theirs.ok]
    final = len(pairs) >= plan.cap
    for measure in measures:
        claim = _compared(measure, whole, plan, gate, accepted.get(measure.figure))
        # There may never be enough pairs if files do not arrive; their arrival is a claim of its own.
        if claim.n and not (final and len(whole) < plan.looks[0]):
            found.append(claim)
    return found


def rounds_wanted(claims: Sequence[Claim], taken: int, plan: LookPlan) -> int | None:
    """The total number of pairs to go on to; None when every figure is decided, or when the plan is at its end."""
    if taken >= plan.looks[0] and not any(claim.standing == "open" for claim in claims):
        return None
    return plan.after(taken)


def verdict_of(claims: Sequence[Claim]) -> VerdictName:
    """FAIL for a regression, else INCONCLUSIVE where a figure is open, else PASS."""
    standings = {claim.standing for claim in claims}
    return "FAIL" if "regression" in standings else "INCONCLUSIVE" if "open" in standings or not claims else "PASS"


def alarm_looks(plan: LookPlan) -> list[int]:
    """The looks that may raise an alarm; the last one in any case."""
    return [look for look in plan.looks if look >= LEAST_FOR_ALARM] or [plan.cap]


def claim_words(claim: Claim) -> str:
    """`time to complete 5.31 % worse (+5.2 to +5.4 %), more than 2 % worse in 20 of 20 pairs`."""
    title = figure_title(claim.figure)
    if claim.figure == ARRIVES:
        failed = f"{claim.candidate or 0:.0f} of {claim.n} transfers failed, of the baseline {claim.baseline or 0:.0f}"
        return f"{failed}{f' ({claim.note})' if claim.note else ''}"
    if claim.worse is None:
        return f"{title}: too few pairs"
    mean, span = percent_interval(claim.worse.mean, claim.worse.low, claim.worse.high)
    passes = percent_words(claim.margin) if claim.accepted is None else f"the {percent_words(claim.accepted)} accepted"
    told = f"{title} {mean.lstrip('+-')} {'better' if mean.startswith('-') else 'worse'} ({span})"
    told += f", more than {passes} worse in {claim.beyond} of {claim.n} pairs"
    if claim.better and claim.accepted is None:
        told += f", as much better in {claim.better}"
    if claim.standing in ("scattered", "open") and claim.scatter:
        told += f"; pairs scatter by {percent_words(claim.scatter)}"
    return f"{told}{f'; {claim.note}' if claim.note else ''}"


def percent_words(fraction: float) -> str:
    """`2 %`, `48.2 %`."""
    return f"{fraction * 100:.3g} %"


def sizes_words(claims: Sequence[Claim]) -> str:
    """The figures of a row that has nothing to report: `rate +0.01 %, memory -0.3 %`, worse above 0."""
    sizes = [f"{figure_title(each.figure)} {percent(each.worse.mean)}" for each in claims if each.worse]
    return ", ".join(sizes)


# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seen:
    """A cell before it ran, as far as figures ask."""

    cell: Cell
    clock: Clock
    samples: Sequence[Sample] = ()

    @property
    def paced(self) -> bool:
        return self.cell.transfer.limit is not None or self.cell.link_direction.rate is not None

    @property
    def limit_byte_s(self) -> int | None:
        return self.cell.transfer.limit_byte_s


def _own(cell: Cell) -> Figure | None:
    """The figure that the row asks about, where none of the usual ones answers."""
    kind = cell.expectation.kind
    if kind == "none" or kind in _SAME_AS:
        return None
    figure = cell.expectation.figure
    return None if figure.scale == "count" else figure


def _ratio(worse: float | None, better: float | None) -> float | None:
    if worse is None or better is None or not (worse > 0 and better > 0) or not math.isfinite(worse / better):
        return None
    return math.log(worse / better)


def _slower(ours: Sample, theirs: Sample) -> float | None:
    same_clock = (ours.body_clock or "client") == (theirs.body_clock or "client")
    if ours.body_byte_s is None or theirs.body_byte_s is None or not same_clock:
        return _ratio(theirs.total_byte_s, ours.total_byte_s)
    return _ratio(theirs.body_byte_s, ours.body_byte_s)


def _further(ours: Sample, theirs: Sample) -> float | None:
    """From the limit, whichever side."""
    if ours.deviation is None or theirs.deviation is None or min(ours.deviation, theirs.deviation) <= -1:
        return None
    return abs(math.log1p(ours.deviation)) - abs(math.log1p(theirs.deviation))


def _longer(least_s: float) -> Callable[[Sample, Sample], float | None]:
    """A transfer that is done sooner than its limit allows counts as done at that time."""
    return lambda ours, theirs: _ratio(max(ours.wall_s, least_s), max(theirs.wall_s, least_s))


def _more(name: str) -> Callable[[Sample, Sample], float | None]:
    figure = FIGURES[name]

    def harm(ours: Sample, theirs: Sample) -> float | None:
        sides = (figure.of(ours), figure.of(theirs))
        return _ratio(*reversed(sides)) if figure.more_is_better else _ratio(*sides)

    return harm


def _slower_at_the_end(ours: Sample, theirs: Sample) -> float | None:
    sides = [FIGURES["slowdown"].of(sample) for sample in (ours, theirs)]
    if any(side is None or side <= -1 for side in sides):
        return None
    mine, other = (math.log1p(side) for side in sides if side is not None)
    return mine - other


def _wall_floor(theirs: Sample) -> float:
    return _FLOORS["wall"] / theirs.wall_s if theirs.wall_s > 0 else 0.0


def _memory_floor(theirs: Sample) -> float:
    return _FLOORS["memory"] / theirs.max_rss_bytes if theirs.max_rss_bytes else 0.0


def _burst_floor(limit_byte_s: float) -> Callable[[Sample], float]:
    share = _FLOORS["burst"] / (limit_byte_s * _BURST_WINDOW_S)
    return lambda theirs: share / theirs.burst_ratio if theirs.burst_ratio else 0.0


def _compared(
    measure: Measure, pairs: Sequence[tuple[Sample, Sample]], plan: LookPlan, gate: Gate, accepted: float | None
) -> Claim:
    had = [(pair, harm) for pair in pairs if (harm := measure.harm(*pair)) is not None]
    allowed = math.log1p(accepted or 0.0)
    passes = [math.log1p(max(measure.margin, measure.floor(theirs))) for (_, theirs), _ in had]
    decision = decide_harms([harm - allowed for _, harm in had], passes, plan, gate)
    used, standing, note = decision.used, decision.standing, ""
    seen, edge = [harm for _, harm in had[:used]], _middle(passes[:used])
    interval = mean_interval(seen, plan.confidence) if len(seen) >= 2 else None
    if interval is not None and standing in ("fine", "scattered") and accepted is not None:
        standing = "accepted"
        note = "no longer worse" if interval.high <= edge else "better than accepted" if interval.high < allowed - edge else ""
    elif standing == "fine" and mean_interval(seen, 1 - 2 * gate.level).high < -edge:
        standing = "better"
    ours, theirs = (_mean([measure.value(pair[side]) for pair, _ in had[:used]]) for side in (0, 1))
    return Claim(
        figure=measure.figure,
        margin=measure.margin,
        accepted=accepted,
        n=used,
        beyond=decision.beyond,
        better=decision.better,
        scatter=math.expm1(stdev(seen)) if len(seen) >= 2 else None,
        candidate=ours,
        baseline=theirs,
        worse=_fraction(interval) if interval else None,
        p=decision.p,
        standing=standing,
        note=note,
    )


@dataclass(frozen=True)
class HarmDecision:
    """A figure by the looks: pairs used, those beyond the margin either way, and p over the looks that may alarm."""

    used: int
    standing: Standing
    beyond: int
    better: int
    p: float | None


def decide_harms(harms: Sequence[float], passes: Sequence[float], plan: LookPlan, gate: Gate) -> HarmDecision:
    """Regression, fine, scattered or open, by the plan's looks at logarithms of how much worse each pair is, in the order taken.

    `passes` has the margin of each pair, a logarithm. The first look that decides gives the answer.
    """
    alarms, p = alarm_looks(plan), None
    taken = plan.until(len(harms))
    for look in taken:
        seen, edge = harms[:look], _middle(passes[:look])
        worse, better = beyond_margin(seen, passes)
        interval = mean_interval(seen, plan.confidence)
        if look in alarms:
            chance = len(alarms) * sign_p(worse, worse + better) if interval.low > edge else 1.0
            p = min(1.0 if p is None else p, chance)
            if p <= gate.level:
                return HarmDecision(look, "regression", worse, better, p)
        if interval.high <= edge:
            return HarmDecision(look, "fine", worse, better, p)
        lopsided = sign_p(worse, worse + better) <= plan.alpha_per_look
        if look in alarms and interval.high <= stdev(seen) and not lopsided:
            return HarmDecision(look, "scattered", worse, better, p)
    used = taken[-1] if taken else len(harms)
    return HarmDecision(used, "open", *beyond_margin(harms[:used], passes), p)


def beyond_margin(harms: Sequence[float], passes: Sequence[float]) -> tuple[int, int]:
    """Pairs whose candidate is worse by more than the margin, and those whose candidate is better by more."""
    pairs = list(zip(harms, passes, strict=False))
    worse = sum(harm > margin + ROUNDING for harm, margin in pairs)
    return worse, sum(harm < -margin - ROUNDING for harm, margin in pairs)


def _middle(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


@lru_cache(maxsize=4096)
def sign_p(beyond: int, n: int) -> float:
    """The chance that the candidate is the worse one in as many of n differing pairs, or in more, if either is equally likely."""
    return sum(math.comb(n, k) for k in range(beyond, n + 1)) / (1 << n)


def fault_claim(candidate: Sequence[str], baseline: Sequence[str], gate: Gate, accepted: Accepted | None = None) -> Claim:
    """The claim about wrong files after a fault. A problem per try, empty where the file was right; all tries are there."""
    problems = list(zip(candidate, baseline, strict=False))
    return _arrival(problems, gate, (accepted or {}).get(ARRIVES), alarms=1, may_alarm=True, final=True)


def _arrived(pairs: Sequence[tuple[Sample, Sample]], plan: LookPlan, gate: Gate, accepted: float | None) -> Claim:
    problems = [(_problem(ours), _problem(theirs)) for ours, theirs in pairs]
    alarms, n = alarm_looks(plan), len(pairs)
    claim = _arrival(problems, gate, accepted, alarms=len(alarms), may_alarm=n >= alarms[0], final=n >= plan.cap)
    early = n < plan.looks[0] and claim.standing != "regression"
    return claim.model_copy(update={"standing": "open"}) if early else claim


def _problem(sample: Sample) -> str:
    return "" if sample.ok else sample.problem or f"exit code {sample.exit_code}"


def _arrival(
    problems: Sequence[tuple[str, str]], gate: Gate, accepted: float | None, *, alarms: int, may_alarm: bool, final: bool
) -> Claim:
    """One failure that the baseline does not have is enough, once it has had as many transfers as the plan allows to fail too."""
    n = len(problems)
    failed, before = (sum(bool(pair[side]) for pair in problems) for side in (0, 1))
    only_ours = sum(bool(ours) and not theirs for ours, theirs in problems)
    differing = only_ours + sum(bool(theirs) and not ours for ours, theirs in problems)
    p = min(1.0, alarms * sign_p(only_ours, differing)) if may_alarm else None
    note = next((ours for ours, _ in problems if ours), "")
    standing: Standing = "open"
    if accepted is not None and (failed <= accepted * n or _binomial_p(failed, n, accepted) > gate.level):
        standing, note = "accepted", note if failed else "no longer fails"
    elif not failed:
        standing = "better" if before else "fine"
    elif p is not None and p <= gate.level:
        standing = "regression"
    elif before and (only_ours * 2 <= differing or final):
        standing = "known"
    elif final:
        standing = "regression"
    return Claim(
        figure=ARRIVES,
        margin=0.0,
        accepted=accepted,
        n=n,
        beyond=only_ours,
        candidate=float(failed),
        baseline=float(before),
        p=p if failed and before else None,
        standing=standing,
        note=note,
    )


def _binomial_p(failed: int, n: int, share: float) -> float:
    return math.fsum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(failed, n + 1))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return geometric_mean(known) if min(known) > 0 else math.fsum(known) / len(known)


def _fraction(interval: Interval) -> Interval:
    return interval.model_copy(update={key: math.expm1(getattr(interval, key)) for key in ("mean", "low", "high")})


def has_figures(cell: CellResult, measures: Sequence[Measure]) -> bool:
    """False where a rate is asked and no complete transfer has a rate, which is a fault of the lab."""
    arrived = [sample for sample in cell.samples if sample.ok]
    asked = any(measure.figure == "rate" for measure in measures)
    return not (asked and arrived) or any(sample.body_byte_s or sample.total_byte_s for sample in arrived)
