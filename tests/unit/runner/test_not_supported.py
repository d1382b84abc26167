"""A cell that its client cannot do: told as progress, and no problem of the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.backend.clocks import REAL
from lab.errors import NotSupported
from lab.result.store import RunDir
from lab.runner.progress import Silent
from lab.runner.session import Session
from lab.spec.cell import parse_transfer
from lab.spec.load import load_topology
from lab.spec.models import Cell, ClientSpec, Expectation


def test_it_is_told_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    progress = Silent()
    monkeypatch.setattr(progress, "skipped", told.append)
    session = Session(RunDir.create("test", results=tmp_path), progress=progress)
    network: Any = SimpleNamespace(clock=REAL)
    monkeypatch.setattr(session, "_bring_up", lambda: (network, network))
    cell = Cell(
        client=ClientSpec(name="aria2"),
        topology=load_topology("dsl-20"),
        transfer=parse_transfer("http1-put-1MB"),
        expectation=Expectation(kind="none"),
    )
    with pytest.raises(NotSupported, match="aria2 does not upload"):
        session.run_cell(cell)
    assert told == ["aria2 cannot do aria2--dsl-20--http1-put-1MB: aria2 does not upload"]
    assert (session.problem, session.results) == (None, [])
    assert session.record().skipped == {"aria2--dsl-20--http1-put-1MB": "aria2 does not upload"}
