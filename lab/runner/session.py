"""A Session runs cells on one network and writes what came of them.

The order of a cell: shape, calibrate, samples (more while the verdict is open), calibrate again, judge, write. The second
calibration of a cell is the first of the next one on the same, untouched link. The cells of a study do all that together, their
samples interleaved between one pair of calibrations.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from lab import __version__
from lab.backend.agent.router import RouterChoice
from lab.backend.choose import Backend, open_network
from lab.backend.host import Network
from lab.client.adapter import ClientAdapter
from lab.client.registry import resolve
from lab.errors import LabFault, NotSupported, ThroughlineError
from lab.judge.tolerance import LookPlan, judge_samples, with_invalid
from lab.measure.ports import PortSampler
from lab.measure.qdiscs import read_qdiscs
from lab.measure.sample import take_sample
from lab.network.calibrate import Tolerance, calibrate
from lab.network.guard import assert_no_bypass
from lab.network.pins import pin
from lab.network.shape import Shaped, differences, shape
from lab.result.models import (
    Calibration,
    CellResult,
    Certificate,
    ClientIdentity,
    HostSnapshot,
    RunRecord,
    Sample,
)
from lab.result.provenance import git_revision, host_snapshot, machine_facts
from lab.result.store import RunDir, exit_code
from lab.result.study import StudyResult
from lab.runner.progress import Progress, Silent
from lab.runner.schedule import Schedule, round_robin, until_decided
from lab.runner.study import arms_of, study_result
from lab.server.bundle import Servers, start_servers
from lab.server.sshd import SshdOptions
from lab.spec.models import Cell, Topology
from lab.spec.study import BufferStudy

CALIBRATION_ATTEMPTS = 2


@dataclass(frozen=True)
class Options:
    """What the command line may change about every cell of a session."""

    router: RouterChoice = "auto"
    backend: Backend = "namespaces"
    pcap: bool = False
    looks: LookPlan = field(default_factory=LookPlan)
    tolerance: Tolerance = field(default_factory=Tolerance)
    open_network: Callable[[], Network] | None = None
    sshd: SshdOptions = field(default_factory=SshdOptions)


@dataclass(frozen=True)
class _Ready:
    """What a cell needs before it can be run, and when that was begun."""

    network: Network
    servers: Servers
    adapter: ClientAdapter
    started_at: datetime
    started: float


@dataclass(frozen=True)
class _Together:
    """Cells that ran interleaved: their results, whose transfer was when, and what was wrong with the lab meanwhile."""

    cells: list[CellResult]
    order: list[int]
    problems: list[str]


class Session:
    """Use as a context manager: leaving it closes the network and writes run.json."""

    def __init__(self, run: RunDir, options: Options | None = None, *, progress: Progress | None = None) -> None:
        self.run = run
        self.options = options or Options()
        self.progress = progress or Silent()
        self.results: list[CellResult] = []
        self.studies: list[StudyResult] = []
        self.problem: ThroughlineError | None = None
        self.started_at = datetime.now(UTC)
        self._network: Network | None = None
        self._servers: Servers | None = None
        self._shaped: tuple[Topology, Shaped] | None = None
        self._calibration: Calibration | None = None
        self._spent: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Take the network down and write run.json; idempotent."""
        if self._network is not None:
            self._network.close()
            self._network = self._servers = self._shaped = self._calibration = None
        if self.results:
            self.run.write_run(self.record())

    def record(self) -> RunRecord:
        verdicts = {result.id: result.verdict.name for result in self.results}
        verdicts |= {study.id: study.verdict.name for study in self.studies}
        return RunRecord(
            run=self.run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
            cells=[result.id for result in self.results],
            studies=[study.id for study in self.studies],
            verdicts=verdicts,
            exit_code=exit_code(verdicts.values()),
        )

    def run_cell(self, cell: Cell) -> CellResult:
        """Run one cell to its verdict and write it.

        A fault of the lab during the cell ends in INVALID. Raises UsageProblem for bad input and LabFault when no network can be
        had; the first such problem is kept, because Robot shows an exception only to its own log.
        """
        with self._keeping_problem():
            return self._run_together([cell], self._bring_up_for(cell), until_decided(cell, self.options.looks)).cells[0]

    def run_study(self, study: BufferStudy) -> StudyResult:
        """Run the cells of a study interleaved to its verdict; write them and it. Raises as `run_cell`."""
        with self._keeping_problem():
            ready = self._bring_up_for(study.cell(study.buffers[0]))
            cells, left_out = arms_of(study, ready.adapter)
            looks = self.options.looks
            together = self._run_together([*cells.values()], ready, round_robin([*cells], study.floor.value, looks))
            result = study_result(
                study,
                dict(zip(cells, together.cells, strict=True)),
                order=together.order,
                left_out=left_out,
                problems=together.problems,
                looks=looks,
            )
            self.run.write_study(result)
            self.studies.append(result)
            self.progress.verdict(result.id, result.verdict)
            return result

    # ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _keeping_problem(self) -> Iterator[None]:
        try:
            yield
        except NotSupported as reason:
            self.progress.skipped(reason.message)
            raise
        except ThroughlineError as problem:
            self.problem = self.problem or problem
            raise

    def _bring_up_for(self, cell: Cell) -> _Ready:
        self._spent = {}
        started_at, started = datetime.now(UTC), time.monotonic()
        with self._timed("bring_up"):
            network, servers = self._bring_up()
        return _Ready(network, servers, resolve(cell.client), started_at, started)

    def _run_together(self, cells: Sequence[Cell], ready: _Ready, schedule: Schedule) -> _Together:
        """Cells of one client on one link, between one pair of calibrations; each is judged and written on its own.

        What they have in common (certificate, provenance, where the time went) is in every file, so that each can be read alone.
        """
        network, adapter = ready.network, ready.adapter
        with self._timed("bring_up"):
            for cell in cells:
                if reason := adapter.supports(cell.transfer):
                    raise NotSupported(f"{cell.client.name} cannot do {cell.id}: {reason}")
            identity = adapter.identify(network.client)
        samples: list[list[Sample]] = [[] for _ in cells]
        order: list[int] = []
        certificate: Certificate | None = None
        before = self._snapshot(network)
        try:
            certificate = self._measure(cells, ready, samples, order, schedule)
            problems = _problems(cells[0], certificate)
        except LabFault as fault:
            problems = [fault.message]
            self._forget_link()
        after = self._snapshot(network)
        self._spent["overhead"] = time.monotonic() - ready.started - sum(self._spent.values())
        results: list[CellResult] = []
        for cell, own in zip(cells, samples, strict=True):
            # A link that failed before its second calibration is no ground for a verdict on what was taken before.
            judged = judge_samples(own, cell.expectation, self.options.looks) if own and certificate else None
            result = CellResult(
                id=cell.id,
                run=self.run.name,
                lab_version=__version__,
                backend=network.backend,
                backend_facts=dict(network.backend_facts),
                router={**vars(network.router_facts), "notes": list(network.router_facts.notes)},
                client=_with_command(identity, adapter, cell, ready.servers),
                topology=cell.topology,
                transfer=cell.transfer,
                expectation=cell.expectation,
                certificate=certificate,
                samples=own,
                verdict=with_invalid(judged, problems),
                started_at=ready.started_at,
                ended_at=datetime.now(UTC),
                before=before,
                after=after,
                timing_s=dict(self._spent),
            )
            self.run.write_cell(result)
            self.results.append(result)
            self.progress.verdict(cell.id, result.verdict)
            results.append(result)
        return _Together(results, order, problems)

    def _bring_up(self) -> tuple[Network, Servers]:
        if self._network is None or self._servers is None:
            self.progress.step("bringing the network up")
            make = self.options.open_network or (
                lambda: open_network(self.options.backend, router=self.options.router, name=self.run.name)
            )
            network = make()
            try:
                pin(network, "cubic")
                assert_no_bypass(network)
                self._servers = start_servers(network, sshd_options=self.options.sshd)
            except BaseException:
                network.close()
                raise
            self._network = network
        return self._network, self._servers

    def _forget_link(self) -> None:
        """After a fault nothing about the link is taken for granted."""
        self._shaped = self._calibration = None

    def _measure(
        self, cells: Sequence[Cell], ready: _Ready, samples: list[list[Sample]], order: list[int], schedule: Schedule
    ) -> Certificate:
        cell, network = cells[0], ready.network
        shaped = self._shape(cell.topology, network)
        before = [self._calibration] if self._calibration else self._calibrate(cell, network)
        certificate = _certificate(cell, shaped, before, self.options.tolerance)
        if not before[-1].ok or _too_slow(cell, before[-1]):
            return certificate
        with self._timed("transfer"):
            self._take_samples(cells, ready, samples, order, schedule)
        problems = differences(network, shaped)
        after = self._calibrate(cell, network)
        self._calibration = after[-1] if after[-1].ok and not problems else None
        if problems:
            after[-1] = after[-1].model_copy(update={"ok": False, "problems": [*after[-1].problems, *problems]})
        return certificate.model_copy(update={"after": after, "qdisc_readback": dict(read_qdiscs(network))})

    def _take_samples(
        self, cells: Sequence[Cell], ready: _Ready, samples: list[list[Sample]], order: list[int], schedule: Schedule
    ) -> None:
        with PortSampler(ready.network) as ports:
            for turn, goal in schedule(samples):
                cell, own = cells[turn], samples[turn]
                self.progress.step(f"{cell.id}: sample {len(own) + 1} of {goal}")
                pcap_dir = self.run.evidence(cell.id) if self.options.pcap else None
                own.append(
                    take_sample(
                        ready.network, ready.servers, ready.adapter, cell.transfer, len(own), pcap_dir=pcap_dir, ports=ports
                    )
                )
                order.append(turn)
                self.progress.sample(cell.id, own[-1], goal)

    def _shape(self, topology: Topology, network: Network) -> Shaped:
        """A seeded link starts afresh for every cell, so that its losses are the same whatever ran before."""
        if self._shaped and self._shaped[0] == topology and topology.link.seed is None:
            return self._shaped[1]
        with self._timed("shape"):
            self._forget_link()
            pin(network, topology.congestion_control, topology.link.mtu)
            shaped = shape(network, topology.link)
        self._shaped = (topology, shaped)
        return shaped

    def _calibrate(self, cell: Cell, network: Network) -> list[Calibration]:
        """Every look is kept: a second one is taken when the first is beyond tolerance, never a third."""
        looks: list[Calibration] = []
        with self._timed("calibrate"):
            for attempt in range(1, CALIBRATION_ATTEMPTS + 1):
                self.progress.step(f"{cell.topology.name}: calibrating the link")
                looks.append(
                    calibrate(
                        network,
                        cell.topology.link,
                        cell.topology.congestion_control,
                        tolerance=self.options.tolerance,
                        attempt=attempt,
                    )
                )
                if looks[-1].ok:
                    break
        return looks

    def _snapshot(self, network: Network) -> HostSnapshot:
        with self._timed("provenance"):
            try:
                return host_snapshot(network)
            except ThroughlineError:
                return HostSnapshot(at=datetime.now(UTC), machine=machine_facts(), hosts={})

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent[what] = self._spent.get(what, 0.0) + time.monotonic() - started


def _too_slow(cell: Cell, calibration: Calibration) -> str:
    """A throttle can only be judged on a link that carries more than the limit."""
    if cell.transfer.limit is None:
        return ""
    side = calibration.down if cell.transfer.direction == "get" else calibration.up
    limit_bit_s = cell.transfer.limit.byte_s * 8
    if side.goodput_bit_s >= limit_bit_s * (1 + cell.expectation.tolerance.value):
        return ""
    return (
        f"the link carries {side.goodput_bit_s / 1e6:.2f} Mbit/s, too little to judge a limit of {limit_bit_s / 1e6:.2f} Mbit/s"
    )


def _problems(cell: Cell, certificate: Certificate) -> list[str]:
    """Why the lab was not what it claims; empty when it was."""
    problems = [f"before: {problem}" for problem in certificate.before[-1].problems]
    if certificate.after:
        problems += [f"after: {problem}" for problem in certificate.after[-1].problems]
    if too_slow := _too_slow(cell, certificate.before[-1]):
        problems.append(too_slow)
    return problems


def _certificate(cell: Cell, shaped: Shaped, before: list[Calibration], tolerance: Tolerance) -> Certificate:
    return Certificate(
        link=cell.topology.link,
        congestion_control=cell.topology.congestion_control,
        goodput_tolerance=tolerance.goodput,
        rtt_tolerance_ms=tolerance.rtt_ms,
        before=before,
        after=[],
        qdisc_commands=list(shaped.commands),
        qdisc_readback={},
    )


def _with_command(identity: ClientIdentity, adapter: ClientAdapter, cell: Cell, servers: Servers) -> ClientIdentity:
    named = cell.client.program
    program = os.path.abspath(named) if "/" in named else named  # noqa: PTH100 - keeps symlinks, as typed
    return identity.model_copy(update={"command": adapter.command(cell.transfer, servers.endpoints), "program": program})
