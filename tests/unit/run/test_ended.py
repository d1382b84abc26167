"""A run that does not come to its end says so, whatever ends it and whenever: it is never green."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.model.transfer import ClientSpec
from lab.run import collected
from lab.run.measured import measured_run
from lab.run.named_cells import run_cells
from lab.run.progress import Silent
from lab.run.release import ReleaseRow
from lab.run.resume import Resumed
from lab.store.run_dir import RunDir
from lab.store.stored_run import read_run_folder
from reports.build import tally
from reports.junit import junit_xml
from reports.markdown import markdown_summary
from tests.unit.run.fake_lab import FakeLab

CELLS = [ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(ClientSpec(name="new")) for size in range(1, 4)]
PLANNED = [cell.id for cell in CELLS]
ENDS = {
    "INT": (KeyboardInterrupt(), "interrupted", 130),
    "TERM": (SystemExit(143), "interrupted", 143),
    "HUP": (SystemExit(129), "interrupted", 129),
    "limit": (SystemExit(143), "timeout", 143),
    "disk": (OSError(errno.ENOSPC, "full"), "disk", 4),
    "fault": (RuntimeError("a defect"), "interrupted", 4),
}


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path))
    return tmp_path


def never_green(run: RunDir) -> None:
    found = read_run_folder(run.path)
    assert not found.whole
    assert tally(found).name in {None, "INVALID"}
    assert 'name="whole" value="no"' in junit_xml(found)
    assert "not complete" in junit_xml(found)
    assert "This run is not complete" in markdown_summary(found)


@pytest.mark.parametrize("done", range(4))
@pytest.mark.parametrize("how", ENDS)
def test_a_run_that_is_ended_says_how(how: str, done: int, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, ended, code = ENDS[how]
    monkeypatch.setattr(collected, "has_passed", lambda _: how == "limit")
    with pytest.raises(type(problem)), measured_run("cells", fake_lab.options(), planned=PLANNED) as session:  # noqa: PT012
        for cell in CELLS[:done]:
            session.run_cell(cell)
        raise problem
    if how == "fault" and not done:
        assert not session.run.path.exists()
        return
    record = read_run_folder(session.run.path).record
    assert record is not None
    assert (record.ended, record.exit_code, record.missing) == (ended, code, PLANNED[done:])
    never_green(session.run)


@pytest.mark.parametrize(
    ("problem", "code"), [(UsageProblem("no such file"), 2), (LabFault("no network"), 4), (RuntimeError("a defect"), 4)]
)
def test_a_command_whose_run_is_cut_off_ends_by_the_stored_code(problem: Any, code: int, fake_lab: FakeLab) -> None:
    with pytest.raises(type(problem)) as raised, measured_run("cells", fake_lab.options(), planned=PLANNED) as session:  # noqa: PT012
        session.run_cell(CELLS[0])
        raise problem
    record = read_run_folder(session.run.path).record
    assert record is not None
    assert getattr(raised.value, "exit_code", None) == record.exit_code == code


@pytest.mark.parametrize("done", range(4))
def test_a_run_that_is_killed_has_the_record_of_its_start(done: int, fake_lab: FakeLab) -> None:
    with measured_run("cells", fake_lab.options(), planned=PLANNED) as session:
        for cell in CELLS[:done]:
            session.run_cell(cell)
        record = read_run_folder(session.run.path).record
        assert record is not None
        assert (record.ended, record.exit_code, record.planned) == ("killed", 4, PLANNED)
        never_green(session.run)


def test_only_what_was_begun_and_is_not_complete_is_gone_on_with(fake_lab: FakeLab) -> None:
    with pytest.raises(KeyboardInterrupt), measured_run("cells", fake_lab.options(), planned=PLANNED) as session:  # noqa: PT012
        session.run_cell(CELLS[0])
        raise KeyboardInterrupt
    with pytest.raises(UsageProblem, match="other cells"):
        run_cells(CELLS[:2], fake_lab.options(), Silent(), resume=Resumed.find(session.run.name))
    run_cells(CELLS, fake_lab.options(), Silent(), resume=Resumed.find(session.run.name))
    assert read_run_folder(session.run.path).whole
    with pytest.raises(UsageProblem, match="is complete"):
        Resumed.find(session.run.name)
