"""What a busy machine makes of a cell, a study and a pair: samples set aside and taken again, a bound, and never a FAIL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest
from rich.console import Console

from lab.judge.host import HostLimits
from lab.model.cell import Cell
from lab.model.results import HostLoad
from lab.model.study import BufferStudy
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run import host_watch
from lab.run.progress import Lines
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.store.run_dir import RunDir, read_cell
from reports.text import render_run
from tests.unit.run.fake_lab import FakeLab

LIMITED = ReleaseRow.named("dsl-50--http1-get-5MiB-at-1MBps", "-").cell(ClientSpec(name="new"))
FILL = ReleaseRow.named("metro-200--http1-get-50MB", "-")
QUIET, BUSY = 0.04, 1.6


def load(foreign_cores: float) -> HostLoad:
    return HostLoad(
        span_s=5.0,
        steal_share=0.0,
        foreign_cores=foreign_cores,
        lab_cores=0.1,
        cores=2,
        late_p99_ms=0.4,
        late_worst_ms=2.0,
        frequency_mhz=None,
        load_1min=1.0,
    )


@dataclass
class Machine:
    """Foreign cores of each idle look and of each sample, in turn; when a list is at its end, the last one goes on."""

    idle: list[float] = field(default_factory=lambda: [QUIET])
    samples: list[float] = field(default_factory=lambda: [QUIET])
    looked: int = 0

    def idle_load(self, *_: object) -> HostLoad:
        self.looked += 1
        return load(self._next(self.idle))

    def sample_load(self) -> HostLoad:
        return load(self._next(self.samples))

    @staticmethod
    def _next(row: list[float]) -> float:
        return row.pop(0) if len(row) > 1 else row[0]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()

    class Watch:
        load: HostLoad

        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.load = made.sample_load()

    monkeypatch.setattr(host_watch, "HostWatch", Watch)
    monkeypatch.setattr(host_watch, "watch_idle", made.idle_load)
    monkeypatch.setattr(host_watch, "PortSampler", nullcontext)
    return made


@pytest.fixture(name="made")
def session(tmp_path: Path, fake_lab: FakeLab) -> Iterator[Session]:
    options = replace(fake_lab.options((3, 5)), host_limits=HostLimits())
    with Session(RunDir.create("test", results=tmp_path), options) as it:
        yield it


def test_on_a_quiet_machine_the_load_is_only_reported(made: Session, machine: Machine) -> None:
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "PASS"
    assert result.verdict.warnings == []
    assert (result.plan, result.set_aside) == ([3, 5], [])
    assert result.host
    assert result.host.problems == []
    assert result.host.before == result.host.after == load(QUIET)
    assert [sample.host for sample in result.samples] == [load(QUIET)] * 3
    assert read_cell(made.run.cell_path(result.id)) == result


def test_unwatched_nothing_is_reported_or_set_aside(fake_lab: FakeLab, machine: Machine, tmp_path: Path) -> None:
    machine.idle = machine.samples = [BUSY]
    with fake_lab.session(RunDir.create("test", results=tmp_path), (3, 5)) as it:
        result = it.run_cell(LIMITED)
    assert (result.verdict.name, result.host, result.set_aside, result.plan) == ("PASS", None, [], [3, 5])
    assert result.samples[0].host is None
    assert machine.looked == 0


def test_a_spoilt_sample_is_set_aside_reported_and_taken_again(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    rates = iter([0.5e6, 1e6, 0.6e6, 1e6, 1e6])
    fake_lab.rate = lambda *_: next(rates)
    machine.samples = [BUSY, QUIET, BUSY, QUIET, QUIET]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "PASS"
    assert [sample.index for sample in result.samples] == [0, 1, 2]
    assert [sample.body_byte_s for sample in result.samples] == [1e6] * 3
    assert [(each.sample.index, each.sample.body_byte_s) for each in result.set_aside] == [(0, 0.5e6), (1, 0.6e6)]
    assert result.set_aside[0].reason == "the host was busy: other processes took 1.60 of 2 cores (at most 0.26)"
    assert result.set_aside[0].sample.host == load(BUSY)
    assert len([line for line in result.verdict.host_notes if line.startswith("2 transfers")]) == 1


def test_it_is_set_aside_for_what_the_host_did_and_not_for_what_it_shows(
    made: Session, machine: Machine, fake_lab: FakeLab
) -> None:
    machine.samples = [BUSY, QUIET]
    assert len(made.run_cell(LIMITED).set_aside) == 1, "its rate was right"
    machine.samples = [QUIET]
    fake_lab.rate = lambda *_: 0.5e6
    result = made.run_cell(LIMITED)
    assert (result.verdict.name, result.set_aside) == ("FAIL", []), "its rate was wrong, and the host was quiet"


def test_a_transfer_that_failed_next_to_a_hog_is_not_the_clients_fault(
    made: Session, machine: Machine, fake_lab: FakeLab
) -> None:
    rates = iter([None, 1e6, 1e6, 1e6])
    fake_lab.rate = lambda *_: next(rates)
    machine.samples = [BUSY, QUIET]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "PASS"
    assert result.set_aside[0].sample.problem == "cut off"


def test_next_to_hogs_a_cell_ends_soon_and_is_invalid(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda *_: 0.5e6
    machine.idle = machine.samples = [BUSY]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "INVALID"
    assert "the lab, not the client: the host was busy: before the samples other processes took 1.60" in result.verdict.reason
    assert "3 transfers were set aside" in result.verdict.reason
    assert (len(result.samples), len(result.set_aside)) == (0, 3)
    assert result.host
    assert len(result.host.problems) == 3
    assert read_cell(made.run.cell_path(result.id)) == result


def test_after_the_first_look_too_little_is_left_to_decide(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    rates = iter([1e6, 0.9e6, 1.1e6, *[1e6] * 9])
    fake_lab.rate = lambda *_: next(rates)
    machine.samples = [QUIET, QUIET, QUIET, BUSY]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "INCONCLUSIVE"
    assert (len(result.samples), len(result.set_aside)) == (3, 3)
    assert sum(line.startswith("3 transfers were set aside") for line in result.verdict.host_notes) == 1


def test_a_fail_needs_a_machine_that_was_quiet_before_and_after_too(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda *_: 0.5e6
    machine.idle = [QUIET, BUSY, BUSY, QUIET]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "INVALID"
    assert "after the samples other processes took 1.60" in result.verdict.reason
    assert "(would have been FAIL: " in result.verdict.reason


def test_a_disturbed_idle_look_is_taken_again_once(made: Session, machine: Machine) -> None:
    machine.idle = [BUSY, QUIET]
    result = made.run_cell(LIMITED)
    assert result.host
    assert (result.host.problems, result.host.before, machine.looked) == ([], load(QUIET), 3)


def test_the_look_after_one_cell_is_the_one_before_the_next(made: Session, machine: Machine) -> None:
    made.run_cell(LIMITED)
    assert machine.looked == 2
    made.run_cell(LIMITED)
    assert machine.looked == 3


def test_a_pass_stands_and_reports_the_noise_around_it(made: Session, machine: Machine) -> None:
    machine.idle = [BUSY]
    result = made.run_cell(LIMITED)
    assert result.verdict.name == "PASS"
    assert any(line.startswith("before the samples") for line in result.verdict.host_notes)


def pair(session: Session) -> Any:
    def cell(name: str) -> Cell:
        return FILL.cell(ClientSpec(name=name))

    return session.run_pair(cell("new"), cell("old"))


def test_a_round_of_a_pair_stays_together(made: Session, machine: Machine) -> None:
    machine.samples = [QUIET, BUSY, QUIET]
    result = pair(made)
    assert result.order == ["candidate", "baseline", "baseline", "candidate", "baseline", "candidate"]
    assert result.verdict
    assert result.verdict.name == "PASS"
    assert sum(line.startswith("a transfer was set aside") for line in result.verdict.host_notes) == 1
    assert [len(cell.set_aside) for cell in made.results] == [0, 1]


def test_a_pair_next_to_hogs_is_invalid_on_every_side(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: 0.5e6 if client == "new" else 1e6
    machine.samples = [BUSY]
    result = pair(made)
    assert result.verdict
    assert {result.judged.name, *(arm.verdict for arm in result.arms)} == {"INVALID"}
    assert result.not_judged == ""
    assert result.verdict.reason.startswith("the lab, not the client: the host was busy: 3 transfers were set aside")


def test_a_regression_on_a_machine_that_was_not_quiet_does_not_count(made: Session, machine: Machine, fake_lab: FakeLab) -> None:
    fake_lab.rate = lambda client, _: 0.5e6 if client == "new" else 1e6
    assert pair(made).verdict.name == "FAIL"
    machine.idle = [BUSY]
    made.lab.close_network()
    assert pair(made).verdict.name == "INVALID"


def test_a_study_takes_a_spoilt_turn_again_and_ends_with_its_cells(made: Session, machine: Machine) -> None:
    study = BufferStudy(
        client=ClientSpec(name="new"),
        topology=Topology(name="dsl-50", description="a line"),
        transfer=Transfer(protocol="http1", direction="put", size=Size.parse("5 MiB")),
        buffers=(Size.parse("16 KiB"), Size.parse("1 MiB")),
    )
    machine.samples = [QUIET, BUSY, QUIET]
    result = made.run_study(study)
    assert (result.verdict.name, len(result.order)) == ("PASS", 6)
    assert sum(line.startswith("a transfer") for line in result.verdict.host_notes) == 1
    machine.samples = [BUSY]
    made.lab.close_network()
    assert made.run_study(study).verdict.name == "INVALID"


def test_lines_say_what_is_set_aside_and_the_table_says_why(
    made: Session, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = (tmp_path / "said").open("w+")
    made.progress = made.lab.progress = Lines(said)
    machine.samples = [BUSY, QUIET]
    machine.idle = [BUSY]
    result = made.run_cell(LIMITED)
    said.seek(0)
    assert "1 set aside: the host was busy: other processes took 1.60 of 2 cores (at most 0.26)" in said.read()
    said.close()
    render_run([result], Console(width=160))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    told = [" ".join(line[1:6]) for line in lines if line[:1] == ["host"]]
    assert told == ["before the samples other processes", "after the samples other processes", "a transfer was set aside:"]
    assert [line for line in lines if line[:1] == ["note"]] == [], "the verdict's warnings say the same"
