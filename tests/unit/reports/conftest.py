"""Runs to make pages of: the stored ones, and one whose every text is hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.results import CellResult, RunRecord
from lab.store.stored_run import StoredRun, read_run_folder
from tests.support.stored_runs import unpack
from tests.unit.store.conftest import cell, make_cell_fixture, record

__all__ = ["cell", "make_cell_fixture", "record"]

HOSTILE = "<script>document.title='ran'</script>\"'><img src=x onerror=alert(1)>&amp;|`*_@here\x07"


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the stored runs, by the word in their names."""
    runs = unpack(tmp_path_factory.mktemp("stored"))
    return {run.name.split("-")[1]: run for run in runs}


@pytest.fixture(scope="session")
def throttle(stored: dict[str, Path]) -> StoredRun:
    return read_run_folder(stored["throttle"])


@pytest.fixture(scope="session")
def qualify(stored: dict[str, Path]) -> StoredRun:
    return read_run_folder(stored["qualify"])


@pytest.fixture(scope="session")
def quirks(stored: dict[str, Path]) -> StoredRun:
    return read_run_folder(stored["windows"])


@pytest.fixture
def hostile(cell: CellResult, record: RunRecord, tmp_path: Path) -> StoredRun:
    """Every free text of a result would run as code, or break out of its element, if it were not escaped."""
    client = cell.client.model_copy(
        update={
            "name": HOSTILE,
            "version": HOSTILE,
            "path": HOSTILE,
            "sha256": HOSTILE,
            "command": [HOSTILE],
            "program": HOSTILE,
            "notes": [HOSTILE],
        }
    )
    samples = [sample.model_copy(update={"ok": False, "problem": HOSTILE}) for sample in cell.samples]
    assert cell.certificate is not None
    bad = cell.model_copy(
        update={
            "id": HOSTILE,
            "client": client,
            "samples": samples,
            "backend": HOSTILE,
            "backend_facts": {HOSTILE: HOSTILE},
            "router": {"kind": HOSTILE},
            "certificate": cell.certificate.model_copy(update={"qdisc_commands": [HOSTILE]}),
            "verdict": cell.verdict.model_copy(update={"name": "FAIL", "reason": HOSTILE, "warnings": [HOSTILE]}),
            "before": cell.before.model_copy(update={"machine": {"cpu_model": HOSTILE, "kernel": HOSTILE}}),
        }
    )
    told = record.model_copy(
        update={"command": [HOSTILE], "skipped": {HOSTILE: HOSTILE}, "verdicts": {HOSTILE: "FAIL"}, "exit_code": 1}
    )
    return StoredRun(path=tmp_path / "run", cells=[bad], record=told, problems=[HOSTILE])
