"""Do two cells agree? The ratio of their mean rates (B over A) against a tolerance; pure.

"Within 1 %" has to be shown, as every tolerance: PASS when the interval of the ratio lies inside the band, FAIL when it lies
outside, INCONCLUSIVE otherwise. Means are geometric (log rates). The interval is Welch's (1947, Biometrika 34, 28): the noise of
the two runs may differ, and nothing is pooled. It assumes independent samples. For two runs one after the other this is only
approximate: a drift of the machine between them is in the ratio. Cells that one run interleaved have pairs. Effects on both
samples of a pair cancel: Student's interval of the mean log ratio of the pairs.

Two runs of one cell have to be equal. With a key (`lab.judge.matching`) the question is whether B is slower: a faster B is PASS
for a transfer without a limit. With a limit, faster is as wrong as slower. A ratio over an unshaped link depends on the
machine, so it is not judged between two runs. It is judged between two clients, versions, systems or backends, because that is
the question. Two clocks are compared like two runs: their results have to be equal.

Among many cells some ratios FAIL by chance: `correct_for_many` keeps a FAIL only if Holm's correction does (1979, Scand. J.
Statist. 6, 65). A PASS is not corrected, because it is a claim about one cell.

Its confidence is the judge's at one look. There is one look here, but each run chose by such looks when to stop, and a run that
stops because its samples lie close together tells less spread than there is. Error rates by simulation:
tests/unit/judge/test_compare.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab import __version__
from lab.judge import sweep
from lab.judge.caveats import SIZE, about, bimodal_caveat, drift_caveat, outlier_caveat, predict_samples
from lab.judge.cost import cost_ratio, hashed_mb_per_gb, score_of
from lab.judge.family import holm
from lab.judge.matching import ByKey, value_of
from lab.judge.ratio import ALPHA, LogRatio, Tolerance, is_rate, judge_ratio, paired_ratio, welch_ratio
from lab.judge.regression import pair_rates
from lab.judge.sweep import byte_rates, common_clock
from lab.model.answer import Answer, Arm, RateClock
from lab.model.comparison import Difference
from lab.model.figures import COST, RATE
from lab.model.numbers import geometric_mean
from lab.model.results import Cause, CellResult, Interval, IntervalMethod, Verdict, VerdictName
from lab.model.units import Ratio
from lab.model.userland import HOSTS

_MACHINE = ("kernel", "cpu_model", "cores")
_GUEST = "guest "
_PARTS = ("client's libraries", "client's folder", "server", "tc", "Python", "Python of scripts", "seed")
"""Python counted until 29 November 2026."""
UNRECORDED = "not recorded"


def compare_cells(
    a: CellResult, b: CellResult, within: float, *, by: ByKey | None = None, subject: str = "", interleaved: bool = False
) -> Answer:
    """Compare two cells with the same id, or cells that differ only in `by`; the answer's id is then `subject`.

    `interleaved`: the i-th transfers of both are a pair. The answer is INVALID if either side is, or if the cells have different
    expectations. Without `by`, PASS against FAIL is FAIL, a ratio outside the band is FAIL, INCONCLUSIVE on either side stays
    INCONCLUSIVE, and over an unshaped link the ratio is not judged. With `by` only B's own FAIL counts, then the ratio.

    Raises ValueError for cells of different ids without `by`, and for a `within` (a fraction) outside (0, 1).
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
    name, reason, cause = _judge_cell(a, b, interval, tolerance, asked_for)
    judged = a.topology.link.shaped or asked_for is not None
    method: IntervalMethod = "pairs" if interleaved else "welch"
    return _equal(
        subject or a.id,
        a,
        b,
        clocks=list(dict.fromkeys((a.clock, b.clock))),
        arms=[_arm("A", a, rates[0], by), _arm("B", b, rates[1], by)],
        rate_clock=clock,
        bound=Ratio(within),
        ratio=interval,
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
            cause=cause,
        ),
        not_judged="" if judged else "the link is not shaped",
    )


def correct_for_many(rows: Sequence[Answer]) -> list[Answer]:
    """The rows with only those FAILs by a ratio that Holm's procedure keeps, over all ratios judged; the rest INCONCLUSIVE."""
    judged = [row for row in rows if row.p_outside is not None]
    adjusted = holm([row.p_outside for row in judged if row.p_outside is not None])
    chance = {id(row) for row, p in zip(judged, adjusted, strict=True) if p > ALPHA}
    return [_softened(row, len(judged)) if id(row) in chance else row for row in rows]


def _softened(row: Answer, count: int) -> Answer:
    """INCONCLUSIVE in place of a FAIL by the ratio; a FAIL for another cause stands."""
    verdict = row.verdict
    if verdict is None or verdict.name != "FAIL" or verdict.cause != "figure":
        return row
    reason = f"{verdict.reason}; one of {count} ratios: not outside once they are corrected for (Holm)"
    return row.model_copy(update={"verdict": verdict.model_copy(update={"name": "INCONCLUSIVE", "reason": reason})})


def compare_sweeps(a: Answer, b: Answer) -> Answer:
    """One sweep over buffer sizes of two runs: only the verdicts are compared. Raises ValueError for different ids.

    The ratio of the slowest to the fastest setting is not comparable: it picks extremes (see the docstring of `lab.judge.sweep`).
    """
    if a.id != b.id:
        raise ValueError(f"not the same sweep: {a.id} and {b.id}")

    asked: dict[str, tuple[object, object]] = {
        "topology": (_network(a), _network(b)),
        "transfer": (a.transfer, b.transfer),
        "floor": (a.bound, b.bound),
        "settings": (_settings(a), _settings(b)),
    }
    found = _judge_verdicts(a.judged, b.judged, _differing(asked))
    name, reason = found or ("PASS", f"both are {a.judged.name}")
    arms = [Arm(name=side, verdict=each.name, interval=each.interval) for side, each in (("A", a.judged), ("B", b.judged))]
    clocks = list(dict.fromkeys((*a.clocks, *b.clocks)))
    return _equal(a.id, a, b, clocks=clocks, arms=arms, verdict=Verdict(name=name, reason=reason, cause="verdicts"))


def _equal(subject: str, a: CellResult | Answer, b: CellResult | Answer, **found: Any) -> Answer:
    """The answer to whether two results are equal, with what both have in common."""

    def common(name: str) -> Any:
        ours, theirs = (vars(each)[name] for each in (a, b))
        return ours if ours == theirs else None

    return Answer(
        id=subject,
        question="equal",
        run=b.run,
        lab_version=__version__,
        backend=common("backend") or "",
        client=common("client"),
        topology=common("topology"),
        transfer=common("transfer"),
        expectation=common("expectation"),
        started_at=min(a.started_at, b.started_at),
        ended_at=max(a.ended_at, b.ended_at),
        **found,
    )


def differences(a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Difference]:
    """The circumstances in which the cells of two runs differ; those that both runs share are left out."""
    sides = [_circumstances(cells) for cells in (a, b)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    rows = [Difference(what=name, a=sides[0].get(name, [UNRECORDED]), b=sides[1].get(name, [UNRECORDED])) for name in names]
    # In real time there is no guest to differ in.
    return [row for row in rows if row.a != row.b and not (row.what.startswith(_GUEST) and [UNRECORDED] in (row.a, row.b))]


def _rates(a: CellResult, b: CellResult, *, interleaved: bool) -> tuple[RateClock | None, Sequence[list[float]]]:
    """The clock that every complete transfer of both sides has, and each side's bytes per second by it."""
    if not (RATE.applies(a) and RATE.applies(b)):
        return None, [[], []]
    if interleaved:
        pairs = pair_rates(a.samples, b.samples)
        count = min(len(pairs.candidate), len(pairs.baseline))
        return pairs.clock, [pairs.candidate[:count], pairs.baseline[:count]]
    clock = common_clock([sample for cell in (a, b) for sample in cell.samples if sample.ok])
    rates = byte_rates([sweep.Arm("A", a.samples), sweep.Arm("B", b.samples)], clock) if clock else []
    # Nothing moved has no logarithm, e.g. a file of no bytes.
    return (clock, rates) if rates and all(is_rate(rate) for side in rates for rate in side) else (None, [[], []])


def _arm(name: str, cell: CellResult, rates: Sequence[float], by: ByKey | None) -> Arm:
    seconds, score = COST.summarise(cell), score_of(cell)
    work = hashed_mb_per_gb(seconds, score) if seconds is not None and score is not None else None
    figures = {"cpu_s_per_GB": seconds, "cpu_score_MBps": score, "hashed_MB_per_GB": work}
    return Arm(
        name=name,
        value=value_of(cell, by) if by else "",
        cell=cell.id,
        verdict=cell.verdict.name,
        byte_s=list(rates),
        mean_byte_s=geometric_mean(rates),
        figures={key: value for key, value in figures.items() if value is not None},
    )


def _judge_cell(
    a: CellResult, b: CellResult, interval: Interval | None, tolerance: Tolerance, by: ByKey | None
) -> tuple[VerdictName, str, Cause]:
    asked: dict[str, tuple[object, object]] = {
        "topology": (_network(a), _network(b)),
        "transfer": (a.transfer, b.transfer),
        "expectation": (a.expectation, b.expectation),
    }
    found = _judge_verdicts(a.verdict, b.verdict, _differing({what: pair for what, pair in asked.items() if what != by}))
    if by is not None and found is not None and (found[0] == "INCONCLUSIVE" or (found[0] == "FAIL" and a.verdict.name == "FAIL")):
        found = None
    if found is not None and found[0] != "INCONCLUSIVE":
        return *found, "verdicts"
    if by is None and not a.topology.link.shaped:
        found = found or ("PASS", f"both are {a.verdict.name}; the link is not shaped, so that the ratio is not judged")
        return *found, "verdicts"
    if interval is None:
        found = found or ("INCONCLUSIVE", "a ratio needs n >= 2 complete transfers with a rate by one clock on each side")
        return *found, "verdicts"
    name = judge_ratio(interval, tolerance)
    if found is not None and name != "FAIL":
        return *found, "verdicts"
    return name, f"B / A {_figures(interval)}, {_place(name, tolerance)}, n >= {interval.n}", "figure"


def _figures(interval: Interval) -> str:
    return f"{interval.mean:.4f}, {interval.confidence * 100:.4g} % interval {interval.low:.4f} to {interval.high:.4f}"


def _place(name: VerdictName, tolerance: Tolerance) -> str:
    if tolerance.one_sided:
        return {"PASS": "not", "FAIL": "more than", "INCONCLUSIVE": "may be"}[name] + f" {tolerance}"
    return {"PASS": "inside", "FAIL": "outside", "INCONCLUSIVE": "across an edge of"}[name] + f" {tolerance}"


def _judge_verdicts(a: Verdict, b: Verdict, differ: Sequence[str]) -> tuple[VerdictName, str] | None:
    """The verdict that follows from the two verdicts alone; None where both are decided and equal."""
    if differ:
        return "INVALID", f"the two are not comparable: {', '.join(differ)} differ{'s' if len(differ) == 1 else ''}"
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


def _network(result: CellResult | Answer) -> tuple[object, ...]:
    """Without the words that describe it."""
    if result.topology is None:
        return ()
    return result.topology.link, result.topology.congestion_control


def _settings(study: Answer) -> list[str]:
    return sorted(arm.name for arm in study.arms)


def _caveats(rates: Sequence[Sequence[float]], ratio: LogRatio | None, tolerance: Tolerance) -> list[str]:
    found: list[str] = []
    logs = [[math.log(rate) for rate in side] for side in rates]
    if ratio is not None and judge_ratio(ratio.interval(), tolerance) == "INCONCLUSIVE":
        # Both the error of a mean of n values and that of a difference of two such means shrink with sqrt(n).
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
    """The circumstances that could explain a difference, by name; every value that occurs, once."""
    clients = list(dict.fromkeys(cell.client.name for cell in cells))
    facts = list(dict.fromkeys(key for cell in cells for key in cell.backend_facts))
    return {
        "clock": _distinct(cell.clock for cell in cells),
        **{f"{_GUEST}{key}": _guest(cells, key) for key in ("kernel_sha256", "charge_ns", "charge_most_ns")},
        **{
            f"{_GUEST}{part}": _distinct((cell.virtual.counts if cell.virtual else {}).get(part) for cell in cells)
            for part in _PARTS
        },
        **{f"userland of the {host}": _userland(cells, host) for host in HOSTS},
        "backend": _distinct(cell.backend for cell in cells),
        **{f"backend {key}": _distinct(cell.backend_facts.get(key) for cell in cells) for key in facts},
        **{f"router {key}": _distinct(cell.router.get(key) for cell in cells) for key in ("kind", "kernel", "iproute2")},
        **{f"{name}: version": _distinct(cell.client.version for cell in cells if cell.client.name == name) for name in clients},
        **{f"{name}: sha256": _distinct(cell.client.sha256 for cell in cells if cell.client.name == name) for name in clients},
        "variables of --env": _distinct(
            " ".join(f"{name}={value}" for name, value in sorted(cell.client.variables.items())) or "none" for cell in cells
        ),
        "lab version": _distinct(cell.lab_version for cell in cells),
        "git revision": _distinct(_revision(cell) for cell in cells),
        **{f"machine {key}": _distinct(cell.before.machine.get(key) for cell in cells) for key in _MACHINE},
    }


def _userland(cells: Sequence[CellResult], host: str) -> list[str]:
    return _distinct(cell.userlands[host].words if host in cell.userlands else "the machine itself" for cell in cells)


def _guest(cells: Sequence[CellResult], key: str) -> list[str]:
    return _distinct(getattr(cell.virtual, key) if cell.virtual else None for cell in cells)


def _revision(cell: CellResult) -> str | None:
    revision = cell.before.machine.get("git_revision")
    changed = " with changes not committed" if cell.before.machine.get("git_dirty") else ""
    return f"{revision}{changed}" if revision else None


def _distinct(values: Iterable[object]) -> list[str]:
    return sorted({UNRECORDED if value is None else str(value) for value in values})
