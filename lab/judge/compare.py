"""Do two cells agree? The ratio of their mean rates (B over A) against a tolerance; pure.

"Within 1 %" has to be shown, as every tolerance here: PASS when the whole interval of the ratio lies inside the band, FAIL when
outside, INCONCLUSIVE otherwise. Means are geometric (log rates). The interval is Welch's (1947, Biometrika 34, 28): the two runs
may be differently noisy, and nothing is pooled. It takes the samples as independent, which two runs one after the other have to
be content with: a drift of the machine between them is in the ratio. Cells that one run interleaved have pairs, and what befell
both of a pair cancels: Student's interval of the mean log ratio of the pairs.

Two runs of one cell have to be equal. By a key (`lab.judge.matching`) the question is another one, is B slower: of a transfer
without a limit being faster is PASS; with one, to be faster is as wrong as to be slower. A ratio over an unshaped link is the
machine's, and between two runs is not judged; between two clients, versions, systems or backends it is what was asked for.
Two clocks are compared as two runs are: they have to come to the same.

A FAIL by its ratio is one claim of as many as there are cells: `correct_for_many` keeps it by Holm only (1979, Scand. J.
Statist. 6, 65). A PASS is each cell's own claim.

Its confidence is the judge's at one look. There is one look here, but each run chose by such looks when to stop, and a run that
stops because its samples lie close together tells less spread than there is. Error rates by simulation:
tests/unit/judge/test_compare.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from lab.judge.caveats import SIZE, about, bimodal_caveat, drift_caveat, outlier_caveat, predict_samples
from lab.judge.cost import cost_of, cost_ratio, score_of
from lab.judge.family import holm
from lab.judge.matching import ByKey, value_of
from lab.judge.ratio import ALPHA, LogRatio, Tolerance, is_rate, judge_ratio, paired_ratio, welch_ratio
from lab.judge.regression import pair_rates
from lab.judge.sweep import Arm, Clock, byte_rates, common_clock
from lab.result.comparison import CellComparison, CellSide, Difference, StudyComparison, StudySide
from lab.result.meaning import rate_is_real
from lab.result.models import CellResult, Interval, IntervalMethod, Verdict, VerdictName
from lab.result.study import StudyResult

_MACHINE = ("kernel", "cpu_model", "cores")
_GUEST = "guest "
UNRECORDED = "not recorded"


def compare_cells(
    a: CellResult, b: CellResult, within: float, *, by: ByKey | None = None, subject: str = "", interleaved: bool = False
) -> CellComparison:
    """Two cells: of one id, or the same but for `by` and then called `subject`. `interleaved`: their i-th transfers are pairs.

    INVALID on either side, or cells that were asked two different things, is INVALID. Without `by` a PASS against a FAIL is FAIL,
    and so is a ratio outside the band; what is INCONCLUSIVE on a side is no better here; over an unshaped link the ratio is not
    judged. With it only B's own FAIL counts, then the ratio. Raises ValueError for cells of different ids without `by`, and for a
    `within` (a fraction) outside (0, 1).
    """
    if by is None and a.id != b.id:
        raise ValueError(f"not the same cell: {a.id} and {b.id}")
    # Two clocks have to come to the same, as two runs have; the other keys ask whether B is slower.
    asked_for = None if by == "clock" else by
    tolerance = Tolerance(within, one_sided=asked_for is not None and a.transfer.limit is None)
    low, _ = tolerance.edges
    clock, rates = _rates(a, b, interleaved=interleaved)
    ratio = None
    if min(map(len, rates)) >= 2:
        ratio = paired_ratio(*rates) if interleaved else welch_ratio(*rates)
    interval = ratio.interval() if ratio else None
    name, reason = _judge_cell(a, b, interval, tolerance, asked_for)
    judged = a.topology.link.shaped or asked_for is not None
    method: IntervalMethod = "pairs" if interleaved else "welch"
    return CellComparison(
        id=subject or a.id,
        shaped=a.topology.link.shaped,
        clock=clock,
        a=_side(a, rates[0], by),
        b=_side(b, rates[1], by),
        cost=cost_ratio(a, b),
        p_outside=ratio.p_outside(tolerance) if ratio and judged else None,
        verdict=Verdict(
            name=name,
            reason=reason,
            interval=interval,
            method=method if interval else None,
            band_low=math.exp(low),
            band_high=tolerance.highest,
            alpha_per_look=ALPHA if interval else None,
            warnings=_caveats(rates, ratio, tolerance) if judged else [],
        ),
    )


def correct_for_many(cells: Sequence[CellComparison]) -> list[CellComparison]:
    """The cells with only those FAILs by a ratio that Holm's procedure keeps, over all ratios judged; the rest INCONCLUSIVE."""
    judged = [cell for cell in cells if cell.p_outside is not None]
    adjusted = holm([cell.p_outside for cell in judged if cell.p_outside is not None])
    chance = {id(cell) for cell, p in zip(judged, adjusted, strict=True) if p > ALPHA}
    return [_softened(cell, len(judged)) if id(cell) in chance and _is_by_ratio(cell) else cell for cell in cells]


def _is_by_ratio(cell: CellComparison) -> bool:
    verdict = cell.verdict
    return verdict.name == "FAIL" and verdict.reason.startswith(_BY_RATIO)


def _softened(cell: CellComparison, count: int) -> CellComparison:
    reason = f"{cell.verdict.reason}; one of {count} ratios: not outside once they are corrected for (Holm)"
    return cell.model_copy(update={"verdict": cell.verdict.model_copy(update={"name": "INCONCLUSIVE", "reason": reason})})


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
    # In real time there is no guest to differ in.
    return [row for row in rows if row.a != row.b and not (row.what.startswith(_GUEST) and [UNRECORDED] in (row.a, row.b))]


def _rates(a: CellResult, b: CellResult, *, interleaved: bool) -> tuple[Clock | None, Sequence[list[float]]]:
    """The clock that every whole transfer of both sides has, and each side's bytes per second by it."""
    if not (rate_is_real(a) and rate_is_real(b)):
        return None, [[], []]
    if interleaved:
        pairs = pair_rates(a.samples, b.samples)
        count = min(len(pairs.candidate), len(pairs.baseline))
        return pairs.clock, [pairs.candidate[:count], pairs.baseline[:count]]
    clock = common_clock([sample for cell in (a, b) for sample in cell.samples if sample.ok])
    rates = byte_rates([Arm("A", a.samples), Arm("B", b.samples)], clock) if clock else []
    # Nothing moved has no logarithm, e.g. a file of no bytes.
    return (clock, rates) if rates and all(is_rate(rate) for side in rates for rate in side) else (None, [[], []])


def _side(cell: CellResult, rates: Sequence[float], by: ByKey | None) -> CellSide:
    mean = math.exp(math.fsum(map(math.log, rates)) / len(rates)) if rates else None
    return CellSide(
        verdict=cell.verdict.name,
        n=len(rates),
        mean_byte_s=mean,
        cell=cell.id,
        value=value_of(cell, by) if by else "",
        lab_clock=cell.clock,
        cpu_s_per_gb=cost_of(cell),
        cpu_score_mbps=score_of(cell),
    )


_BY_RATIO = "B / A "


def _judge_cell(
    a: CellResult, b: CellResult, interval: Interval | None, tolerance: Tolerance, by: ByKey | None
) -> tuple[VerdictName, str]:
    asked: dict[str, tuple[object, object]] = {
        "topology": (_network(a), _network(b)),
        "transfer": (a.transfer, b.transfer),
        "expectation": (a.expectation, b.expectation),
    }
    found = _judge_verdicts(a.verdict, b.verdict, _differing({what: pair for what, pair in asked.items() if what != by}))
    if by is not None and found is not None and (found[0] == "INCONCLUSIVE" or (found[0] == "FAIL" and a.verdict.name == "FAIL")):
        found = None
    if found is not None and found[0] != "INCONCLUSIVE":
        return found
    if by is None and not a.topology.link.shaped:
        return found or ("PASS", f"both are {a.verdict.name}; the link is not shaped, so that the ratio is not judged")
    if interval is None:
        return found or ("INCONCLUSIVE", "a ratio needs n >= 2 whole transfers with a rate by one clock on each side")
    name = judge_ratio(interval, tolerance)
    if found is not None and name != "FAIL":
        return found
    return name, f"{_BY_RATIO}{_figures(interval)}, {_place(name, tolerance)}, n >= {interval.n}"


def _figures(interval: Interval) -> str:
    return f"{interval.mean:.4f}, {interval.confidence * 100:.4g} % interval {interval.low:.4f} to {interval.high:.4f}"


def _place(name: VerdictName, tolerance: Tolerance) -> str:
    if tolerance.one_sided:
        return {"PASS": "not", "FAIL": "more than", "INCONCLUSIVE": "may be"}[name] + f" {tolerance}"
    return {"PASS": "inside", "FAIL": "outside", "INCONCLUSIVE": "across an edge of"}[name] + f" {tolerance}"


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


def _caveats(rates: Sequence[Sequence[float]], ratio: LogRatio | None, tolerance: Tolerance) -> list[str]:
    found: list[str] = []
    logs = [[math.log(rate) for rate in side] for side in rates]
    if ratio is not None and judge_ratio(ratio.interval(), tolerance) == "INCONCLUSIVE":
        # The error of a mean of n is that of one value / sqrt(n), of a difference of means of n each likewise.
        needed = predict_samples(ratio.mean, ratio.error * math.sqrt(ratio.n), tolerance.edges, ALPHA)
        found.append(
            f"{SIZE}: with these spreads it needs {'about ' + str(needed) if needed else 'a great many'} samples on each side"
        )
    for name, side in zip("AB", logs, strict=True):
        if len(side) < 2:
            continue
        middle = math.fsum(side) / len(side)
        relative = [value - middle for value in side]
        kinds = (outlier_caveat, bimodal_caveat, drift_caveat)
        caveats = [caveat for kind in kinds if (caveat := kind(relative, tolerance.within))]
        found += [about(f"{name}, against its mean", caveat) for caveat in caveats]
    return found


def _circumstances(cells: Sequence[CellResult]) -> dict[str, list[str]]:
    """What could explain a difference, by name; every value that occurs, once."""
    clients = list(dict.fromkeys(cell.client.name for cell in cells))
    facts = list(dict.fromkeys(key for cell in cells for key in cell.backend_facts))
    return {
        "clock": _distinct(cell.clock for cell in cells),
        **{f"{_GUEST}{key}": _guest(cells, key) for key in ("kernel_sha256", "charge_ns", "charge_most_ns")},
        "backend": _distinct(cell.backend for cell in cells),
        **{f"backend {key}": _distinct(cell.backend_facts.get(key) for cell in cells) for key in facts},
        **{f"router {key}": _distinct(cell.router.get(key) for cell in cells) for key in ("kind", "kernel", "iproute2")},
        **{f"{name}: version": _distinct(cell.client.version for cell in cells if cell.client.name == name) for name in clients},
        **{f"{name}: sha256": _distinct(cell.client.sha256 for cell in cells if cell.client.name == name) for name in clients},
        "lab version": _distinct(cell.lab_version for cell in cells),
        "git revision": _distinct(_revision(cell) for cell in cells),
        **{f"machine {key}": _distinct(cell.before.machine.get(key) for cell in cells) for key in _MACHINE},
    }


def _guest(cells: Sequence[CellResult], key: str) -> list[str]:
    return _distinct(getattr(cell.virtual, key) if cell.virtual else None for cell in cells)


def _revision(cell: CellResult) -> str | None:
    revision = cell.before.machine.get("git_revision")
    changed = " with changes not committed" if cell.before.machine.get("git_dirty") else ""
    return f"{revision}{changed}" if revision else None


def _distinct(values: Iterable[object]) -> list[str]:
    return sorted({UNRECORDED if value is None else str(value) for value in values})
