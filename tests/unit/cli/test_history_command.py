"""`lab history`, `lab trend` and `lab export` as a person types them: what is shown, exit codes, one line for bad input."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lab.cli import history as command
from lab.model.errors import UsageProblem
from lab.store.history.query import parse_since
from tests.unit.history.conftest import CELL, write_history
from tests.unit.store.conftest import AT, make_cell

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))


def lab(*words: str | Path) -> Result:
    app = typer.Typer()
    command.register(app)
    return CliRunner().invoke(app, [str(word) for word in words])


def refusal(*words: str | Path) -> str:
    done = lab(*words)
    assert isinstance(done.exception, UsageProblem), (done.exception, done.output)
    text = str(done.exception)
    assert len(text.splitlines()) == 1
    return text


def test_history_lists_runs_the_newest_first(results: Path) -> None:
    runs = write_history(results, runs=3, step_at=2)
    found = json.loads(lab("history", "--json").stdout)["runs"]
    assert [row["run"] for row in found] == [run.name for run in reversed(runs)]
    assert found[0]["clients"] == ["ferry 0.1.1"]
    assert found[2]["started_at"] == AT.isoformat()
    assert sum(found[0][name] for name in ("PASS", "FAIL", "INCONCLUSIVE", "INVALID")) == found[0]["cells"] == 1
    text = lab("history", "--limit", "1").stdout
    assert runs[2].name in text
    assert runs[1].name not in text


def test_filters(results: Path) -> None:
    runs = write_history(results, runs=3, step_at=None)
    runs[1].write_cell(make_cell(problem="cut off"))
    failed = json.loads(lab("history", "--verdict", "FAIL", "--json").stdout)["cells"]
    assert [(row["run"], row["client"]) for row in failed] == [(runs[1].name, "curl")]
    by_run = json.loads(lab("history", "--verdict", "FAIL", "--runs", "--json").stdout)["runs"]
    assert [(row["run"], row["FAIL"], row["cells"]) for row in by_run] == [(runs[1].name, 1, 1)]
    since = json.loads(lab("history", "--client", "ferry", "--since", "2026-01-03T03:00", "--json").stdout)["runs"]
    assert [row["run"] for row in since] == [runs[2].name, runs[1].name]
    assert len(json.loads(lab("history", "--cell", CELL, "--json").stdout)["cells"]) == 3
    assert lab("history", "--topology", "nosuch").stdout.endswith("no such run\n")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("12h", NOW - timedelta(hours=12)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(days=14)),
        ("2026-11-02", datetime(2026, 11, 2, tzinfo=UTC)),
        ("2026-11-02T10:00+02:00", datetime(2026, 11, 2, 8, tzinfo=UTC)),
    ],
)
def test_since(text: str, meant: datetime) -> None:
    assert parse_since(text, NOW) == meant


@pytest.mark.parametrize("text", ["nonsense", "", "7", "-7d", "999999w", "2026-13-01", "7 days"])
def test_an_impossible_since_is_one_line(results: Path, text: str) -> None:
    write_history(results, runs=1, step_at=None)
    assert "is not a time" in refusal("history", "--since", text)


def test_sql(results: Path) -> None:
    write_history(results, runs=4, step_at=2)
    found = json.loads(lab("history", "--json", "--sql", "SELECT version, count(*) AS n FROM cells GROUP BY 1 ORDER BY 1").stdout)
    assert found == [{"version": "0.1.0", "n": 2}, {"version": "0.1.1", "n": 2}]
    assert "byte_s" in lab("history", "--sql", "DESCRIBE cells").stdout
    assert len(json.loads(lab("history", "--json", "--sql", "FROM runs").stdout)) == 4


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT nosuch FROM cells", "nosuch"),
        ("SELECT * FROM nosuch", "nosuch"),
        ("SELECT FROM WHERE", "syntax error"),
        ("", "one statement"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("DROP TABLE kept_cells", "one statement"),
        ("COPY cells TO '/tmp/roughwater-copy.csv'", "one statement"),
        ("ATTACH '/tmp/roughwater-other.db'", "one statement"),
        ("SET enable_external_access = true", "one statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM '/etc/passwd'", "passwd"),
        ("SELECT content FROM read_text('/etc/passwd')", "disabled"),
        ("SELECT * FROM glob('/*')", "disabled"),
        ("SELECT getenv('HOME')", "getenv"),
    ],
)
def test_invalid_sql_is_one_line(results: Path, statement: str, said: str) -> None:
    write_history(results, runs=1, step_at=None)
    text = refusal("history", "--sql", statement)
    assert said in text
    assert "root:" not in text


def test_trend_names_the_step_and_exits_with_1(results: Path) -> None:
    runs = write_history(results)
    done = lab("trend", CELL)
    assert done.exit_code == 1
    assert f"between {runs[14].name} and {runs[15].name} (2026-01-17): version 0.1.0 -> 0.1.1" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 series, 1 steps of 1 % or more, 1 for the worse"
    assert json.loads(lab("trend", CELL, "--json").stdout)["trends"][0]["steps"][0]["index"] == 15
    assert lab("trend", CELL, "--least", "10%").exit_code == 0


def test_an_impossible_request_is_one_line(results: Path) -> None:
    assert "not a folder of results" in refusal("history")
    write_history(results, runs=1, step_at=None)
    assert "no such cell" in refusal("trend", "nosuch")
    assert "not a step" in refusal("trend", CELL, "--least", "0%")
    assert "excludes the filters" in refusal("history", "--sql", "FROM cells", "--client", "curl")
    assert "is not the folder of a run" in refusal("export", "otava", "nosuch")
    for words in (
        ("trend", "--figure", "x"),
        ("history", "--verdict", "x"),
        ("export", "x", "latest"),
        ("history", "--limit", "0"),
    ):
        assert lab(*words).exit_code == 2


def test_a_truncated_cell_is_one_line_on_stderr_and_the_rest_is_shown(results: Path) -> None:
    runs = write_history(results, runs=2, step_at=None)
    path = runs[0].cell_path(CELL)
    path.write_text(path.read_text()[:400])
    done = lab("history")
    assert done.exit_code == 0
    assert runs[1].name in done.stdout
    assert runs[0].name in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "cut off" in line]
    assert line.startswith(f"lab: {path}")


def test_export_writes_a_complete_file(results: Path, tmp_path: Path) -> None:
    runs = write_history(results, runs=2, step_at=None)
    target = tmp_path / "out.csv"
    assert lab("export", "otava", "latest", runs[0].name, "--output", target).exit_code == 0
    assert target.read_text() == lab("export", "otava", "latest", runs[0].name).stdout
    assert target.read_text().startswith("time,run,commit")
    assert lab("export", "otava", "latest", "--output", tmp_path / "no" / "x.csv").exit_code != 0
    assert [path.name for path in tmp_path.glob(".out*")] == []
