"""Cells that share one link between one pair of calibrations, their samples interleaved. One cell alone is the usual case.

The order: shape, watch the idle machine, calibrate, samples (more while a verdict is open, and again where the machine spoilt
one), calibrate and watch again, judge. The second calibration is the first of the next cell on the same, untouched link; a link
that failed one is shaped again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lab import __version__
from lab.clients import windows
from lab.clients.adapter import ClientAdapter
from lab.clients.registry import assert_able, assert_speaks, assert_speaks_here, description_of, on_host, program_here
from lab.judge.caveats import interruption_caveat
from lab.judge.diagnosis import ONE_HOST, SEVERAL_LINES, unexplained
from lab.judge.host import host_quality, judge_on_host, most_set_aside
from lab.judge.tolerance import LookPlan, judge_samples
from lab.link.path import carrying
from lab.model.cell import Cell
from lab.model.errors import LabFault
from lab.model.results import (
    CellResult,
    Certificate,
    ClientIdentity,
    HostLoad,
    HostSnapshot,
    Sample,
    SetAside,
    VirtualMachine,
)
from lab.net.certificates import begin_certificate, lab_problems, too_slow
from lab.net.path import read_back_nodes
from lab.net.pcap import KEYS_VARIABLE, keys_of
from lab.net.ports import PortSampler
from lab.net.scheduled import scheduled
from lab.net.watch import can_watch
from lab.run.counts import counted
from lab.run.lab import Lab
from lab.run.schedule import Schedule
from lab.run.userlands import one_cell


@dataclass
class Lane:
    """One of the cells, its client, and its samples so far."""

    cell: Cell
    adapter: ClientAdapter
    identity: ClientIdentity
    samples: list[Sample] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    program: str = ""
    """Its path or name on the lab's machine."""
    system: str | None = None
    """The client's system, where it is not the host's."""

    def identified(self) -> ClientIdentity:
        """The client's identity with the command of its first transfer; without a command where none ran."""
        named = self.cell.client.program
        program = os.path.abspath(named) if "/" in named else named  # noqa: PTH100 - keeps symlinks, as typed
        ran = [*self.samples, *(each.sample for each in self.set_aside)]
        command = min(ran, key=lambda sample: sample.started_at).command if ran else []
        return self.identity.model_copy(update={"command": command, "program": program})

    def snapshot(self, shared: HostSnapshot) -> HostSnapshot:
        """The host as this client saw it: two clients on one network may be of different systems, one of them under Wine."""
        client = shared.hosts.get("client")
        if self.system is None or client is None:
            return shared
        return shared.model_copy(update={"hosts": {**shared.hosts, "client": {**client, "system": self.system}}})


class Interleaving:
    """Cells on a lab, which is made ready for them. `captures` gives the folder for the packets of a cell, by its id.

    Raises NotSupported for a cell that its client cannot do, before anything is brought up; LabFault without a network.
    `order` has the index of a cell per transfer that counts; `problems` are the lab's, and make every cell INVALID.
    """

    def __init__(
        self, lab: Lab, cells: Sequence[Cell], schedule: Schedule, *, captures: Callable[[str], Path] | None = None
    ) -> None:
        clients = {client: lab.adapter(client) for client in dict.fromkeys(cell.client for cell in cells)}
        for cell in cells:
            assert_able(clients[cell.client], cell.client, cell.transfer, cell.id)
            if not one_cell(cell.client, cell.topology, lab.options.userlands, http3=False).client:
                assert_speaks_here(clients[cell.client], cell.transfer, cell.id)
        lab.ready(cells)
        self._lab = lab
        self._by = lab.options.instruments
        self._network, self._servers = lab.up
        self._schedule = schedule
        self._captures = captures
        self.order: list[int] = []
        self.problems: list[str] = []
        self._idle_before: HostLoad | None = None
        self._idle_after: HostLoad | None = None
        self._certificate: Certificate | None = None
        with lab.timed("bring_up"):
            host = self._network.client.under_test
            programs = {client: program_here(adapter) for client, adapter in clients.items()}
            clients = {client: on_host(adapter, host) for client, adapter in clients.items()}
            identities = {client: adapter.identify(host) for client, adapter in clients.items()}
            systems = {client: windows.system_of(identity) for client, identity in identities.items()}
        for cell in cells:
            assert_speaks(identities[cell.client], cell.transfer, cell.id)
        cells = [cell.in_virtual_time() for cell in cells] if self._virtual else cells
        self.lanes = [
            Lane(
                cell,
                clients[cell.client],
                identities[cell.client],
                program=programs[cell.client],
                system=systems[cell.client],
            )
            for cell in cells
        ]

    @property
    def _virtual(self) -> bool:
        return self._network.clock.kind == "virtual"

    def run(self, run_name: str, looks: LookPlan, remarks: Sequence[str] = ()) -> list[CellResult]:
        """Measure, and judge each cell on its own. A fault of the lab meanwhile is INVALID, unless the lab was abandoned.

        What the cells share (certificate, provenance, timing) is in every result, so that each can be read alone.
        """
        lab = self._lab
        before = lab.snapshot()
        try:
            self._certificate = self._measure()
            self.problems = lab_problems(self.lanes[0].cell, self._certificate)
        except LabFault as fault:
            if lab.abandoned:
                raise
            self.problems = [fault.message]
            lab.forget_link()
        self._snapshots = (before, lab.snapshot())
        lab.end()
        return [self._result(lane, run_name, looks, remarks) for lane in self.lanes]

    def _result(self, lane: Lane, run_name: str, looks: LookPlan, remarks: Sequence[str]) -> CellResult:
        network, cell = self._network, lane.cell
        limits = None if self._virtual else self._lab.options.host_limits
        # A link that failed before its second calibration cannot support a verdict on what was taken before.
        grounds = lane.samples and self._certificate
        judged = judge_samples(lane.samples, cell.expectation, looks) if grounds else None
        quality = host_quality(self._idle_before, self._idle_after, lane.set_aside, limits, looks) if limits else None
        enough = len(lane.samples) >= looks.looks[0]
        verdict = judge_on_host(judged, quality, set_aside=lane.set_aside, enough=enough, problems=self.problems)
        interrupted = interruption_caveat([sample.interruptions for sample in lane.samples])
        warnings = [*verdict.warnings, *([interrupted] if interrupted else []), *remarks]
        before, after = (lane.snapshot(shared) for shared in self._snapshots)
        return CellResult(
            id=cell.id,
            run=run_name,
            lab_version=__version__,
            backend=network.backend,
            backend_facts=dict(network.backend_facts),
            clock=network.clock.kind,
            virtual=self._guest(lane),
            userlands=dict(self._lab.userlands),
            router=network.router_facts.recorded,
            client=lane.identified(),
            topology=cell.topology,
            transfer=cell.transfer,
            expectation=cell.expectation,
            certificate=self._certificate,
            samples=lane.samples,
            set_aside=lane.set_aside,
            host=quality,
            plan=list(looks.looks),
            verdict=verdict.model_copy(update={"warnings": warnings}),
            started_at=self._lab.started_at,
            ended_at=datetime.now(UTC),
            before=before,
            after=after,
            timing_s=dict(self._lab.timing_s),
        )

    def _guest(self, lane: Lane) -> VirtualMachine | None:
        facts = self._lab.machines.facts(self._network)
        if facts is None:
            return None
        cell, userlands = lane.cell, self._lab.userlands
        return counted(
            facts,
            self._network,
            lane.identity,
            lane.program,
            cell.transfer,
            userlands=userlands,
            link_changes=cell.topology.schedule is not None,
            endpoint=cell.topology.served_by,
            description=description_of(lane.adapter),
        )

    def _measure(self) -> Certificate:
        lab, network, cell = self._lab, self._network, self.lanes[0].cell
        shaped = lab.shape(cell.topology)
        if self._virtual:
            before, path = [lab.certified(cell.topology)], lab.certified_path(cell.topology)
        else:
            self._idle_before = lab.idle if lab.calibration and lab.idle else lab.watch_idle()
            before, path = [lab.calibration] if lab.calibration else lab.calibrate(cell.topology), None
        certificate = begin_certificate(cell, shaped, before, lab.options.tolerance, path)
        if not before[-1].ok or (path and path.problems):
            lab.forget_link()
            return certificate
        if too_slow(cell, before[-1], path):
            return certificate
        with lab.timed("transfer"):
            self._take_samples()
        problems, qdiscs = self._by.read_back(network, shaped)
        if self._virtual:
            more, of_nodes = read_back_nodes(network, lab.nodes)
            if problems := [*problems, *more]:
                raise LabFault(f"the link has changed: {'; '.join(problems)}")
            return certificate.model_copy(update={"qdisc_readback": {**qdiscs, **of_nodes}})
        after = lab.calibrate(cell.topology)
        self._idle_after = lab.watch_idle()
        if after[-1].ok and not problems:
            lab.calibration, lab.idle = after[-1], self._idle_after
        else:
            lab.forget_link()
        if problems:
            after[-1] = after[-1].model_copy(update={"ok": False, "problems": [*after[-1].problems, *problems]})
        return certificate.model_copy(update={"after": after, "qdisc_readback": dict(qdiscs)})

    def _take_samples(self) -> None:
        with self._by.watch_ports(self._network) as ports:
            for turn, goal in self._schedule([lane.samples for lane in self.lanes]):
                if not self._take_turn(ports, turn, goal):
                    return

    def _take_turn(self, ports: PortSampler, turn: int, goal: int) -> bool:
        """A sample of that cell on a quiet machine, or False when the cell has set aside as many as it may.

        A sample that the machine spoilt is taken again at once, so that a round of several cells stays together.
        """
        lane, lab = self.lanes[turn], self._lab
        watcher, name = lab.watcher, lane.cell.id
        while len(lane.set_aside) < most_set_aside(lab.options.looks):
            lab.progress.step(f"{name}: sample {len(lane.samples) + 1} of {goal}")
            sample, why = watcher.take(lambda: self._sample(lane, ports), ports)
            if why is None:
                lane.samples.append(sample)
                self.order.append(turn)
                lab.progress.sample(name, sample, goal)
                return True
            # The capture of the next sample takes the place of this one's.
            lane.set_aside.append(SetAside(reason=why, sample=sample.model_copy(update={"pcap": None})))
            lab.progress.set_aside(name, sample, why)
        return False

    def _unwatched(self, cell: Cell) -> str:
        """The reason why the cell's samples cannot be watched; empty where they can."""
        if cell.transfer.protocol == "h3":
            return "of QUIC the kernels and the wire know too little"
        if cell.topology.wiring.nodes:
            return SEVERAL_LINES
        if not self._virtual:
            return "real time has no processor to spare for looking"
        return "" if can_watch(self._network) else ONE_HOST

    def _note_missing_keys(self, lane: Lane, taken: Sample) -> None:
        """Once per cell, for a client that wrote no keys of its TLS connections."""
        assert self._captures is not None
        if taken.pcap and not keys_of(self._captures(lane.cell.id) / taken.pcap).exists():
            name = lane.cell.client.name
            self._lab.progress.note(f"{lane.cell.id}: {name} writes no TLS keys to {KEYS_VARIABLE}: its captures stay encrypted")

    def _sample(self, lane: Lane, ports: PortSampler) -> Sample:
        index = len(lane.samples)
        seed = self._lab.machines.sample_seed(lane.cell.id, index)
        asked = self._lab.options.why
        unwatched = self._unwatched(lane.cell) if asked else ""
        self._network.vary(seed)
        taken = self._by.take_sample(
            self._network,
            self._servers,
            lane.adapter,
            lane.cell.transfer,
            index,
            pcap_dir=self._captures(lane.cell.id) if self._captures else None,
            ports=ports,
            link=carrying(lane.cell),
            schedule=scheduled(self._network, lane.cell.topology),
            watched=lane.cell.topology.link if asked and not unwatched else None,
        )
        if asked and unwatched:
            taken = taken.model_copy(update={"why": unexplained(None, unwatched)})
        if self._captures and index == 0 and lane.cell.transfer.over_tls:
            self._note_missing_keys(lane, taken)
        return taken.model_copy(update={"seed": seed}) if self._virtual else taken
