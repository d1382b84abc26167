"""Runs, cells, answers and trends as text. Style and units as in `reports.text`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.clock import clock_words
from lab.model.figures import FIGURES, RATE
from lab.model.trend import Trend, TrendReport, TrendStep
from lab.store.history.query import Rows
from reports.answer_text import verdict_word
from reports.answers import NOTHING

_VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")


def render_runs(rows: Rows, console: Console) -> None:
    """The newest first."""
    table = _table("run", "started (UTC)", *_VERDICTS, "clients", "topologies", "time")
    for row in rows:
        state = "" if row["whole"] else " (goes on, or cut off)"
        state += " (end not recorded)" if row["doubtful"] else ""
        counts = (Text(str(row[name]) if row[name] else NOTHING, justify="right") for name in _VERDICTS)
        words = (Text(", ".join(map(str, row[name] or [NOTHING]))) for name in ("clients", "topologies", "clocks"))
        table.add_row(Text(row["run"] + state), _time(row["started_at"]), *counts, *words)
    console.print(table)


def render_cells(rows: Rows, console: Console) -> None:
    """The newest first."""
    table = _table("run", "started (UTC)", "cell", "version", "time", "verdict", "n", "MB/s")
    for row in rows:
        speed = NOTHING if row["mean_byte_s"] is None else RATE.number(row["mean_byte_s"])
        start = (Text(row["run"]), _time(row["started_at"]), Text(row["cell"]), Text(row["version"]), Text(row["clock"]))
        table.add_row(*start, verdict_word(row["verdict"]), str(row["n"]), speed)
    console.print(table)


def render_answer(names: Sequence[str], rows: Sequence[Sequence[Any]], console: Console) -> None:
    """Print the rows of an SQL query."""
    table = _table(*names)
    for row in rows:
        table.add_row(*(Text(NOTHING if value is None else str(value)) for value in row))
    console.print(table)


def render_trends(report: TrendReport, console: Console) -> None:
    """A line per series with what a reader should know of it, then its steps; the counts."""
    for trend in report.trends:
        first, last = trend.points[0], trend.points[-1]
        figure = FIGURES[trend.figure]
        noise = "" if trend.noise is None else f", from run to run {figure.noise(trend.noise)}"
        runs = f"{len(trend.points)} run{'' if len(trend.points) == 1 else 's'}"
        span = f"{runs}, {_time(first.at)} to {_time(last.at)}{noise}"
        notes = "".join(f"; {note}" for note in trend.notes)
        told = f", {clock_words(trend.clock)}: {trend.figure} {figure.text(last.mean)}; {span}{notes}"
        console.print(Text.assemble((trend.cell, "bold"), told), soft_wrap=True)
        for step in trend.steps:
            console.print(Text(f"  {step_words(step, trend)}"), soft_wrap=True)
    for note in report.notes:
        console.print(Text(f"note: {note}"), soft_wrap=True)
    steps = [step for trend in report.trends for step in trend.steps]
    worse = sum(step.better is False for step in steps)
    least = f"{report.least * 100:g} %"
    series = len(report.trends)
    console.print(
        f"{series} series, {len(steps)} steps of {least} or more, {worse} for the worse", highlight=False, soft_wrap=True
    )


def step_words(step: TrendStep, trend: Trend) -> str:
    """ "-5.1 % (-5.6 to -4.6 %) between RUN17 and RUN18 (2026-11-02): version 0.1.0 -> 0.1.1"."""
    said = FIGURES[trend.figure].change
    change = f"{said(step.change)} ({said(step.low)} to {said(step.high)})"
    told = ", ".join(f"{row.what} {_brief(row.a)} -> {_brief(row.b)}" for row in step.changed)
    changed = told or "nothing that is recorded changed there"
    way = {True: "better", False: "worse", None: "changed"}[step.better]
    return f"{way}: {change} between {step.before_run} and {step.after_run} ({step.at:%Y-%m-%d}): {changed}"


def json_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Times as ISO 8601, all else as JSON has it, or as text."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).isoformat()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _brief(values: Sequence[str]) -> str:
    """Hashes by their first twelve letters."""
    return "/".join(value[:12] if len(value) >= 40 and " " not in value else value for value in values)


def _time(at: datetime | None) -> str:
    return NOTHING if at is None else f"{at:%Y-%m-%d %H:%M}"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    return table
