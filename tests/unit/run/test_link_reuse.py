"""When a Session puts a link on its network: once for consecutive cells, and again after a failed calibration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.model.cell import Cell
from lab.model.transfer import ClientSpec
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.unit.run.fake_lab import FakeLab

LIMITED = "dsl-50--http1-get-5MiB-at-1MBps"


def cell(client: str) -> Cell:
    return ReleaseRow.named(LIMITED, "-").cell(ClientSpec(name=client))


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


@pytest.fixture
def steps(fake_lab: FakeLab) -> list[str]:
    """`shape` and `look`, in their order."""
    return fake_lab.steps


def spoilt(*which: int) -> Callable[[Any], bool]:
    """The looks of these numbers, from 1, find something wrong."""
    looks = iter(range(1, 100))
    return lambda _: next(looks) in which


def verdicts(made: Session, *clients: str) -> list[str]:
    return [made.run_cell(cell(client)).verdict.name for client in clients]


def test_a_good_link_stays_and_its_last_look_is_the_next_cells_first(made: Session, steps: list[str]) -> None:
    assert verdicts(made, "one", "two") == ["PASS", "PASS"]
    assert steps == ["shape", "look", "look", "look"]


def test_a_link_that_failed_both_looks_before_a_cell_is_put_on_again(made: Session, steps: list[str], fake_lab: FakeLab) -> None:
    fake_lab.broken = spoilt(1, 2)
    assert verdicts(made, "one", "two") == ["INVALID", "PASS"]
    assert steps == ["shape", "look", "look", "shape", "look", "look"]


def test_a_link_that_failed_both_looks_after_a_cell_is_put_on_again(made: Session, steps: list[str], fake_lab: FakeLab) -> None:
    fake_lab.broken = spoilt(2, 3)
    assert verdicts(made, "one", "two") == ["INVALID", "PASS"]
    assert steps == ["shape", "look", "look", "look", "shape", "look", "look"]


def test_a_second_look_that_is_good_keeps_it(made: Session, steps: list[str], fake_lab: FakeLab) -> None:
    fake_lab.broken = spoilt(1)
    assert verdicts(made, "one", "two") == ["PASS", "PASS"]
    assert steps == ["shape", "look", "look", "look", "look"]


def test_a_link_that_the_router_no_longer_holds_is_put_on_again(made: Session, steps: list[str], fake_lab: FakeLab) -> None:
    fake_lab.read_back_problems = ["down: delay is 9 ms, not 10 ms"]
    first, second = (made.run_cell(cell(client)) for client in ("one", "two"))
    assert (first.verdict.name, second.verdict.name) == ("INVALID", "PASS")
    assert "down: delay is 9 ms, not 10 ms" in first.verdict.reason
    assert steps.count("shape") == 2


def test_the_certificate_of_a_failed_link_is_kept(made: Session, steps: list[str], fake_lab: FakeLab) -> None:
    fake_lab.broken = spoilt(1, 2)
    result = made.run_cell(cell("one"))
    assert result.certificate
    assert [look.ok for look in result.certificate.before] == [False, False]
    assert result.samples == []


def test_one_host_takes_the_place_of_a_network_and_gives_it_back(fake_lab: FakeLab, made: Session) -> None:
    alone = ReleaseRow.named("same-host--http1-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="one"))
    with made:
        found = [made.run_cell(each).router["kind"] for each in (cell("one"), alone, alone, cell("one"))]
    assert found == ["kernel", "none", "none", "kernel"]
    assert len(fake_lab.opened) == 3, "two cells on one host share it"
    assert not any(network.open for network in fake_lab.opened)
