"""Results as the results' own tests make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.store.conftest import cell, make_cell_fixture, record

__all__ = ["cell", "make_cell_fixture", "record"]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(folder))
    return folder
