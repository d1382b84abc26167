"""Light jobs side by side, each on a network of its own; heavy ones alone; nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec
from lab.run import parallel
from lab.run.parallel import Job, run_jobs
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_cell, read_run
from tests.unit.run.fake_lab import FakeLab

NAMES = [f"dsl-50--http1-get-{size}MB-at-1MBps" for size in range(1, 5)]


def cell_job(name: str, *, light: bool = True) -> Job[CellResult]:
    return Job(lambda own: own.run_cell(ReleaseRow.named(name, "-").cell(ClientSpec(name="new"))), light)


def spoilt(result: CellResult) -> bool:
    return result.verdict.name == "INVALID"


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


def test_every_lane_has_a_network_and_all_results_are_one_run(made: Session, fake_lab: FakeLab) -> None:
    both = threading.Barrier(2)

    def meeting(name: str) -> Job[CellResult]:
        def run(own: Session) -> CellResult:
            both.wait(10)  # ends only when two jobs run at the same time
            return cell_job(name).run(own)

        return Job(run, light=True)

    with made:
        found = run_jobs(made, [meeting(name) for name in NAMES], 2, spoilt)
    assert [result.id.partition("--")[2] for result in found] == NAMES
    assert sorted(network.name for network in fake_lab.opened) == [f"{made.run.name}-lane{n}" for n in (1, 2)]
    assert not any(network.open for network in fake_lab.opened)
    record = read_run(made.run.path)
    assert sorted(record.cells) == sorted(result.id for result in found)
    assert set(record.verdicts.values()) == {"PASS"}


def test_heavy_jobs_wait_for_the_lanes_and_run_alone(made: Session, fake_lab: FakeLab) -> None:
    seen: list[tuple[str, list[str]]] = []

    def heavy(own: Session) -> CellResult:
        seen.append((threading.current_thread().name, [network.name for network in fake_lab.opened if network.open]))
        return cell_job(NAMES[0]).run(own)

    run_jobs(made, [Job(heavy), cell_job(NAMES[1]), cell_job(NAMES[2])], 2, spoilt)
    assert seen == [(threading.main_thread().name, [])]


def test_what_a_lane_spoilt_is_run_again_alone_and_says_so(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.broken = lambda network: "-lane" in network.name
    found = run_jobs(made, [cell_job(NAMES[0]), cell_job(NAMES[1])], 2, spoilt)
    assert [result.verdict.name for result in found] == ["PASS", "PASS"]
    for result in found:
        assert parallel.RUN_AGAIN in result.verdict.warnings
        assert read_cell(made.run.cell_path(result.id)) == result
    assert sorted(result.id for result in made.results) == sorted(result.id for result in found)
    assert made.remarks == ()


def test_what_is_spoilt_alone_too_stays_so(made: Session, fake_lab: FakeLab) -> None:
    fake_lab.broken = lambda _: True
    found = run_jobs(made, [cell_job(NAMES[0]), cell_job(NAMES[1])], 2, spoilt)
    assert [result.verdict.name for result in found] == ["INVALID", "INVALID"]


def test_one_lane_starts_no_thread(made: Session, fake_lab: FakeLab) -> None:
    run_jobs(made, [cell_job(name) for name in NAMES], 1, spoilt)
    assert [network.name for network in fake_lab.opened] == [made.run.name]


def test_the_first_problem_of_a_lane_ends_all_and_is_raised(made: Session, fake_lab: FakeLab) -> None:
    def fails(own: Session) -> CellResult:
        raise LabFault("no such thing")

    with pytest.raises(LabFault, match="no such thing"):
        run_jobs(made, [Job(fails, light=True), *map(cell_job, NAMES)], 2, spoilt)
    assert not any(network.open for network in fake_lab.opened)


def test_a_network_that_does_not_come_up_ends_all(made: Session, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = fake_lab.open

    def fails(name: str) -> Any:
        if name.endswith("lane2"):
            raise LabFault("no network today")
        return opening(name)

    monkeypatch.setattr(fake_lab, "open", fails)
    with pytest.raises(LabFault, match="no network today"):
        run_jobs(made, [cell_job(name) for name in NAMES], 2, spoilt)
    assert not any(network.open for network in fake_lab.opened)


def test_an_interrupt_closes_every_lane_and_records_no_fault(
    made: Session, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while both lanes take a sample: their transfers end with their networks, and do not become INVALID cells."""
    inside, gone = threading.Barrier(3), threading.Event()
    closes: list[Callable[[], None]] = []
    opening = fake_lab.open

    def opened(name: str) -> Any:
        network = opening(name)
        close = network.close
        closes.append(close)

        def close_and_tell() -> None:
            close()
            if not any(each.open for each in fake_lab.opened):
                gone.set()

        network.close = close_and_tell
        return network

    def hangs(client: str, index: int) -> float:
        inside.wait(10)
        gone.wait(10)
        raise LabFault("the lab is gone")

    def interrupted(threads: list[threading.Thread]) -> None:
        monkeypatch.setattr(parallel, "wait_for", waits)
        inside.wait(10)
        raise KeyboardInterrupt

    waits = parallel.wait_for
    monkeypatch.setattr(fake_lab, "open", opened)
    fake_lab.rate = hangs
    monkeypatch.setattr(parallel, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(made, [cell_job(name) for name in NAMES], 2, spoilt)
    assert len(closes) == 2
    assert not any(network.open for network in fake_lab.opened)
    assert made.results == []
    assert list(made.run.cells.glob("*.json")) == []
