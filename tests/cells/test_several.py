"""Several files over one h2 connection, each with its own limit: real clients in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.cell_name import parse_transfer
from lab.model.transfer import BoundKind, ClientSpec, Expectation
from lab.model.units import Ratio
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_cell
from tests.support.sessions import FAST

VIRTUAL = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("results")
    with Session(RunDir.create("test", results=folder), VIRTUAL) as made:
        yield made


def cell(client: str, name: str, kind: BoundKind | None = None) -> Cell:
    transfer = parse_transfer(name)
    expectation = Expectation.of(transfer, Ratio.parse("30 %"), kind)
    return Cell(client=ClientSpec(name=client), topology=FAST, transfer=transfer, expectation=expectation)


@pytest.mark.parametrize("client", ["ferry", "curl"])
def test_four_limited_streams_on_one_connection(session: Session, client: str) -> None:
    result = session.run_cell(cell(client, "h2-get-4x1MB-at-500kBps-p4"))
    for sample in result.samples:
        assert sample.client is not None
        assert len(sample.client.stream_byte_s) == 4
        assert sample.body_clock == "wire"
        assert sample.burst_ratio
        if client == "ferry":
            # 4 x 500 kB/s are a sixth of the link: it is not what holds them back.
            assert sample.goodput_ratio
            assert 0.1 < sample.goodput_ratio < 0.5
    if client == "ferry":
        assert result.verdict.name == "PASS", result.verdict.reason
    else:
        # curl 7.88.1 keeps in its memory what it delivers at the limit, a second after it has left the wire.
        assert result.verdict.name != "INVALID", result.verdict.reason
    assert read_cell(session.run.cell_path(result.id)) == result


@pytest.mark.parametrize("client", ["ferry", "curl"])
def test_a_kept_set_is_checked_file_by_file(session: Session, client: str) -> None:
    result = session.run_cell(cell(client, "http1-get-3x200kB-p3"))
    assert result.verdict.name == "PASS", result.verdict.reason
    assert [len(sample.file_times_s) for sample in result.samples] == [3, 3]


def test_a_bound_is_judged_in_its_own_unit(session: Session) -> None:
    result = session.run_cell(cell("ferry", "http1-get-2MB-discard", "memory"))
    assert (result.id, result.verdict.name) == ("ferry--fast--http1-get-2MB-discard--memory", "PASS")
    assert "at most 64 MiB asked" in result.verdict.reason
