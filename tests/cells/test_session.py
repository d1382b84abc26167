"""A cell from shaping to verdict in virtual time: what is the lab's fault is INVALID, what is the client's is FAIL."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from lab.judge.tolerance import LookPlan
from lab.model.answer import Answer
from lab.model.errors import EXIT_INVALID, UsageProblem
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Ratio, Size
from lab.run.session import Options, Session
from lab.store.run_dir import RunDir, read_cell, read_result
from tests.support.sessions import FAST, cell, change_link_after_samples

VIRTUAL = Options(clock="virtual", virtual_looks=LookPlan(looks=(2, 3)))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One run for all of them: each cell is also the proof that the one before did not end it."""
    with Session(RunDir.create("test", results=tmp_path_factory.mktemp("session")), VIRTUAL) as made:
        yield made


@pytest.fixture
def changing_link(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    change_link_after_samples(session, monkeypatch)


def script(folder: Path, text: str) -> str:
    path = folder / "curl"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(path)


def test_a_good_client_on_a_good_link_passes_and_its_result_is_complete(session: Session) -> None:
    result = session.run_cell(cell())
    assert result.verdict.name == "PASS", result.verdict.reason
    stored = read_cell(session.run.cell_path(result.id))
    assert stored == result
    certificate = stored.certificate
    assert certificate
    assert certificate.before[-1].ok
    assert abs(certificate.before[-1].down.goodput_error or 1) < 0.0001
    assert [sample.client.bytes for sample in stored.samples if sample.client] == [1_000_000] * 2
    sample = stored.samples[0]
    assert sample.wire
    assert 1_000_000 <= sample.wire.payload_bytes < 1_100_000
    assert sample.max_rss_bytes
    assert 2 << 20 < sample.max_rss_bytes < 64 << 20
    assert "offload.eth0.tcp-segmentation-offload" in stored.before.hosts["client"]
    assert stored.after.hosts["router"]["qdiscs"]


def study(direction: Literal["get", "put"], *buffers: str, floor: float = 0.9, topology: Topology = FAST) -> BufferStudy:
    return BufferStudy(
        client=ClientSpec(name="ferry"),
        topology=topology,
        transfer=Transfer(protocol="http1", direction=direction, size=Size.parse("1 MB")),
        buffers=tuple(map(Size.parse, buffers)),
        floor=Ratio(floor),
    )


def test_a_study_interleaves_its_cells_and_its_result_is_complete(session: Session) -> None:
    result = session.run_study(study("put", "16 KiB", "1 MiB", "64 MiB", floor=0.01))
    assert result.judged.name == "PASS", result.judged.reason
    assert read_result(session.run.answer_path(result.id), Answer) == result
    assert list(result.skipped) == ["64 MiB"]
    assert result.order[:4] == ["16 KiB", "1 MiB", "1 MiB", "16 KiB"]
    cells = {arm.name: read_cell(session.run.cell_path(arm.cell)) for arm in result.arms}
    assert [cell.verdict.name for cell in cells.values()] == ["PASS"] * 2
    assert cells["16 KiB"].certificate == cells["1 MiB"].certificate
    for arm in result.arms:
        assert arm.byte_s == [sample.body_byte_s for sample in cells[arm.name].samples]
    turns = sorted((sample.started_at, setting) for setting, cell in cells.items() for sample in cell.samples)
    assert [setting for _, setting in turns] == result.order
    record = session.record()
    assert record.answers == [result.id]
    assert record.verdicts[result.id] == "PASS"


@pytest.mark.usefixtures("changing_link")
def test_a_link_that_changes_during_a_study_is_invalid(session: Session) -> None:
    result = session.run_study(study("get", "16 KiB", "1 MiB"))
    assert result.verdict.name == "INVALID"
    assert "the link has changed" in result.verdict.reason
    record = session.record()
    assert record.verdicts[result.id] == "INVALID"
    assert record.exit_code == EXIT_INVALID


@pytest.mark.usefixtures("changing_link")
def test_a_link_that_changes_during_the_samples_is_invalid(session: Session) -> None:
    result = session.run_cell(cell())
    assert result.verdict.name == "INVALID"
    assert "the link has changed" in result.verdict.reason
    assert result.certificate is None, "samples on another link than the certificate's are no ground for a verdict"


def test_a_limit_that_the_link_cannot_carry_is_not_judged(session: Session) -> None:
    result = session.run_cell(cell(limit="20 MB/s"))
    assert result.verdict.name == "INVALID"
    assert "too little to judge a limit" in result.verdict.reason


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('exec /usr/bin/curl -m 0.02 "$@"', "exit code 28"),
        ("exit 0", "report"),
        ("echo not json; exit 0", "report"),
        ("kill -9 $$", "exit code 137"),
    ],
)
def test_a_client_that_fails_or_lies_fails_its_cell(session: Session, tmp_path: Path, text: str, problem: str) -> None:
    text = f'case "$*" in *--version*|*-V*) exec /usr/bin/curl --version;; esac\n{text}'
    result = session.run_cell(cell(script(tmp_path, text)))
    assert result.verdict.name == "FAIL"
    assert problem in result.verdict.reason
    assert len(result.samples) == 1


def test_a_client_that_is_not_there_is_the_users_problem(session: Session) -> None:
    before = list(session.results)
    with pytest.raises(UsageProblem, match="there is no /nowhere/curl"):
        session.run_cell(cell("/nowhere/curl"))
    assert session.results == before
    # After all that failed a good client passes.
    result = session.run_cell(cell())
    assert result.verdict.name == "PASS", result.verdict.reason
