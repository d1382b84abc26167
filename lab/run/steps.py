"""A test in steps: a lab that is started, changed and used transfer by transfer, and what came of it as one answer.

Nothing is repeated or judged by itself: the test says what it expects of each transfer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lab import __version__
from lab.clients.registry import assert_speaks, userland_of
from lab.hosts.host import Process
from lab.link.path import carrying
from lab.model.answer import Answer, Observation
from lab.model.cell import Cell
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import Link
from lab.model.results import Calibration, ClientIdentity, Sample, Verdict, VerdictName
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.userland import H3_SERVER
from lab.net import shape
from lab.net.scheduled import scheduled
from lab.run import commands
from lab.run.events.flap import link_down
from lab.run.sample import take_sample
from lab.run.session import Session
from lab.run.userlands import http3_server_of, one_cell, refuse_in_real_time


@dataclass(frozen=True)
class _Planned:
    """A change of the link, in seconds after the next transfer begins."""

    after_s: float
    act: Callable[[], None]


class Steps:
    """One test on a session's lab. `name` is the test's; in virtual time it decides the machine's seed."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._lab = session, session.lab
        self.id = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "steps"
        self._topology: Topology | None = None
        self._link = Link()
        self._planned: list[_Planned] = []
        self._seen: list[Observation] = []
        self._last: tuple[ClientIdentity, Transfer] | None = None
        self._started_at = datetime.now(UTC)

    def start(self, topology: Topology, largest_bytes: int) -> None:
        """Bring the network up, with room for transfers of that size, and shape its link. Raises LabFault."""
        self._lab.begin()
        self._started_at = self._lab.started_at
        if self._session.options.clock != "real":
            named = one_cell(None, topology, self._session.options.userlands, http3=False)
            http3 = http3_server_of(topology) if named.server and not topology.endpoint else None
            self._lab.boot(
                [self.id],
                largest_bytes,
                wiring=topology.wiring,
                userlands=named,
                http3=http3,
                endpoint=topology.served_by,
            )
        else:
            refuse_in_real_time(self.id, self._session.options.userlands)
            self._lab.bring_up(same_host=topology.same_host)
        self._topology = topology.in_virtual_time() if self._lab.clock == "virtual" else topology
        self._link = self._topology.link
        self._lab.shape(self._topology)

    def change(self, changes: dict[str, object], after_s: float | None = None) -> Link:
        """The link with these settings from now on, or so long after the next transfer begins. Raises ValueError."""
        network, _ = self._lab.up
        self._steady()
        link = Link.model_validate({**self._link.model_dump(), **changes})

        def act() -> None:
            shape.change(network, link)
            self._link = link

        self._do(act, after_s)
        return link

    def interrupt(self, lasting_s: float, after_s: float | None = None) -> None:
        """Both directions lose everything for that time."""
        network, _ = self._lab.up
        self._steady()

        def act() -> None:
            with link_down(network, self._link):
                network.clock.sleep(lasting_s)

        self._do(act, after_s)

    def calibrate(self) -> Calibration:
        """The link as it is now against theory. Raises LabFault where it is beyond tolerance."""
        topology = self._started()
        looks = self._lab.calibrate(topology.model_copy(update={"link": self._link}))
        if not looks[-1].ok:
            raise LabFault(f"the link is not what it claims to be: {'; '.join(looks[-1].problems)}")
        return looks[-1]

    def transfer(self, client: ClientSpec, transfer: Transfer) -> Sample:
        """One transfer, with what was planned for it. Raises NotSupported where the client cannot do it."""
        topology = self._started()
        network, servers = self._lab.up
        cell = Cell(
            client=client,
            topology=topology.model_copy(update={"link": self._link}),
            transfer=transfer,
            expectation=Expectation(kind="none"),
        )
        if cell.unserved:
            raise NotSupported(f"{cell.id}: {cell.unserved}")
        adapter = self._lab.adapter_on(network.client.under_test, client, transfer, cell.id)
        self._check_userland(client, transfer)
        identity = adapter.identify(network.client.under_test)
        assert_speaks(identity, transfer, cell.id)
        identity = identity.model_copy(update={"program": client.program})
        self._last = identity, transfer
        index = len(self._seen)
        network.vary(self._lab.machines.sample_seed(f"{self.id} {cell.id}", index))
        planned = self._take_planned()
        sample = take_sample(
            network,
            servers,
            adapter,
            transfer,
            index,
            link=carrying(cell),
            schedule=scheduled(network, cell.topology),
            meanwhile=(lambda process: self._meanwhile(process, planned)) if planned else None,
        )
        self._last = identity.model_copy(update={"command": sample.command}), transfer
        self._session.progress.sample(self.id, sample, index + 1)
        figures = {"wall_s": sample.wall_s, "exit_code": float(sample.exit_code)}
        if sample.body_byte_s is not None:
            figures["body_MBps"] = sample.body_byte_s / 1e6
        self._seen.append(Observation(name=f"{index + 1}. {cell.id}", problem=sample.problem, figures=figures))
        return sample

    def _check_userland(self, client: ClientSpec, transfer: Transfer) -> None:
        """A test in steps has one network, which was there before its clients were known."""
        here, own = self._lab.userlands, userland_of(client)
        if own and (own != here["client"].name if "client" in here else True):
            raise NotSupported(f"{client.name} needs --userland client={own}")
        if transfer.protocol == "h3" and "server" not in here and not (self._topology and self._topology.endpoint):
            raise NotSupported(f"HTTP/3 in steps needs --userland server={H3_SERVER}")

    def command(self, argv: Sequence[str], *, environment: Mapping[str, str], folder: str, timeout_s: float) -> commands.Measured:
        """Any command on the client's host, with what was planned for it. Raises as `commands.measure`."""
        self._started()
        planned = self._take_planned()
        return commands.measure(
            self._lab.up[0],
            argv,
            environment=environment,
            folder=folder,
            timeout_s=timeout_s,
            meanwhile=(lambda process: self._meanwhile(process, planned)) if planned else None,
        )

    def stop(self) -> None:
        """Nothing about the link is taken for granted from here on; in virtual time the machine is gone."""
        self._lab.forget_link()
        if self._lab.network is not None and self._lab.clock == "virtual":
            self._lab.close_network()
        self._topology = None

    def answer(self, verdict: VerdictName, reason: str) -> Answer | None:
        """The test as an answer, written to the run; None where no transfer ran."""
        if self._last is None:
            return None
        client, transfer = self._last
        return self._session.keep(
            Answer(
                id=self.id,
                question="complete",
                run=self._session.run.name,
                lab_version=__version__,
                backend=self._backend,
                clocks=["real" if self._session.options.clock == "real" else "virtual"],
                client=client,
                topology=self._last_topology,
                transfer=transfer,
                observations=self._seen,
                verdict=Verdict(name=verdict, reason=reason),
                started_at=self._started_at,
                ended_at=datetime.now(UTC),
            )
        )

    _backend = ""
    _last_topology: Topology | None = None

    def _started(self) -> Topology:
        if self._topology is None:
            raise UsageProblem("no lab is up", remedy="begin with Start Lab")
        self._last_topology, self._backend = self._topology, self._lab.up[0].backend
        return self._topology

    def _steady(self) -> None:
        """Raises UsageProblem where a schedule changes the link: it would undo what is changed by hand."""
        if (topology := self._started()).schedule:
            raise UsageProblem(f"the schedule of {topology.name} changes its link already", remedy="take a topology without one")

    def _do(self, act: Callable[[], None], after_s: float | None) -> None:
        if after_s is None:
            act()
        else:
            self._planned.append(_Planned(after_s, act))

    def _take_planned(self) -> list[_Planned]:
        planned, self._planned = sorted(self._planned, key=lambda each: each.after_s), []
        return planned

    def _meanwhile(self, process: Process, planned: list[_Planned]) -> None:
        clock = self._lab.up[0].clock
        began_ns = clock.monotonic_ns()
        for each in planned:
            clock.sleep(max(0.0, each.after_s - (clock.monotonic_ns() - began_ns) / 1e9))
            if not process.running():
                raise LabFault(
                    f"the transfer was over before the link could change after {each.after_s:g} s", remedy="take a larger size"
                )
            each.act()
