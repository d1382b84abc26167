"""Two lanes with a network each, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.hosts.namespaces.launch import running_labs
from lab.model.transfer import ClientSpec, Expectation
from lab.model.units import Ratio
from lab.run.parallel import Job, run_jobs
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_cell, read_run
from tests.support.sessions import LENIENT

# A busy machine does not decide these.
LIMITED = ReleaseRow.named("dsl-50--http1-get-1MiB-at-1MBps", "-")


@pytest.fixture
def made(tmp_path: Path) -> Session:
    return Session(RunDir.create("test", results=tmp_path), LENIENT)


def test_two_lanes_have_a_network_each_and_leave_none(made: Session) -> None:
    asked = [ReleaseRow.named(f"dsl-{rate}--http1-get-1MiB-at-1MBps", "-").cell(ClientSpec(name="ferry")) for rate in (50, 20)]
    rough = Expectation(kind="limit", tolerance=Ratio.parse("30 %"))
    cells = [cell.model_copy(update={"expectation": rough}) for cell in asked]
    seen: set[str] = set()

    def job(index: int) -> Job[str]:
        def run(own: Session) -> str:
            seen.update(name for name in running_labs() if name.startswith(made.run.name))
            return own.run_cell(cells[index]).verdict.name

        return Job(run, light=True)

    with made:
        found = run_jobs(made, [job(0), job(1)], 2, lambda name: name == "INVALID")
        assert not any(name.startswith(made.run.name) for name in running_labs())
    assert found == ["PASS", "PASS"]
    assert seen == {f"{made.run.name}-lane{number}" for number in (1, 2)}
    results = [read_cell(made.run.cell_path(cell.id)) for cell in cells]
    assert max(result.started_at for result in results) < min(result.ended_at for result in results), "side by side"
    assert all(result.certificate and result.certificate.after[-1].ok for result in results)
    assert sorted(read_run(made.run.path).cells) == sorted(cell.id for cell in cells)
