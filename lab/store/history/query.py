"""Queries of the index: lists of runs and cells, and any SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.model.clock import Clock
from lab.model.errors import UsageProblem
from lab.store.history.index import Index

_SPANS = {"h": "hours", "d": "days", "w": "weeks"}
_ASKED = ("client", "topology", "cell", "verdict", "clock")
_RUNS = """
SELECT run, min(started_at) AS started_at, any_value(whole) AS whole, any_value(doubtful) AS doubtful, count(cell) AS cells,
  any_value(counted_pass) AS "PASS", any_value(counted_fail) AS "FAIL",
  any_value(counted_inconclusive) AS "INCONCLUSIVE", any_value(counted_invalid) AS "INVALID",
  list_sort(list_distinct(list(client || ' ' || version))) AS clients,
  list_sort(list_distinct(list(topology))) AS topologies, list_sort(list_distinct(list(clock))) AS clocks,
  list_sort(list_distinct(list(git_revision))) AS revisions
FROM {source} GROUP BY run ORDER BY started_at DESC NULLS LAST, run DESC LIMIT {limit}
"""
_CELLS = """
SELECT run, started_at, cell, client, version, topology, backend, clock, os, verdict, reason, n, mean, low, high,
  exp(list_avg(list_transform(list_filter(rate, lambda x: x > 0), lambda x: ln(x)))) AS mean_byte_s,
  list_avg(cost) AS cpu_s_per_gb, list_max(memory) AS max_rss_bytes
FROM cells {where} ORDER BY started_at DESC, run DESC, cell LIMIT {limit}
"""
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Filter:
    """Selects cells; None selects all."""

    client: str | None = None
    topology: str | None = None
    cell: str | None = None
    verdict: str | None = None
    since: datetime | None = None
    clock: Clock | None = None

    def where(self) -> tuple[str, list[Any]]:
        """The clause and its parameters. A client stands for all its versions: curl selects curl@8.4.0 too."""
        named = [(key, value) for key in _ASKED if (value := getattr(self, key)) is not None]
        terms = ["(client = ? OR starts_with(client, ? || '@'))" if key == "client" else f"{key} = ?" for key, _ in named]
        values = [each for key, value in named for each in ([value] * (2 if key == "client" else 1))]
        if self.since is not None:
            terms, values = [*terms, "started_at >= ?"], [*values, self.since.astimezone(UTC).replace(tzinfo=None)]
        return (f"WHERE {' AND '.join(terms)}" if terms else ""), values

    @property
    def asked(self) -> bool:
        return bool(self.where()[0])


def parse_since(text: str, now: datetime) -> datetime:
    """ "7d", "12h" or "2w" before `now`, or a date or time of ISO 8601 (UTC where it names no zone). Raises UsageProblem."""
    try:
        if match := re.fullmatch(r"(\d{1,6})([hdw])", text.strip()):
            return now - timedelta(**{_SPANS[match[2]]: int(match[1])})
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise UsageProblem(f"--since {text!r} is not a time", remedy="give 12h, 7d or 2w, or a date such as 2026-11-02") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def list_runs(index: Index, meant: Filter, limit: int) -> Rows:
    """Runs that have such cells, the newest first: how many verdicts count, clients with versions, topologies, lab revisions.

    The numbers are those of the run, as on its page, whatever the filter selects.
    """
    where, values = meant.where()
    # A run without a cell yet is listed too, unless the filter asks for certain cells.
    source = f"(SELECT * FROM everything {where})"
    return _ask(index, _RUNS.format(source=source, limit=int(limit)), values)


def list_cells(index: Index, meant: Filter, limit: int) -> Rows:
    """Such cells, the newest first."""
    where, values = meant.where()
    return _ask(index, _CELLS.format(where=where, limit=int(limit)), values)


def ask_sql(index: Index, statement: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Names of columns and rows of one statement that reads `cells` and `runs`.

    It sees copies of the two in memory, and cannot open files, attach, install or set anything. Raises UsageProblem in one line
    for any error of DuckDB, for several statements, and for a statement that does not only read.
    """
    import duckdb

    connection = index.connection
    for name in ("cells", "runs"):
        connection.execute(f"CREATE TEMP TABLE kept_{name} AS SELECT * FROM {name}")
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM kept_{name}")
    connection.execute("DROP VIEW everything")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        statements = connection.extract_statements(statement)
        if len(statements) != 1 or statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            raise UsageProblem("--sql takes one statement that only reads", remedy="e.g. --sql 'DESCRIBE cells'")
        done = connection.execute(statements[0])
        return [str(each[0]) for each in done.description or []], list(done.fetchall())
    except duckdb.Error as error:
        # The first line says what; then come a picture of the statement and stack traces.
        words = " ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip() and not line.startswith("LINE"))
        raise UsageProblem(f"--sql: {words[:300]}", remedy="lab history --sql 'DESCRIBE cells' shows the columns") from None


def _ask(index: Index, statement: str, values: Sequence[Any]) -> Rows:
    done = index.connection.execute(statement, values)
    names = [each[0] for each in done.description or []]
    return [dict(zip(names, row, strict=True)) for row in done.fetchall()]
