"""`lab search` against clients with a planted threshold, in virtual time. `python -m tests.virtual.planted` draws twenty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli.main import app, register
from lab.store.run_dir import RunDir
from lab.store.validate import validate
from tests.virtual.planted import planted_limit, planted_rtt

register(["search"])


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["search", *words])


def test_a_planted_limit_is_found_and_the_run_can_be_read(tmp_path: Path) -> None:
    truth = 612_345
    done = invoke("limit", *planted_limit(tmp_path, truth), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["facts"]["kind"] == "found"
    assert len(found["arms"]) <= 15
    passed = max(arm["figures"]["limit_byte_s"] for arm in found["arms"] if arm["verdict"] == "PASS")
    failed = min(arm["figures"]["limit_byte_s"] for arm in found["arms"] if arm["verdict"] == "FAIL")
    assert passed <= truth < failed <= passed * 1.02
    run = RunDir.find("latest")
    assert not validate([run.path]).problems
    assert {cell.clock for cell in run.read_cells()} == {"virtual"}
    page = Path(found["page"]).read_text(encoding="utf-8")
    assert 'aria-label="deviation from the limit by limit' in page


def test_a_planted_round_trip_is_found(tmp_path: Path) -> None:
    truth_ms = 61.8
    done = invoke("rtt", *planted_rtt(tmp_path, truth_ms), "--from", "56ms", "--to", "70ms", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    passed = max(arm["figures"]["rtt_s"] for arm in found["arms"] if arm["verdict"] == "PASS")
    assert 0.98 <= passed * 1e3 / truth_ms <= 1.0
    assert len(found["arms"]) <= 15


@pytest.mark.parametrize(
    "words",
    [
        ("rtt", "curl"),
        ("rtt", "curl", "--rate", "20mbit", "--from", "0"),
        ("rtt", "curl", "--rate", "20mbit", "--width", "0%"),
        ("rtt", "curl", "--topology", "link-local"),
        ("limit", "curl", "--topology", "dsl-20", "--to", "100MB/s"),
        ("limit", "curl", "--topology", "dsl-20", "--transfer", "gopher"),
        ("loss", "curl", "--rate", "20mbit", "--within", "0"),
    ],
)
def test_a_search_that_makes_no_sense_is_a_usage_problem(words: tuple[str, ...]) -> None:
    done = invoke(*words)
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
