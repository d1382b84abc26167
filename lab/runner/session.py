"""A Session runs cells on one network and writes what came of them.

The order of a cell: shape, watch the idle machine, calibrate, samples (more while the verdict is open, and again where the
machine spoilt one), calibrate and watch again, judge, write. The second calibration of a cell is the first of the next one on the
same, untouched link; a link that failed one is put there anew. The cells of a study do all that together, their samples
interleaved between one pair of calibrations; so do the cells of a candidate and of a baseline.

A Session takes no lock: a program may have two at once (lanes do). That a machine measures one thing at a time is up to the `lab`
command (`lab.runner.machine`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from lab import __version__
from lab.backend.choose import open_network
from lab.backend.host import Network
from lab.client.registry import resolve
from lab.errors import LabFault, NotSupported, ThroughlineError
from lab.judge.host import host_quality, judge_on_host, most_set_aside
from lab.judge.tolerance import LookPlan, judge_samples
from lab.link.theory import ideal_goodput_bit_s
from lab.measure.ports import PortSampler
from lab.measure.qdiscs import read_qdiscs
from lab.measure.sample import take_sample
from lab.network.calibrate import calibrate
from lab.network.guard import assert_no_bypass
from lab.network.pins import pin
from lab.network.shape import Shaped, differences, shape
from lab.result.finding import Finding
from lab.result.models import Calibration, CellResult, Certificate, HostLoad, HostSnapshot, Sample, SetAside
from lab.result.provenance import host_snapshot, machine_facts
from lab.result.qualification import PairResult
from lab.result.store import RunDir
from lab.result.study import StudyResult
from lab.runner.certify import begin_certificate, lab_problems, too_slow
from lab.runner.clocks import clock_for, servers_for
from lab.runner.found import Found, keep
from lab.runner.machines import Machines
from lab.runner.options import Options
from lab.runner.pair import MARGIN, check_pair, pair_id, pair_result, why_untold
from lab.runner.progress import Progress, Silent
from lab.runner.schedule import Schedule, beside_baseline, round_robin, until_decided
from lab.runner.study import arms_of, study_result
from lab.runner.together import Together, remarked
from lab.runner.watched import Watcher
from lab.server.bundle import DEFAULT_PAYLOADS, SERVERS, ServerName, Servers, start_servers
from lab.spec.models import Cell, Topology
from lab.spec.study import BufferStudy
from lab.spec.units import Ratio
from lab.spec.wire import on_a_wire, with_wire

__all__ = ["CALIBRATION_ATTEMPTS", "Options", "Session"]
CALIBRATION_ATTEMPTS = 2


class RanAhead(Protocol):
    """What was run before it is asked for (`lab.runner.ahead`)."""

    def take(self, asked: Cell | BufferStudy) -> CellResult | StudyResult | ThroughlineError | None: ...


@dataclass(frozen=True)
class _Ready:
    """What a cell needs before it can be run, and when that was begun."""

    network: Network
    servers: Servers
    started_at: datetime
    started: float


class Session(Found):
    """Use as a context manager: leaving it closes the network and writes run.json."""

    def __init__(self, run: RunDir, options: Options | None = None, *, progress: Progress | None = None) -> None:
        super().__init__(run)
        self.options = options or Options()
        self.progress = progress or Silent()
        # What every verdict is told with, until further notice.
        self.remarks: tuple[str, ...] = ()
        # What a study measured of the client's host: part of every snapshot from then on.
        self.client_facts: dict[str, object] = {}
        self.problem: ThroughlineError | None = None
        self._network: Network | None = None
        self._servers: Servers | None = None
        self._shaped: tuple[Topology, Shaped] | None = None
        self._calibration: Calibration | None = None
        self._idle: HostLoad | None = None
        self._spent: dict[str, float] = {}
        self._abandoned = False
        chosen = self.options
        self._machines = Machines(chosen.seed, chosen.machine_seed, chosen.charge_ns, chosen.tolerance)
        self._held = ExitStack()
        self._has_turn = False
        self.ahead: RanAhead | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Take the network down and write run.json; idempotent."""
        self.close_network()
        self._held.close()
        if self.results or self.findings:
            self.run.write_run(self.record())

    def close_network(self) -> None:
        """Take the network down; idempotent. The next cell brings one up again."""
        if self._network is not None:
            self._network.close()
            self._network = self._servers = None
            self._forget_link()

    @property
    def abandoned(self) -> bool:
        return self._abandoned

    def lane(self, number: int, progress: Progress) -> Session:
        """Another session of the same run, with a network and results of its own; they become this one's by `absorb`."""
        options = replace(self.options, name=f"{self.options.name or self.run.name}-lane{number}")
        made = Session(self.run, options, progress=progress)
        made.client_facts = self.client_facts
        return made

    def bring_up(self) -> None:
        """The network, before the first cell needs it. Raises as `run_cell`."""
        with self._keeping_problem("the network"):
            self._bring_up()

    def abandon(self) -> None:
        """From another thread: whatever runs here ends with LabFault, and leaves no result that would blame the lab for it."""
        self._abandoned = True
        if self._network is not None:
            self._network.close()

    def run_cell(self, cell: Cell) -> CellResult:
        """Run one cell to its verdict and write it.

        A fault of the lab during the cell ends in INVALID. Raises UsageProblem for bad input and LabFault when no network can be
        had; the first such problem is kept, because Robot shows an exception only to its own log.
        """
        with self._keeping_problem(cell.id):
            if isinstance(found := self._ran_ahead(cell), CellResult):
                return found
            return self._run_together([cell], self._get_ready([cell]), until_decided(cell, self._looks([cell]))).results[0]

    def run_study(self, study: BufferStudy) -> StudyResult:
        """Run the cells of a study interleaved to its verdict; write them and it. Raises as `run_cell`."""
        with self._keeping_problem(study.id):
            if isinstance(found := self._ran_ahead(study), StudyResult):
                return found
            cells, left_out = arms_of(study, resolve(study.client))
            ready = self._get_ready([*cells.values()])
            looks = self._looks([*cells.values()])
            together = self._run_together([*cells.values()], ready, round_robin([*cells], study.floor.value, looks))
            result = study_result(
                study,
                dict(zip(cells, together.results, strict=True)),
                order=together.order,
                left_out=left_out,
                problems=together.problems,
                looks=looks,
            )
            self.run.write_study(result)
            keep(self.studies, result)
            self.progress.verdict(result.id, result.verdict)
            return result

    def run_pair(self, candidate: Cell, baseline: Cell, *, margin: Ratio = MARGIN) -> PairResult:
        """Run two clients' cells of one transfer interleaved; write both and their comparison.

        Raises as `run_cell`, NotSupported where either client cannot do it, and as `check_pair`.
        """
        with self._keeping_problem(pair_id(candidate, baseline)):
            check_pair(candidate, baseline)
            looks = self._looks([candidate, baseline])
            schedule = beside_baseline(candidate, None if why_untold(candidate) else margin.value, looks)
            together = self._run_together([candidate, baseline], self._get_ready([candidate, baseline]), schedule)
            result = pair_result(
                candidate,
                pair_id(candidate, baseline),
                together.results,
                margin=margin,
                order=together.order,
                problems=together.problems,
                looks=looks,
            )
            self.run.write_pair(result)
            keep(self.pairs, result)
            if result.verdict:
                self.progress.verdict(result.id, result.verdict)
            return result

    @contextmanager
    def bench(self, what: str, topology: Topology, *, real: bool = False) -> Iterator[tuple[Network, Servers]]:
        """The network, shaped, for a study that is no cell; `what` is its id, `real` that it asks about the machine.

        Raises as `run_cell`. Afterwards nothing about the link is taken for granted: the next cell shapes and calibrates anew.
        """
        with self._keeping_problem(what):
            self._spent = {}
            if self.options.clock != "real" and not real:
                self._open_machine([what], 0)
            network, servers = self._bring_up()
            try:
                self._shape(with_wire(topology) if network.clock.kind == "virtual" else topology, network)
                yield network, servers
            finally:
                self._forget_link()

    def keep(self, finding: Finding) -> None:
        """Write what a study found, and count its verdict."""
        self.run.write_finding(finding)
        self.findings.append(finding)
        self.progress.verdict(finding.id, finding.verdict)

    # ---------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _keeping_problem(self, what: str) -> Iterator[None]:
        try:
            yield
        except NotSupported as reason:
            self.progress.skipped(reason.message)
            self.skipped[what] = reason.message.rpartition(f"{what}: ")[2]
            raise
        except ThroughlineError as problem:
            self.problem = self.problem or problem
            raise

    def _get_ready(self, cells: Sequence[Cell]) -> _Ready:
        self._spent = {}
        started_at, started = datetime.now(UTC), time.monotonic()
        with self._timed("bring_up"):
            if clock_for(cells, self.options.clock) == "virtual":
                most = max(cell.transfer.total_bytes for cell in cells)
                self._open_machine([cell.id for cell in cells], most, servers=servers_for(cells))
            elif self._network is not None and self._network.clock.kind == "virtual":
                self.close_network()
            network, servers = self._bring_up()
        return _Ready(network, servers, started_at, started)

    def _run_together(self, cells: Sequence[Cell], ready: _Ready, schedule: Schedule) -> Together:
        """Cells on one link, between one pair of calibrations; each is judged and written on its own.

        What they have in common (certificate, provenance, where the time went) is in every file, so that each can be read alone.
        """
        network = ready.network
        if network.clock.kind == "virtual":
            cells = [on_a_wire(cell) for cell in cells]
        with self._timed("bring_up"):
            together = Together.on(network, cells, schedule)
        certificate: Certificate | None = None
        before = self._snapshot(network)
        try:
            certificate = self._measure(together, ready)
            together.problems = lab_problems(cells[0], certificate)
        except LabFault as fault:
            if self._abandoned:
                raise
            together.problems = [fault.message]
            self._forget_link()
        after = self._snapshot(network)
        self._spent["overhead"] = time.monotonic() - ready.started - sum(self._spent.values())
        looks = self._looks(cells)
        limits = None if network.clock.kind == "virtual" else self.options.host_limits
        for index, (cell, own, aside) in enumerate(zip(cells, together.samples, together.set_aside, strict=True)):
            # A link that failed before its second calibration is no ground for a verdict on what was taken before.
            judged = judge_samples(own, cell.expectation, looks) if own and certificate else None
            quality = host_quality(together.idle_before, together.idle_after, aside, limits, looks) if limits else None
            judged = judge_on_host(
                judged, quality, set_aside=aside, enough=len(own) >= looks.looks[0], problems=together.problems
            )
            result = CellResult(
                id=cell.id,
                run=self.run.name,
                lab_version=__version__,
                backend=network.backend,
                backend_facts=dict(network.backend_facts),
                clock=network.clock.kind,
                virtual=self._machines.facts(network),
                router={**vars(network.router_facts), "notes": list(network.router_facts.notes)},
                client=together.identity(index, ready.servers),
                topology=cell.topology,
                transfer=cell.transfer,
                expectation=cell.expectation,
                certificate=certificate,
                samples=own,
                set_aside=aside,
                host=quality,
                plan=list(looks.looks),
                verdict=remarked(judged, self.remarks),
                started_at=ready.started_at,
                ended_at=datetime.now(UTC),
                before=together.snapshot(index, before),
                after=together.snapshot(index, after),
                timing_s=dict(self._spent),
            )
            self.run.write_cell(result)
            keep(self.results, result)
            self.progress.verdict(cell.id, result.verdict)
            together.results.append(result)
        return together

    def _bring_up(self) -> tuple[Network, Servers]:
        if self._network is None or self._servers is None:
            self.progress.step("bringing the network up")
            self._take_turn_of_machine()
            make = self.options.open_network or (
                lambda: open_network(self.options.backend, router=self.options.router, name=self.options.name or self.run.name)
            )
            self._take_up(make())
        assert self._network is not None
        assert self._servers is not None
        return self._network, self._servers

    def _open_machine(self, ids: Sequence[str], payload_bytes: int, servers: Collection[ServerName] = SERVERS) -> None:
        """A machine in virtual time for this work alone, its seed the work's: what ran before plays no part."""
        self.close_network()
        self.progress.step(f"{ids[0]}: booting its machine")
        network = self._machines.open_for(ids, payload_bytes)
        self._take_up(network, servers)

    def _take_turn_of_machine(self) -> None:
        if self.options.turn is not None and not self._has_turn:
            self._held.enter_context(self.options.turn())
            self._has_turn = True

    def _ran_ahead(self, asked: Cell | BufferStudy) -> CellResult | StudyResult | None:
        """What came of it before it was asked for; None where it is still to be run."""
        found = self.ahead.take(asked) if self.ahead else None
        if isinstance(found, ThroughlineError):
            raise found
        if isinstance(found, CellResult):
            keep(self.results, found)
        elif found is not None:
            keep(self.studies, found)
        return found

    def _looks(self, cells: Sequence[Cell]) -> LookPlan:
        virtual = clock_for(cells, self.options.clock) == "virtual"
        return self.options.virtual_looks if virtual else self.options.looks

    def _take_up(self, network: Network, servers: Collection[ServerName] = SERVERS) -> None:
        try:
            if network.clock.kind == "real":  # every cell pins its own machine when it shapes the link
                pin(network, "cubic")
            assert_no_bypass(network)
            self._servers = start_servers(
                network,
                payload_sizes=DEFAULT_PAYLOADS if network.clock.kind == "real" else (),
                sshd_options=self.options.sshd,
                clock=network.clock,
                random_bytes=network.random_bytes,
                wanted=servers,
            )
        except BaseException:
            network.close()
            raise
        self._network = network
        if self._abandoned:
            raise LabFault("the run was interrupted")

    def _forget_link(self) -> None:
        """After a fault nothing about the link is taken for granted: the next cell has it put there anew, and calibrated."""
        self._shaped = self._calibration = self._idle = None

    def _measure(self, together: Together, ready: _Ready) -> Certificate:
        cell, network = together.cells[0], ready.network
        shaped = self._shape(cell.topology, network)
        if network.clock.kind == "virtual":
            before = [self._certified(cell)]
        else:
            together.idle_before = self._idle if self._calibration and self._idle else self._watch_idle(network)
            before = [self._calibration] if self._calibration else self._calibrate(cell, network)
        certificate = begin_certificate(cell, shaped, before, self.options.tolerance)
        if not before[-1].ok:
            self._forget_link()
            return certificate
        if too_slow(cell, before[-1]):
            return certificate
        with self._timed("transfer"):
            self._take_samples(together, ready)
        problems = differences(network, shaped)
        if network.clock.kind == "virtual":
            if problems:
                raise LabFault(f"the link has changed: {'; '.join(problems)}")
            return certificate.model_copy(update={"qdisc_readback": dict(read_qdiscs(network))})
        after = self._calibrate(cell, network)
        together.idle_after = self._watch_idle(network)
        if after[-1].ok and not problems:
            self._calibration, self._idle = after[-1], together.idle_after
        else:
            self._forget_link()
        if problems:
            after[-1] = after[-1].model_copy(update={"ok": False, "problems": [*after[-1].problems, *problems]})
        return certificate.model_copy(update={"after": after, "qdisc_readback": dict(read_qdiscs(network))})

    def _take_samples(self, together: Together, ready: _Ready) -> None:
        with PortSampler(ready.network) as ports:
            for turn, goal in together.schedule(together.samples):
                if not self._take_turn(together, ready, ports, turn, goal):
                    return

    def _take_turn(self, together: Together, ready: _Ready, ports: PortSampler, turn: int, goal: int) -> bool:
        """A sample of that cell on a quiet machine, or False when the cell has set aside as many as it may.

        One that the machine spoilt is taken again at once, so that a round of several cells stays together.
        """
        cell, own, aside = together.cells[turn], together.samples[turn], together.set_aside[turn]
        watcher = self._watcher(ready.network)

        def transfer() -> Sample:
            seed = self._machines.sample_seed(cell.id, len(own))
            ready.network.vary(seed)
            taken = take_sample(
                ready.network,
                ready.servers,
                together.adapters[turn],
                cell.transfer,
                len(own),
                pcap_dir=self.run.evidence(cell.id) if self.options.pcap else None,
                ports=ports,
                ideal_bit_s=ideal_goodput_bit_s(cell.link_direction),
            )
            return taken.model_copy(update={"seed": seed}) if ready.network.clock.kind == "virtual" else taken

        while len(aside) < most_set_aside(self.options.looks):
            self.progress.step(f"{cell.id}: sample {len(own) + 1} of {goal}")
            sample, why = watcher.take(transfer, ports)
            if why is None:
                own.append(sample)
                together.order.append(turn)
                self.progress.sample(cell.id, sample, goal)
                return True
            # The capture of the next one takes the place of its own.
            aside.append(SetAside(reason=why, sample=sample.model_copy(update={"pcap": None})))
            self.progress.set_aside(cell.id, sample, why)
        return False

    def _certified(self, cell: Cell) -> Calibration:
        with self._timed("calibrate"):
            self.progress.step(f"{cell.topology.name}: the link's certificate")
            return self._machines.certified(cell.topology)

    def _watcher(self, network: Network) -> Watcher:
        """No other process can disturb a machine in virtual time."""
        limits = None if network.clock.kind == "virtual" else self.options.host_limits
        return Watcher.on(network, limits, beside=self.options.beside)

    def _watch_idle(self, network: Network) -> HostLoad | None:
        with self._timed("host"):
            return self._watcher(network).idle(network)

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
                found = host_snapshot(network)
                client = {**found.hosts["client"], **self.client_facts}
                return found.model_copy(update={"hosts": {**found.hosts, "client": client}})
            except ThroughlineError:
                return HostSnapshot(at=datetime.now(UTC), machine=machine_facts(), hosts={})

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._spent[what] = self._spent.get(what, 0.0) + time.monotonic() - started
