"""A complete cell, built from the words of a topology file and a command line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.judge.tolerance import LookPlan, judge_samples
from lab.model.answer import Answer
from lab.model.link import Link
from lab.model.results import (
    Calibration,
    CellResult,
    Certificate,
    ClientIdentity,
    ClientNumbers,
    DirectionCalibration,
    DirectionName,
    HostSnapshot,
    RunRecord,
    Sample,
    Verdict,
    WireCounters,
    WireSeries,
)
from lab.model.topology import Topology
from lab.model.transfer import Expectation, Transfer
from lab.store.run_dir import RunDir
from lab.store.stored_run import StoredRun

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIMIT_BYTE_S = 1e6

DATA = Path(__file__).resolve().parents[2] / "data"

MakeCell = Callable[..., CellResult]
MakeCalibration = Callable[..., Calibration]


def make_sample(index: int, deviation: float | None, *, problem: str = "") -> Sample:
    speed = LIMIT_BYTE_S * (1 + (deviation or 0.0))
    return Sample(
        index=index,
        started_at=AT + timedelta(seconds=10 * index),
        exit_code=18 if problem else 0,
        ok=not problem,
        problem=problem,
        expected_bytes=5_242_880,
        client=ClientNumbers(bytes=5_242_880, total_s=5.3, raw={"http_code": 200}),
        wall_s=5.4,
        body_s=5_242_880 / speed,
        body_byte_s=speed,
        total_byte_s=speed * 0.98,
        deviation=deviation,
        cpu_user_s=0.01,
        cpu_system_s=0.02,
        max_rss_bytes=12_000_000,
        series=WireSeries(
            slot_ms=10,
            goodput_bit_s=[8e6, 8e6],
            worst_window_byte_s=1.25e6,
            slowest_window_byte_s=0.9e6,
            longest_gap_ms=40.0 + index,
            late_slots=0,
        ),
        wire=WireCounters(
            wire_bytes_down=5_500_000,
            wire_bytes_up=90_000,
            wire_packets_down=3_700,
            wire_packets_up=1_800,
            payload_bytes=5_245_776,
            retransmits=2,
            router_drops_down=0,
            router_drops_up=0,
        ),
    )


def make_calibration(error: float | None = 0.0004, excess_ms: float = 0.12, *, attempt: int = 1) -> Calibration:
    def side(direction: DirectionName) -> DirectionCalibration:
        return DirectionCalibration(
            direction=direction,
            goodput_bit_s=47.8e6 * (1 + (error or 0.0)),
            ideal_bit_s=None if error is None else 47.8e6,
            goodput_error=error,
            window_s=2.0,
            wire_bytes=12_500_000,
            wire_packets=8_256,
            mean_packet_bytes=1514.0,
            retransmits=0,
            router_drops=0,
            iperf3_bit_s=None,
        )

    return Calibration(
        at=AT,
        attempt=attempt,
        up=side("up"),
        down=side("down"),
        rtt_asked_ms=20,
        rtt_ideal_ms=20.03,
        rtt_ms=[20.1, 20.2],
        rtt_excess_ms=excess_ms,
        ok=True,
        problems=[],
    )


def make_cell(
    deviations: tuple[float | None, ...] = (0.001, -0.002, 0.0, 0.002, -0.001),
    *,
    cell_id: str = "curl--dsl-50--http1-get-5MiB-at-1MBps",
    problem: str = "",
    verdict: Verdict | None = None,
    limited: bool = True,
) -> CellResult:
    link = Link.model_validate({"rate": "50 Mbit/s", "rtt": "20 ms"})
    expectation = Expectation.model_validate({"kind": "limit" if limited else "none", "tolerance": "5 %"})
    samples = [make_sample(index, deviation) for index, deviation in enumerate(deviations)]
    if problem:
        samples.append(make_sample(len(samples), None, problem=problem))
    snapshot = HostSnapshot(at=AT, machine={"kernel": "6.1"}, hosts={"client": {"routes": [{"dst": "default"}]}})
    return CellResult(
        id=cell_id,
        run="20260102T030405-throttle-ab12",
        lab_version="0.1.0",
        backend="namespaces",
        router={"kind": "uml", "notes": ("a tuple",)},
        client=ClientIdentity(name="curl", version="7.88.1", path="/usr/bin/curl", sha256="0" * 64, command=["curl"]),
        topology=Topology.model_validate({"name": "dsl-50", "description": "a line", "link": link}),
        transfer=Transfer.model_validate(
            {"protocol": "http1", "direction": "get", "size": "5 MiB", **({"limit": "8 Mbit/s"} if limited else {})}
        ),
        expectation=expectation,
        certificate=Certificate(
            link=link,
            congestion_control="cubic",
            goodput_tolerance=0.01,
            rtt_tolerance_ms=1.0,
            before=[make_calibration()],
            after=[make_calibration(-0.0007, 0.31)],
            qdisc_commands=["tc qdisc replace dev eth0 root netem"],
            qdisc_readback={"eth0": [{"kind": "netem"}]},
        ),
        samples=samples,
        verdict=verdict or judge_samples(samples, expectation, LookPlan()),
        started_at=AT,
        ended_at=AT + timedelta(minutes=1),
        before=snapshot,
        after=snapshot,
        timing_s={"transfer": 26.2},
    )


def stored_run(
    name: str,
    cells: list[CellResult],
    answers: list[Answer] | None = None,
    *,
    skipped: dict[str, str] | None = None,
    revision: str | None = None,
    finished: bool = True,
) -> StoredRun:
    """A run as `read_run_folder` gives it."""
    record = make_record().model_copy(update={"skipped": skipped or {}, "git_revision": revision})
    return StoredRun(Path(name), cells, answers or [], record if finished else None)


@pytest.fixture
def cell() -> CellResult:
    return make_cell()


@pytest.fixture
def record() -> RunRecord:
    return make_record()


def make_record() -> RunRecord:
    return RunRecord(
        run="20260102T030405-throttle-ab12",
        command=["lab", "run", "throttle"],
        lab_version="0.1.0",
        git_revision=None,
        started_at=AT,
        ended_at=AT,
        cells=["curl--dsl-50--http1-get-5MiB-at-1MBps"],
        verdicts={"curl--dsl-50--http1-get-5MiB-at-1MBps": "PASS"},
        ended="complete",
        exit_code=0,
    )


@pytest.fixture(name="make_cell")
def make_cell_fixture() -> MakeCell:
    return make_cell


@pytest.fixture(name="make_calibration")
def make_calibration_fixture() -> MakeCalibration:
    return make_calibration


@pytest.fixture
def stored_1_0(tmp_path: Path) -> Path:
    """A results folder with the runs of tests/data/results-1.0, as the lab of that time left them."""
    source, target = DATA / "results-1.0", tmp_path / "stored-1.0"
    for packed in source.glob("2*/**/*.gz"):
        file = target / packed.relative_to(source).with_suffix("")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.decompress(packed.read_bytes()))
    for record in target.glob("*/run.json"):
        (record.parent / "cells").mkdir(exist_ok=True)
    return target


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(folder))
    return folder


@pytest.fixture
def store(results: Path, record: RunRecord) -> Callable[..., RunDir]:
    """Makes a run of cells and answers; not `whole` is one without run.json."""

    def make(*cells: CellResult, answers: tuple[Answer, ...] = (), whole: bool = True) -> RunDir:
        run = RunDir.create("cells", results=results)
        for cell in cells:
            run.write_cell(cell)
        for answer in answers:
            run.write_answer(answer)
        if whole:
            run.write_run(record)
        return run

    return make
