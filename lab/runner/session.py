"""A Session runs cells on one network and writes what came of them.

The order of a cell: shape, calibrate, samples (more while the verdict is open), calibrate again, judge, write. The second
calibration of a cell is the first of the next one on the same, untouched link.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import __version__
from lab.backend.host import Network
from lab.backend.namespaces.network import RouterChoice, open_network
from lab.client.adapter import ClientAdapter
from lab.client.registry import resolve
from lab.errors import LabFault, ThroughlineError, UsageProblem
from lab.judge.tolerance import LookPlan, judge_samples, samples_wanted, with_invalid
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
    Verdict,
)
from lab.result.provenance import git_revision, host_snapshot, machine_facts
from lab.result.store import RunDir, exit_code
from lab.runner.progress import Progress, Silent
from lab.server.bundle import Servers, start_servers
from lab.spec.models import Cell, Topology, Transfer

CALIBRATION_ATTEMPTS = 2


@dataclass(frozen=True)
class Options:
    """What the command line may change about every cell of a session."""

    router: RouterChoice = "auto"
    pcap: bool = False
    looks: LookPlan = field(default_factory=LookPlan)
    tolerance: Tolerance = field(default_factory=Tolerance)
    open_network: Callable[[], Network] | None = None


class Session:
    """Use as a context manager: leaving it closes the network and writes run.json."""

    def __init__(self, run: RunDir, options: Options | None = None, *, progress: Progress | None = None) -> None:
        self.run = run
        self.options = options or Options()
        self.progress = progress or Silent()
        self.results: list[CellResult] = []
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
        return RunRecord(
            run=self.run.name,
            command=sys.argv,
            lab_version=__version__,
            git_revision=git_revision(),
            started_at=self.started_at,
            ended_at=datetime.now(UTC),
            cells=[result.id for result in self.results],
            verdicts=verdicts,
            exit_code=exit_code(verdicts.values()),
        )

    def run_cell(self, cell: Cell) -> CellResult:
        """Run one cell to its verdict and write it.

        A fault of the lab during the cell ends in INVALID. Raises UsageProblem for bad input and LabFault when no network can be
        had; the first such problem is kept, because Robot shows an exception only to its own log.
        """
        try:
            return self._run_cell(cell)
        except ThroughlineError as problem:
            self.problem = self.problem or problem
            raise

    def _run_cell(self, cell: Cell) -> CellResult:
        self._spent = {}
        started_at = datetime.now(UTC)
        whole = time.monotonic()
        with self._timed("bring_up"):
            network, servers = self._bring_up()
            adapter = resolve(cell.client)
            if reason := adapter.supports(cell.transfer):
                raise UsageProblem(f"{cell.client.name} cannot do {cell.id}: {reason}")
            identity = adapter.identify(network.client)
        samples: list[Sample] = []
        certificate: Certificate | None = None
        before = self._snapshot(network)
        try:
            certificate = self._measure(cell, adapter, network, servers, samples)
            verdict = _verdict(cell, certificate, samples, self.options.looks)
        except LabFault as fault:
            verdict = with_invalid(None, [fault.message])
            self._forget_link()
        self._spent["overhead"] = time.monotonic() - whole - sum(self._spent.values())
        result = CellResult(
            id=cell.id,
            run=self.run.name,
            lab_version=__version__,
            backend=network.backend,
            router={**vars(network.router_facts), "notes": list(network.router_facts.notes)},
            client=_with_command(identity, adapter, cell.transfer, servers),
            topology=cell.topology,
            transfer=cell.transfer,
            expectation=cell.expectation,
            certificate=certificate,
            samples=samples,
            verdict=verdict,
            started_at=started_at,
            ended_at=datetime.now(UTC),
            before=before,
            after=self._snapshot(network),
            timing_s=self._spent,
        )
        self.run.write_cell(result)
        self.results.append(result)
        self.progress.verdict(cell.id, verdict)
        return result

    # ---------------------------------------------------------------------------------------------------------------

    def _bring_up(self) -> tuple[Network, Servers]:
        if self._network is None or self._servers is None:
            self.progress.step("bringing the network up")
            make = self.options.open_network or (lambda: open_network(router=self.options.router, name=self.run.name))
            network = make()
            try:
                pin(network, "cubic")
                assert_no_bypass(network)
                self._servers = start_servers(network)
            except BaseException:
                network.close()
                raise
            self._network = network
        return self._network, self._servers

    def _forget_link(self) -> None:
        """After a fault nothing about the link is taken for granted."""
        self._shaped = self._calibration = None

    def _measure(
        self, cell: Cell, adapter: ClientAdapter, network: Network, servers: Servers, samples: list[Sample]
    ) -> Certificate:
        shaped = self._shape(cell.topology, network)
        before = [self._calibration] if self._calibration else self._calibrate(cell, network)
        certificate = _certificate(cell, shaped, before, self.options.tolerance)
        if not before[-1].ok or _too_slow(cell, before[-1]):
            return certificate
        pcap_dir = self.run.evidence(cell.id) if self.options.pcap else None
        with self._timed("transfer"):
            self._take_samples(cell=cell, adapter=adapter, network=network, servers=servers, samples=samples, pcap_dir=pcap_dir)
        problems = differences(network, shaped)
        after = self._calibrate(cell, network)
        self._calibration = after[-1] if after[-1].ok and not problems else None
        if problems:
            after[-1] = after[-1].model_copy(update={"ok": False, "problems": [*after[-1].problems, *problems]})
        return certificate.model_copy(update={"after": after, "qdisc_readback": dict(read_qdiscs(network))})

    def _take_samples(
        self,
        *,
        cell: Cell,
        adapter: ClientAdapter,
        network: Network,
        servers: Servers,
        samples: list[Sample],
        pcap_dir: Path | None,
    ) -> None:
        looks = self.options.looks
        with PortSampler(network) as ports:
            self._until_decided(
                cell,
                samples,
                looks,
                lambda index: take_sample(network, servers, adapter, cell.transfer, index, pcap_dir=pcap_dir, ports=ports),
            )

    def _until_decided(self, cell: Cell, samples: list[Sample], looks: LookPlan, take: Callable[[int], Sample]) -> None:
        while (goal := samples_wanted(samples, cell.expectation, looks)) is not None:
            while len(samples) < goal:
                self.progress.step(f"{cell.id}: sample {len(samples) + 1} of {goal}")
                samples.append(take(len(samples)))
                self.progress.sample(cell.id, samples[-1], goal)
                if not samples[-1].ok:
                    return

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


def _verdict(cell: Cell, certificate: Certificate, samples: list[Sample], looks: LookPlan) -> Verdict:
    problems = [f"before: {problem}" for problem in certificate.before[-1].problems]
    if certificate.after:
        problems += [f"after: {problem}" for problem in certificate.after[-1].problems]
    if too_slow := _too_slow(cell, certificate.before[-1]):
        problems.append(too_slow)
    judged = judge_samples(samples, cell.expectation, looks) if samples else None
    return with_invalid(judged, problems) if problems or judged is None else judged


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


def _with_command(identity: ClientIdentity, adapter: ClientAdapter, transfer: Transfer, servers: Servers) -> ClientIdentity:
    return identity.model_copy(update={"command": adapter.command(transfer, servers.endpoints)})
