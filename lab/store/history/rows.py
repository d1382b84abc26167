"""One cell as one row of the index; the one definition of its columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

from lab.judge.cost import score_of
from lab.judge.matching import os_of, short_version
from lab.model.cell_name import format_transfer
from lab.model.figures import FIGURES, Figure
from lab.model.results import CellResult, VerdictName
from lab.store.stored_run import StoredRun

Row = dict[str, Any]
Column = tuple[str, str, Callable[[CellResult], object]]


def _machine(key: str) -> Callable[[CellResult], object]:
    return lambda cell: cell.before.machine.get(key)


def _interval(key: str) -> Callable[[CellResult], object]:
    return lambda cell: getattr(cell.verdict.interval, key) if cell.verdict.interval else None


def _figure(figure: Figure) -> Column:
    """The values of every successful sample, in the unit that `lab trend` prints as the figure's unit."""
    return (figure.name, "DOUBLE[]", figure.values)


def _revision(cell: CellResult) -> object:
    revision = cell.before.machine.get("git_revision")
    return f"{revision}{'+changes' if cell.before.machine.get('git_dirty') else ''}" if revision else None


COLUMNS: tuple[Column, ...] = (
    ("started_at", "TIMESTAMP", lambda cell: _utc(cell.started_at)),
    ("cell", "VARCHAR", lambda cell: cell.id),
    ("client", "VARCHAR", lambda cell: cell.client.name),
    ("version", "VARCHAR", short_version),
    ("version_text", "VARCHAR", lambda cell: cell.client.version),
    ("sha256", "VARCHAR", lambda cell: cell.client.sha256),
    ("topology", "VARCHAR", lambda cell: cell.topology.name),
    ("protocol", "VARCHAR", lambda cell: cell.transfer.protocol),
    ("direction", "VARCHAR", lambda cell: cell.transfer.direction),
    ("transfer", "VARCHAR", lambda cell: format_transfer(cell.transfer)),
    ("kind", "VARCHAR", lambda cell: cell.expectation.kind),
    ("limit_byte_s", "DOUBLE", lambda cell: cell.transfer.limit_byte_s),
    ("backend", "VARCHAR", lambda cell: cell.backend),
    ("clock", "VARCHAR", lambda cell: cell.clock),
    ("router", "VARCHAR", lambda cell: _text(cell.router.get("kind"))),
    ("os", "VARCHAR", os_of),
    ("kernel", "VARCHAR", lambda cell: _text(_machine("kernel")(cell))),
    ("cpu_model", "VARCHAR", lambda cell: _text(_machine("cpu_model")(cell))),
    ("cores", "INTEGER", _machine("cores")),
    ("cpu_score_mbps", "DOUBLE", score_of),
    ("lab_version", "VARCHAR", lambda cell: cell.lab_version),
    ("git_revision", "VARCHAR", _revision),
    ("schema_version", "VARCHAR", lambda cell: cell.schema_version),
    ("verdict", "VARCHAR", lambda cell: cell.verdict.name),
    ("reason", "VARCHAR", lambda cell: cell.verdict.reason),
    ("n", "INTEGER", lambda cell: sum(sample.ok for sample in cell.samples)),
    ("mean", "DOUBLE", _interval("mean")),
    ("low", "DOUBLE", _interval("low")),
    ("high", "DOUBLE", _interval("high")),
    *map(_figure, FIGURES.values()),
    ("set_aside", "INTEGER", lambda cell: len(cell.set_aside)),
    ("host_problems", "VARCHAR[]", lambda cell: cell.host.problems if cell.host else []),
)
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
RUN_COLUMNS: tuple[tuple[str, str], ...] = (
    ("run", "VARCHAR"),
    ("signature", "VARCHAR"),
    ("whole", "BOOLEAN"),
    *((f"counted_{name.lower()}", "INTEGER") for name in VERDICTS),
    ("doubtful", "BOOLEAN"),
    ("ended", "VARCHAR"),
    ("command", "VARCHAR[]"),
    ("problems", "VARCHAR[]"),
)
"""The columns of a run's own row, which has no cell. It also has `started_at`. The verdicts that count are in its cells' rows
too, because a filter may leave those alone.
"""
TYPES: dict[str, str] = {**dict(RUN_COLUMNS), **{name: kind for name, kind, _ in COLUMNS}}
CELL_NAMES: tuple[str, ...] = ("run", *(name for name, _, _ in COLUMNS))


def cell_row(run: str, cell: CellResult, *, whole: bool) -> Row:
    """The cell's columns. `run` is the name of the folder, which a user may have renamed."""
    return {"run": run, "whole": whole, **{name: figure(cell) for name, _, figure in COLUMNS}}


def run_rows(run: str, signature: str, found: StoredRun) -> list[Row]:
    """The row of the run, then a row for each of its cells."""
    counted = {f"counted_{name.lower()}": found.counted[name] for name in VERDICTS} | {"doubtful": bool(found.doubt)}
    own = {
        "run": run,
        "signature": signature,
        "whole": found.whole,
        "ended": found.record.ended if found.record else None,
        "command": found.record.command if found.record else [],
        "problems": found.problems,
        "started_at": _utc(found.cells[0].started_at) if found.cells else None,
    }
    return [{**own, **counted}, *({**cell_row(run, cell, whole=found.whole), **counted} for cell in found.cells)]


def _utc(at: datetime) -> str:
    """The time as a TIMESTAMP, in UTC: DuckDB needs pytz to return a time with a zone."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat()


def _text(value: object) -> str | None:
    return None if value is None else str(value)
