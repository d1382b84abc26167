"""Trends: one value per run for each cell and clock, the steps of that series, and the circumstances that changed there.

Reads the index; judges with `lab.store.history.steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import cache
from itertools import groupby
from typing import Any

import lab
from lab.judge.interval import student_quantile
from lab.model.comparison import Difference
from lab.model.errors import EXIT_FAIL, EXIT_PASS, UsageProblem
from lab.model.figures import FIGURES, RATE, Figure
from lab.model.trend import Trend, TrendPoint, TrendReport, TrendStep
from lab.store.history.index import Index
from lab.store.history.query import Filter
from lab.store.history.steps import MIN_RUNS, Step, find_steps, levels, noise

LAST = 1000
"""The newest runs of one cell that are searched; the time of the search grows with the square of their number."""
_CONFIDENCE = 0.95
_CIRCUMSTANCES = {
    "client": "client",
    "version": "version",
    "sha256": "sha256",
    "backend": "backend",
    "router": "router",
    "os": "os",
    "kernel": "kernel",
    "cpu_model": "CPU model",
    "cores": "cores",
    "lab_version": "lab version",
    "git_revision": "lab revision",
}


_SERIES = """
WITH asked AS (
  SELECT *, row_number() OVER (PARTITION BY cell, clock ORDER BY started_at DESC, run DESC) AS age, {values} AS each
  FROM (SELECT * FROM cells WHERE run NOT IN (SELECT run FROM runs WHERE ended <> 'complete')) {where}
)
SELECT cell, clock, run, started_at, verdict, limit_byte_s, len(each) AS n, list_avg(each) AS mean,
  list_aggregate(each, 'stddev_samp') AS spread, {circumstances}
FROM asked WHERE age <= {last} ORDER BY cell, clock, started_at, run
"""


def make_report(index: Index, meant: Filter, name: str, *, least: float, last: int = LAST) -> TrendReport:
    """The trends of the figure `name` in every such cell. Raises UsageProblem where no cell has one."""
    figure = FIGURES[name]
    rows = _rows(index, meant, figure, last)
    if not rows:
        raise UsageProblem(f"{index.source}: no such cell", remedy="lab history --cells lists what there is")
    trends = [_trend(list(group), figure, least, last) for _, group in groupby(rows, key=lambda row: (row["cell"], row["clock"]))]
    found = [trend for trend in trends if trend.points]
    if not found:
        raise UsageProblem(f"{index.source}: no such cell has a {figure.name}", remedy=f"--figure {' or '.join(FIGURES)}")
    regressed = any(trend.steps and trend.steps[-1].better is False for trend in found)
    left = len(trends) - len(found)
    return TrendReport(
        lab_version=lab.__version__,
        source=index.source,
        least=least,
        trends=found,
        problems=index.problems,
        notes=[f"{left} cells have no {figure.name}"] if left else [],
        exit_code=EXIT_FAIL if regressed else EXIT_PASS,
    )


def _rows(index: Index, meant: Filter, figure: Figure, last: int) -> list[dict[str, Any]]:
    values = f"list_filter({figure.name}, lambda x: isfinite(x){' AND x > 0' if figure.scale == 'ratio' else ''})"
    if figure.scale == "ratio":
        values = f"list_transform({values}, lambda x: ln(x))"
    where, parameters = meant.where()
    statement = _SERIES.format(values=values, where=where, circumstances=", ".join(_CIRCUMSTANCES), last=int(last))
    done = index.connection.execute(statement, parameters)
    names = [each[0] for each in done.description or []]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


def _trend(rows: Sequence[dict[str, Any]], figure: Figure, least: float, last: int) -> Trend:
    used = [row for row in rows if row["n"] and row["verdict"] != "INVALID"]
    values = [float(row["mean"]) for row in used]
    steps = find_steps(values, math.log1p(least) if figure.scale == "ratio" else least)
    spread = noise(values) if len(values) > 2 else None
    return Trend(
        cell=rows[0]["cell"],
        clock=rows[0]["clock"],
        figure=figure.name,
        unit=figure.unit.base,
        points=[_point(row, figure) for row in used],
        steps=list(_told(steps, used, values, figure)),
        noise=spread,
        notes=list(_notes(rows, used, last)),
    )


def _notes(rows: Sequence[dict[str, Any]], used: Sequence[dict[str, Any]], last: int) -> Iterator[str]:
    invalid = sum(row["verdict"] == "INVALID" for row in rows)
    if invalid:
        yield f"{invalid} of {len(rows)} runs are INVALID and left out"
    if silent := len(rows) - invalid - len(used):
        yield f"{silent} of {len(rows)} runs have no transfer with this figure"
    if len(used) < 2 * MIN_RUNS:
        yield f"{len(used)} run{'' if len(used) == 1 else 's'}: a step needs {2 * MIN_RUNS}, {MIN_RUNS} on each side"
    if len(rows) == last:
        yield f"the newest {last} runs; --last gives more"


def _point(row: Mapping[str, Any], figure: Figure) -> TrendPoint:
    mean, n, spread = float(row["mean"]), int(row["n"]), row["spread"]
    half = _quantile(n - 1) * float(spread) / math.sqrt(n) if n > 1 and spread is not None else None
    scale: Callable[[float], float] = math.exp if figure.scale == "ratio" else float
    return TrendPoint(
        run=row["run"],
        at=row["started_at"].replace(tzinfo=UTC),
        n=n,
        mean=scale(mean),
        low=None if half is None else scale(mean - half),
        high=None if half is None else scale(mean + half),
        verdict=row["verdict"],
    )


@cache
def _quantile(degrees: int) -> float:
    return student_quantile((1 + _CONFIDENCE) / 2, degrees)


def _told(steps: Sequence[Step], rows: Sequence[dict[str, Any]], values: Sequence[float], figure: Figure) -> Iterator[TrendStep]:
    heights = levels(values, steps) if steps else []
    scale: Callable[[float], float] = math.expm1 if figure.scale == "ratio" else float
    for place, step in enumerate(steps):
        before, after = rows[step.index - 1], rows[step.index]
        yield TrendStep(
            index=step.index,
            before_run=before["run"],
            after_run=after["run"],
            at=after["started_at"].replace(tzinfo=UTC),
            change=scale(step.change),
            low=scale(step.low),
            high=scale(step.high),
            confidence=step.confidence,
            better=_better(heights[place], heights[place + 1], after["limit_byte_s"], figure),
            changed=_changed(before, after),
        )


def _better(before: float, after: float, limit: float | None, figure: Figure) -> bool:
    """Faster or cheaper; nearer to the limit for the rate of a limited transfer and for a deviation."""
    if figure is RATE and limit:
        return figure.is_better(before, after, target=math.log(limit))
    return figure.is_better(before, after)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    told = [(words, before[name], after[name]) for name, words in _CIRCUMSTANCES.items() if before[name] != after[name]]
    return [Difference(what=words, a=[_word(one)], b=[_word(other)]) for words, one, other in told]


def _word(value: object) -> str:
    return "not recorded" if value is None else str(value)
