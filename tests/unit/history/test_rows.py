"""A cell as a row: each column from its own place in the cell."""

from __future__ import annotations

from datetime import timedelta, timezone
from pathlib import Path

import pytest

from lab.model.figures import FIGURES
from lab.model.results import CellResult, HostQuality, SetAside
from lab.store.history.rows import CELL_NAMES, COLUMNS, RUN_COLUMNS, TYPES, cell_row, run_rows
from lab.store.stored_run import StoredRun
from tests.unit.store.conftest import AT, make_cell, make_record

CELL = "curl--dsl-50--http1-get-5MiB-at-1MBps"


def machine(cell: CellResult, **facts: object) -> CellResult:
    return cell.model_copy(update={"before": cell.before.model_copy(update={"machine": facts})})


def test_every_column_has_its_value() -> None:
    cell = machine(make_cell(), kernel="6.1", cpu_model="fast", cores=4, git_revision="abc", git_dirty=False)
    assert cell.verdict.interval
    found = cell_row(run="my run", cell=cell, whole=True)
    assert found == {
        "run": "my run",
        "whole": True,
        "started_at": "2026-01-02T03:04:05",
        "cell": CELL,
        "client": "curl",
        "version": "7.88.1",
        "version_text": "7.88.1",
        "sha256": "0" * 64,
        "topology": "dsl-50",
        "protocol": "http1",
        "direction": "get",
        "transfer": "http1-get-5MiB-at-1MBps",
        "kind": "limit",
        "limit_byte_s": 1e6,
        "backend": "namespaces",
        "clock": "real",
        "router": "uml",
        "os": "Linux",
        "kernel": "6.1",
        "cpu_model": "fast",
        "cores": 4,
        "cpu_score_mbps": None,
        "lab_version": "0.1.0",
        "git_revision": "abc",
        "schema_version": cell.schema_version,
        "verdict": "PASS",
        "reason": cell.verdict.reason,
        "n": 5,
        "mean": cell.verdict.interval.mean,
        "low": cell.verdict.interval.low,
        "high": cell.verdict.interval.high,
        **{name: figure.values(cell) for name, figure in FIGURES.items()},
        "set_aside": 0,
        "host_problems": [],
    }
    assert set(found) == {"whole", *CELL_NAMES}


def test_what_is_not_known_is_null() -> None:
    cell = machine(make_cell(problem="gone")).model_copy(update={"router": {}})
    found = cell_row("r", cell, whole=False)
    unknown = ("router", "kernel", "cpu_model", "cores", "git_revision", "mean", "low", "high")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)
    assert (found["n"], found["whole"], found["verdict"]) == (5, False, "FAIL"), "the transfer that failed does not count"


def test_a_start_is_in_utc_whatever_the_zone() -> None:
    at = AT.astimezone(timezone(timedelta(hours=5)))
    assert cell_row("r", make_cell().model_copy(update={"started_at": at}), whole=True)["started_at"] == "2026-01-02T03:04:05"


@pytest.mark.parametrize(
    ("facts", "revision"),
    [
        ({"git_revision": "abc", "git_dirty": True}, "abc+changes"),
        ({"git_revision": "abc", "git_dirty": None}, "abc"),
        ({"git_revision": None, "git_dirty": True}, None),
        ({}, None),
    ],
)
def test_a_revision_says_whether_there_were_changes(facts: dict[str, object], revision: str | None) -> None:
    assert cell_row("r", machine(make_cell(), **facts), whole=True)["git_revision"] == revision


def test_what_the_host_did_is_in_the_row() -> None:
    cell = make_cell()
    aside = [SetAside(reason="the host was busy: x", sample=cell.samples[0])]
    quality = HostQuality(before=None, after=None, problems=["one", "two"])
    found = cell_row("r", cell.model_copy(update={"set_aside": aside, "host": quality}), whole=True)
    assert (found["set_aside"], found["host_problems"]) == (1, ["one", "two"])


def counted(*numbers: int) -> dict[str, int]:
    found = dict(zip(("counted_pass", "counted_fail", "counted_inconclusive", "counted_invalid"), numbers, strict=True))
    return {**found, "doubtful": False}


def test_a_run_has_its_own_row_before_those_of_its_cells() -> None:
    later = make_cell(cell_id="a--b--c").model_copy(update={"started_at": AT + timedelta(seconds=1)})
    found = StoredRun(Path("/r"), [make_cell(), later], [], make_record(), problems=["one"])
    own, *rows = run_rows("name", "signature", found)
    assert own == {
        "run": "name",
        "signature": "signature",
        "whole": True,
        "ended": "complete",
        "command": ["lab", "run", "throttle"],
        "problems": ["one"],
        "started_at": "2026-01-02T03:04:05",
        **counted(1, 0, 0, 0),
    }
    assert [(row["run"], row["cell"], row["whole"]) for row in rows] == [("name", CELL, True), ("name", "a--b--c", True)]


def test_a_run_that_was_cut_off_before_its_first_cell_has_a_row() -> None:
    (own,) = run_rows("name", "s", StoredRun(Path("/r")))
    assert own == {
        "run": "name",
        "signature": "s",
        "whole": False,
        "ended": None,
        "command": [],
        "problems": [],
        "started_at": None,
        **counted(0, 0, 0, 0),
    }
    assert [row["whole"] for row in run_rows("name", "s", StoredRun(Path("/r"), [make_cell()]))] == [False, False]


def test_the_columns_of_the_index_are_those_of_runs_and_cells() -> None:
    assert list(TYPES) == [name for name, _ in RUN_COLUMNS] + [name for name, _, _ in COLUMNS]
    assert ("run", *(name for name, _, _ in COLUMNS)) == CELL_NAMES
