"""Do two runs of the same cells agree? Cell by cell, the ratio of the mean rates (B over A) against a band; pure.

"Within 1 %" has to be shown, as every tolerance here: PASS when the whole interval of the ratio lies inside the band, FAIL when
outside, INCONCLUSIVE otherwise. Means are geometric (log rates). The interval is Welch's (1947, Biometrika 34, 28): the two runs
may be differently noisy, and nothing is pooled. It takes the samples as independent, which pairs of an interleaved study need not
be, but two runs one after the other have nothing that would cancel: a drift of the machine between them is in the ratio.

Its confidence is the judge's at one look. There is one look here, but each run chose by such looks when to stop, and a run that
stops because its samples lie close together tells less spread than there is. Error rates by simulation:
tests/unit/judge/test_compare.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import variance

from lab.judge.caveats import drift_caveat, outlier_caveat, predict_samples
from lab.judge.interval import student_quantile
from lab.judge.sweep import Arm, Clock, byte_rates, common_clock
from lab.judge.tolerance import Band, LookPlan
from lab.result.comparison import CellComparison, CellSide, Difference, StudyComparison, StudySide
from lab.result.models import CellResult, Interval, Verdict, VerdictName
from lab.result.study import StudyResult

ALPHA = LookPlan().alpha_per_look
"""One-sided, at each edge of the band."""
_ROUNDING = 1e-12
"""On log ratios: a ratio exactly on an edge of the band must not miss it by the last bit of a logarithm."""
_MACHINE = ("kernel", "cpu_model", "cores")
UNRECORDED = "not recorded"


def welch_interval(a: Sequence[float], b: Sequence[float], alpha: float = ALPHA) -> Interval:
    """The ratio of the geometric means, `b` over `a`, with its two-sided interval of confidence 1 - 2 `alpha`.

    n is that of the smaller side. Welch's on the logarithms, degrees of freedom by Welch and Satterthwaite. Raises ValueError for
    fewer than two values on a side and for a value that is not finite and above zero.
    """
    logs = [[math.log(rate) for rate in _checked(side)] for side in (a, b)]
    ratio = math.fsum(logs[1]) / len(b) - math.fsum(logs[0]) / len(a)
    # Of each mean; equal values have none, whatever the rounding of their sum.
    spread_a, spread_b = (0.0 if min(side) == max(side) else variance(side) / len(side) for side in logs)
    half = 0.0
    if spread_a + spread_b > 0:
        share = spread_a / (spread_a + spread_b)
        degrees = 1 / (share**2 / (len(a) - 1) + (1 - share) ** 2 / (len(b) - 1))
        half = student_quantile(1 - alpha, degrees) * math.sqrt(spread_a + spread_b)
    low, mean, high = (math.exp(value) for value in (ratio - half, ratio, ratio + half))
    return Interval(n=min(len(a), len(b)), mean=mean, low=low, high=high, confidence=1 - 2 * alpha)


def judge_ratio(interval: Interval, band: Band) -> VerdictName:
    """Where the interval of a ratio lies: inside the band, outside it, or across an edge."""
    low, high = band.edges
    seen_low, seen_high = math.log(interval.low), math.log(interval.high)
    if low - _ROUNDING <= seen_low and seen_high <= high + _ROUNDING:
        return "PASS"
    return "FAIL" if seen_high < low - _ROUNDING or seen_low > high + _ROUNDING else "INCONCLUSIVE"


def compare_cells(a: CellResult, b: CellResult, within: float) -> CellComparison:
    """One cell of two runs. Raises ValueError for cells of different ids and for a `within` (a fraction) outside (0, 1).

    INVALID on either side, or a cell that was asked two different things, is INVALID; a PASS against a FAIL is FAIL, and so is a
    ratio outside the band; what is INCONCLUSIVE on a side is no better here. Over an unshaped link the ratio is not judged.
    """
    if a.id != b.id:
        raise ValueError(f"not the same cell: {a.id} and {b.id}")
    band = Band.within(within)
    clock, (rates_a, rates_b) = _rates(a, b)
    interval = welch_interval(rates_a, rates_b) if min(len(rates_a), len(rates_b)) >= 2 else None
    name, reason = _judge_cell(a, b, interval, band)
    return CellComparison(
        id=a.id,
        shaped=a.topology.link.shaped,
        clock=clock,
        a=_side(a, rates_a),
        b=_side(b, rates_b),
        verdict=Verdict(
            name=name,
            reason=reason,
            interval=interval,
            band_low=1 - within,
            band_high=1 + within,
            alpha_per_look=ALPHA if interval else None,
            warnings=_caveats((rates_a, rates_b), interval, band) if a.topology.link.shaped else [],
        ),
    )


def compare_studies(a: StudyResult, b: StudyResult) -> StudyComparison:
    """One study of two runs: only the verdicts are compared. Raises ValueError for different ids.

    The ratio of the slowest to the fastest setting is no estimate to compare by: it picks extremes (head of `lab.judge.sweep`).
    """
    if a.id != b.id:
        raise ValueError(f"not the same study: {a.id} and {b.id}")
    asked: dict[str, tuple[object, object]] = {
        "topology": (_network(a), _network(b)),
        "transfer": (a.transfer, b.transfer),
        "floor": (a.floor, b.floor),
        "settings": (_settings(a), _settings(b)),
    }
    found = _judge_verdicts(a.verdict, b.verdict, _differing(asked))
    name, reason = found or ("PASS", f"both are {a.verdict.name}")
    sides = [StudySide(verdict=study.verdict.name, ratio=study.verdict.interval) for study in (a, b)]
    return StudyComparison(id=a.id, a=sides[0], b=sides[1], verdict=Verdict(name=name, reason=reason))


def differences(a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Difference]:
    """In which circumstances the cells of two runs differ; what both share is left out."""
    sides = [_circumstances(cells) for cells in (a, b)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    rows = [Difference(what=name, a=sides[0].get(name, [UNRECORDED]), b=sides[1].get(name, [UNRECORDED])) for name in names]
    return [row for row in rows if row.a != row.b]


def _checked(rates: Sequence[float]) -> Sequence[float]:
    if len(rates) < 2:
        raise ValueError(f"an interval needs at least two values, got {len(rates)}")
    if not all(_is_rate(rate) for rate in rates):
        raise ValueError(f"every rate must be finite and above zero, got {list(rates)}")
    return rates


def _is_rate(rate: float) -> bool:
    return math.isfinite(rate) and rate > 0


def _rates(a: CellResult, b: CellResult) -> tuple[Clock | None, Sequence[list[float]]]:
    """The clock that every whole transfer of both sides has, and each side's bytes per second by it."""
    clock = common_clock([sample for cell in (a, b) for sample in cell.samples if sample.ok])
    rates = byte_rates([Arm("A", a.samples), Arm("B", b.samples)], clock) if clock else []
    # Nothing moved has no logarithm, e.g. a file of no bytes.
    return (clock, rates) if rates and all(_is_rate(rate) for side in rates for rate in side) else (None, [[], []])


def _side(cell: CellResult, rates: Sequence[float]) -> CellSide:
    mean = math.exp(math.fsum(map(math.log, rates)) / len(rates)) if rates else None
    return CellSide(verdict=cell.verdict.name, n=len(rates), mean_byte_s=mean)


def _judge_cell(a: CellResult, b: CellResult, interval: Interval | None, band: Band) -> tuple[VerdictName, str]:
    asked: dict[str, tuple[object, object]] = {
        "topology": (_network(a), _network(b)),
        "transfer": (a.transfer, b.transfer),
        "expectation": (a.expectation, b.expectation),
    }
    found = _judge_verdicts(a.verdict, b.verdict, _differing(asked))
    if found is not None and found[0] != "INCONCLUSIVE":
        return found
    if not a.topology.link.shaped:
        return found or ("PASS", f"both are {a.verdict.name}; the link is not shaped, so that the ratio is not judged")
    if interval is None:
        return found or ("INCONCLUSIVE", "a ratio needs n >= 2 whole transfers with a rate by one clock on each side")
    name = judge_ratio(interval, band)
    if found is not None and name != "FAIL":
        return found
    place = {"PASS": "inside", "FAIL": "outside", "INCONCLUSIVE": "across an edge of"}[name]
    figures = f"{interval.mean:.4f}, {interval.confidence * 100:.4g} % interval {interval.low:.4f} to {interval.high:.4f}"
    return name, f"B / A {figures}, {place} {band}, n >= {interval.n}"


def _judge_verdicts(a: Verdict, b: Verdict, differ: Sequence[str]) -> tuple[VerdictName, str] | None:
    """What the verdicts alone decide; None where both are decided and equal."""
    if differ:
        return "INVALID", f"the two were not asked the same: {', '.join(differ)} differ{'s' if len(differ) == 1 else ''}"
    for name in ("INVALID", "INCONCLUSIVE"):
        found = [f"{side} is {name}: {verdict.reason}" for side, verdict in (("A", a), ("B", b)) if verdict.name == name]
        if found:
            return name, "; ".join(found)
    if a.name != b.name:
        failed, verdict = ("A", a) if a.name == "FAIL" else ("B", b)
        return "FAIL", f"only {failed} is FAIL: {verdict.reason}"
    return None


def _differing(asked: Mapping[str, tuple[object, object]]) -> list[str]:
    return [what for what, (one, other) in asked.items() if one != other]


def _network(result: CellResult | StudyResult) -> tuple[object, ...]:
    """Without the words that describe it."""
    return result.topology.link, result.topology.congestion_control


def _settings(study: StudyResult) -> list[str]:
    return sorted(arm.setting for arm in study.arms)


def _caveats(rates: Sequence[Sequence[float]], interval: Interval | None, band: Band) -> list[str]:
    found: list[str] = []
    logs = [[math.log(rate) for rate in side] for side in rates]
    if interval is not None and judge_ratio(interval, band) == "INCONCLUSIVE":
        means = [math.fsum(side) / len(side) for side in logs]
        # The difference of two means of n each is as noisy as one mean of n values with both variances.
        needed = predict_samples(means[1] - means[0], math.sqrt(sum(map(variance, logs))), band.edges, ALPHA)
        found.append(f"with these spreads it needs {'about ' + str(needed) if needed else 'a great many'} samples on each side")
    for name, side in zip("AB", logs, strict=True):
        if len(side) < 2:
            continue
        middle = math.fsum(side) / len(side)
        relative = [value - middle for value in side]
        caveats = (outlier_caveat(relative, band.high), drift_caveat(relative, band.high))
        found += [f"{name}, against its mean: {caveat}" for caveat in caveats if caveat]
    return found


def _circumstances(cells: Sequence[CellResult]) -> dict[str, list[str]]:
    """What could explain a difference, by name; every value that occurs, once."""
    clients = list(dict.fromkeys(cell.client.name for cell in cells))
    facts = list(dict.fromkeys(key for cell in cells for key in cell.backend_facts))
    return {
        "backend": _distinct(cell.backend for cell in cells),
        **{f"backend {key}": _distinct(cell.backend_facts.get(key) for cell in cells) for key in facts},
        **{f"router {key}": _distinct(cell.router.get(key) for cell in cells) for key in ("kind", "kernel", "iproute2")},
        **{f"{name}: version": _distinct(cell.client.version for cell in cells if cell.client.name == name) for name in clients},
        **{f"{name}: sha256": _distinct(cell.client.sha256 for cell in cells if cell.client.name == name) for name in clients},
        "lab version": _distinct(cell.lab_version for cell in cells),
        "git revision": _distinct(_revision(cell) for cell in cells),
        **{f"machine {key}": _distinct(cell.before.machine.get(key) for cell in cells) for key in _MACHINE},
    }


def _revision(cell: CellResult) -> str | None:
    revision = cell.before.machine.get("git_revision")
    changed = " with changes not committed" if cell.before.machine.get("git_dirty") else ""
    return f"{revision}{changed}" if revision else None


def _distinct(values: Iterable[object]) -> list[str]:
    return sorted({UNRECORDED if value is None else str(value) for value in values})
