"""A cell that its client cannot do: reported as progress, and not a problem of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.errors import NotSupported
from lab.model.load import load_topology
from lab.model.transfer import ClientSpec, Expectation
from lab.run.progress import Silent
from lab.run.session import Session
from lab.store.run_dir import RunDir


def test_it_is_reported_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "skipped", told.append)
    session = Session(RunDir.create("test", results=tmp_path), progress=progress)
    cell = Cell(
        client=ClientSpec(name="aria2"),
        topology=load_topology("dsl-20"),
        transfer=parse_transfer("http1-put-1MB"),
        expectation=Expectation(kind="none"),
    )
    with pytest.raises(NotSupported, match="aria2 does not upload"):
        session.run_cell(cell)
    assert told == ["aria2 cannot do aria2--dsl-20--http1-put-1MB: aria2 does not upload"]
    assert session.results == []
    assert session.record().skipped == {"aria2--dsl-20--http1-put-1MB": "aria2 does not upload"}
