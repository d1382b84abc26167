"""Two clients take turns on one link, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.transfer import ClientSpec
from lab.run.release import ReleaseRow
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_cell, read_result

VIRTUAL = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)))
LIMITED = ReleaseRow.named("dsl-50--http1-get-1MiB-at-1MBps", "-")


@pytest.fixture
def made(tmp_path: Path) -> Session:
    return Session(RunDir.create("test", results=tmp_path), VIRTUAL)


def test_two_clients_take_turns_on_one_link(made: Session) -> None:
    with made:
        result = made.run_pair(LIMITED.cell(ClientSpec(name="ferry")), LIMITED.cell(ClientSpec(name="curl")))
    assert result.order[:4] == ["candidate", "baseline", "baseline", "candidate"]
    assert result.ratio
    assert result.ratio.mean == pytest.approx(1, abs=0.3)
    assert result.verdict is None
    assert read_result(made.run.answer_path(result.id), Answer) == result
    ours, theirs = (read_cell(made.run.cell_path(arm.cell)) for arm in result.arms)
    assert ours.certificate == theirs.certificate
    assert all(sample.ok for sample in (*ours.samples, *theirs.samples))
    turns = sorted((sample.started_at, cell.client.name) for cell in (ours, theirs) for sample in cell.samples)
    assert [{"ferry": "candidate", "curl": "baseline"}[name] for _, name in turns] == result.order
