"""The index: a Parquet file with a row per cell and one per run, made from the plain files and as disposable as a cache.

Only runs whose signature changed (`source`) are read again. The file is written under a temporary name and renamed, so it is
complete at any moment. Rows that a second process overwrote at the same time are read again at the next call.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lab.model.errors import LabFault, UsageProblem
from lab.model.files import replacing, write_faults
from lab.store.history.rows import CELL_NAMES, TYPES, Row, run_rows
from lab.store.history.source import Source

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORM = 1
"""Part of the file's name: an index of another form is not read, but replaced."""
_BATCH = 1000
"""Runs whose rows are written at once."""
_ATTEMPTS = 3
"""Another process may have renamed its index over ours between two of our batches: then the missing runs are read again."""


@dataclass(frozen=True)
class Index:
    """An index that is up to date, open in DuckDB as the views `cells` and `runs`."""

    source: str
    path: Path
    connection: DuckDBPyConnection
    read_again: int
    problems: list[str] = field(default_factory=list)


def open_index(source: Source, *, reread: bool = False, notify: Callable[[str], None] | None = None) -> Index:
    """Bring the index of `source` up to date and open it. `reread`: read every run; `notify` is called before a long first
    reading.

    Raises UsageProblem where the source cannot be read, LabFault where no index can be written.
    """
    folder = source.index_folder()
    path = folder / f"cells-{FORM}-{_form_digest()}.parquet"
    wanted = source.signatures()
    connection = _connect()
    read_again = 0
    for _ in range(_ATTEMPTS):
        there = _signatures(connection, path)
        known = {} if reread and not read_again else there
        stale = [run for run, signature in wanted.items() if known.get(run) != signature]
        gone = [run for run in there if run not in wanted]
        # The views need the file even when there are no runs.
        if not stale and not gone and path.is_file():
            break
        read_again += len(stale)
        if notify and len(stale) > _BATCH:
            notify(f"reading {len(stale)} runs of {source.name} for the index")
        # Runs already read stay read if a first indexing of thousands of runs is interrupted.
        for start in range(0, max(len(stale), 1), _BATCH):
            part = {run: wanted[run] for run in stale[start : start + _BATCH]}
            _write(connection, path, source, stale=part, gone=gone, old=bool(_signatures(connection, path)))
    with _explained(path):
        literal = _quoted(path)
        connection.execute(f"CREATE VIEW everything AS SELECT * FROM read_parquet({literal})")
        connection.execute(f"CREATE VIEW cells AS SELECT {', '.join(CELL_NAMES)} FROM everything WHERE cell IS NOT NULL")
        connection.execute(
            "CREATE VIEW runs AS SELECT run, started_at, whole, ended, command, problems FROM everything WHERE cell IS NULL"
        )
        rows = connection.execute("SELECT unnest(problems) FROM runs WHERE len(problems) > 0 ORDER BY run").fetchall()
    return Index(source.name, path, connection, read_again, [row[0] for row in rows])


def _write(
    connection: DuckDBPyConnection, path: Path, source: Source, *, stale: dict[str, str], gone: Sequence[str], old: bool
) -> None:
    names = ", ".join(TYPES)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE fresh ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
    with write_faults(path, "the index", remedy="free space"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{path.stem}.", dir=path.parent) as folder:
            lines = Path(folder) / "rows.json"
            with lines.open("x") as file:
                for run, signature in stale.items():
                    file.writelines(f"{json.dumps(row)}\n" for row in _read(source, run, signature))
            columns = ", ".join(f"{name}: '{kind}'" for name, kind in TYPES.items())
            connection.execute(
                f"INSERT INTO fresh SELECT {names} FROM read_json({_quoted(lines)}, format='newline_delimited', "
                f"columns={{{columns}}}, maximum_object_size=67108864)"
            )
        kept = "SELECT * FROM fresh"
        if old:
            # By a join, not by a list in the statement: it may be five thousand names.
            connection.execute("CREATE OR REPLACE TEMP TABLE dropped (run VARCHAR)")
            if dropped := [*stale, *gone]:
                connection.execute("INSERT INTO dropped SELECT unnest(?::VARCHAR[])", [dropped])
            kept = f"SELECT {names} FROM read_parquet({_quoted(path)}) ANTI JOIN dropped USING (run) UNION ALL {kept}"
        with replacing(path) as temporary:
            connection.execute(
                f"COPY (SELECT * FROM ({kept}) ORDER BY cell NULLS FIRST, started_at, run) TO {_quoted(temporary)} "
                "(FORMAT parquet, COMPRESSION zstd)"
            )
    connection.execute("DROP TABLE fresh")


def _read(source: Source, run: str, signature: str) -> list[Row]:
    try:
        return run_rows(run, signature, source.read(run))
    except UsageProblem as problem:
        # The run disappeared meanwhile. Its row keeps it from being read at every call.
        return [{"run": run, "signature": signature, "whole": False, "command": [], "problems": [str(problem)]}]


def _connect() -> DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def _signatures(connection: DuckDBPyConnection, path: Path) -> dict[str, str]:
    """The signature of every run in the index; empty if the index is missing or unreadable, which has it written again."""
    import duckdb

    if not path.is_file():
        return {}
    try:
        found = connection.execute(f"SELECT run, signature FROM read_parquet({_quoted(path)}) WHERE cell IS NULL").fetchall()
    except duckdb.Error:
        return {}
    return dict(found)


def _form_digest() -> str:
    """Changes with the columns, so that an index of another version of the lab is not used."""
    import hashlib

    return hashlib.sha256(repr(sorted(TYPES.items())).encode()).hexdigest()[:8]


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        words = " ".join(str(error).split())[:200]
        raise LabFault(f"{path}: the index cannot be read: {words}", remedy="delete it; nothing is lost") from error


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
