"""Questions to the index: what a filter selects, what a time is, and what SQL may do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from lab.judge.tolerance import with_invalid
from lab.model.errors import UsageProblem
from lab.store.history.index import Index, open_index
from lab.store.history.query import Filter, ask_sql, list_cells, list_runs, parse_since
from lab.store.history.source import open_source
from lab.store.run_dir import RunDir
from tests.unit.history.conftest import CELL, run_cell
from tests.unit.store.conftest import AT, make_cell

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


# --- a filter -----------------------------------------------------------------------------------------------------------------


def test_a_filter_that_asks_for_nothing_selects_all() -> None:
    assert Filter().where() == ("", [])
    assert not Filter().asked


def test_a_client_stands_for_all_its_versions() -> None:
    assert Filter(client="curl").where() == ("WHERE (client = ? OR starts_with(client, ? || '@'))", ["curl", "curl"])
    assert Filter(client="curl").asked


def test_everything_that_is_asked_for_has_to_hold() -> None:
    since = datetime(2026, 1, 2, 3, 0, tzinfo=timezone(timedelta(hours=2)))
    found = Filter("curl", "dsl", "a--b", "PASS", since, "real").where()
    terms = "topology = ? AND cell = ? AND verdict = ? AND clock = ? AND started_at >= ?"
    assert found[0] == f"WHERE (client = ? OR starts_with(client, ? || '@')) AND {terms}"
    assert found[1] == ["curl", "curl", "dsl", "a--b", "PASS", "real", datetime(2026, 1, 2, 1, 0)]
    assert Filter(since=since).asked


# --- a time -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        (" 2w ", timedelta(weeks=2)),
        ("0d", timedelta()),
        ("700000d", timedelta(days=700_000)),
    ],
)
def test_a_span_is_counted_back_from_now(text: str, back: timedelta) -> None:
    assert parse_since(text, NOW) == NOW - back


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        (" 2026-01-02T03:04 ", datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
        ("2026-01-02T03:04+01:00", datetime(2026, 1, 2, 2, 4, tzinfo=UTC)),
    ],
)
def test_a_date_is_in_utc_where_it_names_no_zone(text: str, at: datetime) -> None:
    found = parse_since(text, NOW)
    assert found == at
    assert found.tzinfo is not None


@pytest.mark.parametrize("text", ["", "soon", "7x", "d", "7 d", "1234567d", "999999w", "800000d"])
def test_a_text_without_a_time_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_since(text, NOW)
    assert str(caught.value) == f"--since {text!r} is not a time (give 12h, 7d or 2w, or a date such as 2026-11-02)"


# --- lists --------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(results: Path) -> list[RunDir]:
    """Three, a day apart: of two cells, of another client, and without a cell so far."""
    made = [RunDir.create("x", results=results, now=AT + timedelta(days=day)) for day in range(3)]
    first = run_cell([1e6, 4e6], AT)
    spoilt = make_cell().model_copy(update={"started_at": AT + timedelta(seconds=1)})
    made[0].write_cell(first)
    made[0].write_cell(spoilt.model_copy(update={"verdict": with_invalid(spoilt.verdict, ["no link"])}))
    made[1].write_cell(run_cell([1e6] * 5, AT + timedelta(days=1), version="0.2.0"))
    return made


@pytest.fixture
def index(runs: list[RunDir]) -> Index:
    return open_index(open_source(None))


def test_runs_come_newest_first_and_one_without_cells_comes_last(index: Index, runs: list[RunDir]) -> None:
    rows = list_runs(index, Filter(), 10)
    assert [row["run"] for row in rows] == [runs[1].name, runs[0].name, runs[2].name]
    assert [row["cells"] for row in rows] == [1, 2, 0]
    assert [(row["PASS"], row["FAIL"], row["INCONCLUSIVE"], row["INVALID"]) for row in rows] == [
        (1, 0, 0, 0),
        (1, 0, 0, 1),
        (0, 0, 0, 0),
    ]
    assert rows[1]["clients"] == ["curl 7.88.1", "ferry 0.1.0"]
    assert (rows[1]["topologies"], rows[1]["clocks"], rows[1]["whole"]) == (["dsl-50"], ["real"], False)
    assert rows[1]["started_at"] == AT.replace(tzinfo=None)


def test_no_more_are_listed_than_asked_for(index: Index, runs: list[RunDir]) -> None:
    assert [row["run"] for row in list_runs(index, Filter(), 1)] == [runs[1].name]
    assert [row["run"] for row in list_cells(index, Filter(), 2)] == [runs[1].name, runs[0].name]


def test_a_filter_leaves_out_runs_without_such_cells(index: Index, runs: list[RunDir]) -> None:
    rows = list_runs(index, Filter(client="curl"), 10)
    assert [(row["run"], row["cells"], row["clients"]) for row in rows] == [(runs[0].name, 1, ["curl 7.88.1"])]
    assert [row["run"] for row in list_cells(index, Filter(since=AT + timedelta(days=1)), 10)] == [runs[1].name]
    assert [row["verdict"] for row in list_cells(index, Filter(verdict="INVALID"), 10)] == ["INVALID"]
    assert list_cells(index, Filter(client="fer"), 10) == [], "a name, not the start of one"


def test_a_cell_has_the_means_of_its_transfers(index: Index, runs: list[RunDir]) -> None:
    _, other, first = list_cells(index, Filter(), 10)
    assert (first["run"], first["cell"], first["started_at"]) == (runs[0].name, CELL, AT.replace(tzinfo=None))
    assert other["cell"] != CELL, "the later comes first"
    assert first["mean_byte_s"] == pytest.approx(2e6), "geometric"
    assert (first["n"], first["max_rss_bytes"]) == (2, 12_000_000)
    assert first["cpu_s_per_gb"] == pytest.approx(0.03 / 5.24288e-3)


# --- SQL ----------------------------------------------------------------------------------------------------------------------


def test_a_statement_gives_names_and_rows(index: Index, runs: list[RunDir]) -> None:
    names, rows = ask_sql(index, "SELECT run AS who, n FROM cells ORDER BY run, n")
    assert (names, rows) == (["who", "n"], [(runs[0].name, 2), (runs[0].name, 5), (runs[1].name, 5)])


def test_runs_and_an_explanation_may_be_asked_for(index: Index) -> None:
    assert ask_sql(index, "SELECT count(*) FROM runs;")[1] == [(3,)]


def test_a_statement_may_be_explained(index: Index) -> None:
    assert ask_sql(index, "EXPLAIN SELECT run FROM cells")[1]


@pytest.mark.parametrize("statement", ["", "SELECT 1; SELECT 2", "DROP VIEW cells", "SET threads = 1", "DELETE FROM kept_cells"])
def test_only_one_statement_that_reads_is_taken(index: Index, statement: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        ask_sql(index, statement)
    assert str(caught.value) == "--sql takes one statement that only reads (e.g. --sql 'DESCRIBE cells')"


@pytest.mark.parametrize("statement", ["SELECT * FROM '/etc/passwd'", "SELECT * FROM read_text('/etc/passwd')"])
def test_no_file_is_read(index: Index, statement: str) -> None:
    with pytest.raises(UsageProblem, match="--sql: "):
        ask_sql(index, statement)


def test_an_error_is_reported_without_the_statement(index: Index) -> None:
    with pytest.raises(UsageProblem) as caught:
        ask_sql(index, "SELECT cel\nFROM cells")
    said = str(caught.value)
    assert said.startswith('--sql: Binder Error: Referenced column "cel" not found')
    assert 'Candidate bindings: "cell"' in said
    assert "LINE" not in said
    assert "\n" not in said
    assert said.endswith("(lab history --sql 'DESCRIBE cells' shows the columns)")


def test_an_error_about_the_first_line_does_not_repeat_it(index: Index) -> None:
    with pytest.raises(UsageProblem) as caught:
        ask_sql(index, "SELEC 1")
    assert caught.value.message == '--sql: Parser Error: syntax error at or near "SELEC"'


def test_a_long_error_is_cut(index: Index) -> None:
    with pytest.raises(UsageProblem) as caught:
        ask_sql(index, f"SELECT {'x' * 400} FROM cells")
    assert len(caught.value.message) == len("--sql: ") + 300
