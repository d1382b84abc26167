"""A lab of a run: a network with its servers, the link that is shaped on it, and that link's last calibration.

All of it is kept from one cell to the next while it is still good. In virtual time a machine is booted for each piece of work.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from lab.assets.userlands import get as get_userland
from lab.clients.adapter import ClientAdapter
from lab.clients.registry import assert_able, on_host, resolve
from lab.clients.variables import with_variables
from lab.hosts.host import Host, Network
from lab.model.cell import Cell
from lab.model.clock import Clock
from lab.model.endpoint import EndpointFile
from lab.model.errors import LabFault, RoughwaterError
from lab.model.results import Calibration, HostLoad, HostSnapshot, PathCertificate
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.userland import NO_USERLANDS, Http3Server, UserlandFacts, Userlands
from lab.model.wiring import PLAIN, Wiring
from lab.net.shape import Shaped
from lab.run.clocks import clock_for, servers_for
from lab.run.host_watch import Watcher
from lab.run.instruments import Instruments
from lab.run.options import Options
from lab.run.progress import Progress
from lab.run.userlands import check_http3, endpoint_of, http3_server, nodes_userlands, refuse_in_real_time, userlands_for
from lab.run.virtual_machines import VirtualMachines
from lab.servers.bundle import DEFAULT_PAYLOADS, SERVERS, ServerName, Servers, places
from lab.store.provenance import machine_facts

CALIBRATION_ATTEMPTS = 2


class Lab:
    """Brings up what a cell needs, and keeps it for the next one. `timing_s` has what the present work spent on what."""

    def __init__(self, options: Options, name: str, progress: Progress) -> None:
        self.options = options
        self.name = options.name or name
        self.progress = progress
        self.machines = VirtualMachines(options.seed, options.machine_seed, options.charge_ns, options.tolerance, options.twins)
        self.client_facts: dict[str, object] = {}
        """Facts that were measured of the client's host: part of every snapshot from then on."""
        self.userlands: Mapping[str, UserlandFacts] = {}
        """The userlands of the network's hosts."""
        self.timing_s: dict[str, float] = {}
        self.started_at = datetime.now(UTC)
        self.abandoned = False
        self.network: Network | None = None
        self.servers: Servers | None = None
        self.calibration: Calibration | None = None
        """The last one of the link that is shaped now; None where no calibration holds."""
        self.idle: HostLoad | None = None
        """The machine's load with that calibration."""
        self._shaped: tuple[Topology, Shaped] | None = None
        self.nodes: Mapping[str, Shaped] = {}
        """The links of the path's other nodes as they are shaped."""
        self._started = 0.0
        self._turn = ExitStack()
        self._has_turn = False

    # --- networks ---------------------------------------------------------------------------------------------------

    @property
    def up(self) -> tuple[Network, Servers]:
        """The network and its servers. Only after `ready` or `bring_up`."""
        assert self.network is not None
        assert self.servers is not None
        return self.network, self.servers

    @property
    def _by(self) -> Instruments:
        return self.options.instruments

    @property
    def _same_host(self) -> bool:
        return self.up[0].router_facts.kind == "none"

    @property
    def clock(self) -> Clock:
        """The clock of the network that is up."""
        return self.up[0].clock.kind

    def begin(self) -> None:
        """New work: its times are counted from now."""
        self.timing_s = {}
        self.started_at, self._started = datetime.now(UTC), time.monotonic()

    def end(self) -> None:
        """The work is done: what is in no other time was overhead."""
        self.timing_s["overhead"] = time.monotonic() - self._started - sum(self.timing_s.values())

    def ready(self, cells: Sequence[Cell]) -> None:
        """A network for these cells together, by their clock. Raises LabFault where none can be had."""
        self.begin()
        with self.timed("bring_up"):
            wiring = cells[0].topology.wiring
            if clock_for(cells, self.options.clock) == "virtual":
                most = max(cell.transfer.total_bytes for cell in cells)
                self.boot(
                    [cell.id for cell in cells],
                    most,
                    servers=servers_for(cells),
                    wiring=wiring,
                    userlands=userlands_for(cells, self.options.userlands),
                    http3=http3_server(cells),
                    endpoint=endpoint_of(cells),
                )
            else:
                refuse_in_real_time(cells[0].id, self.options.userlands)
                self.bring_up(same_host=wiring.same_host)

    def bring_up(self, *, same_host: bool = False) -> None:
        """The network in real time, unless one is up. One in virtual time, or with other hosts, gives way to it."""
        if self.network is not None and self.clock == "real" and self._same_host == same_host:
            return
        self.close_network()
        self.userlands = {}
        self.progress.step("bringing the network up")
        if self.options.turn is not None and not self._has_turn:
            self._turn.enter_context(self.options.turn())
            self._has_turn = True
        if same_host:
            network = self._by.open_same_host(self.options.backend, name=self.name)
        else:
            network = self._by.open_network(self.options.backend, router=self.options.router, name=self.name)
        self._take_up(network)

    def boot(
        self,
        ids: Sequence[str],
        payload_bytes: int,
        servers: Collection[ServerName] = SERVERS,
        *,
        wiring: Wiring = PLAIN,
        userlands: Userlands = NO_USERLANDS,
        http3: Http3Server | None = None,
        endpoint: EndpointFile | None = None,
    ) -> None:
        """A machine in virtual time for this work alone, its seed the work's: what ran before plays no part."""
        self.close_network()
        named = {host: name for host, name in userlands._asdict().items() if name}
        found = {host: get_userland(name, self.progress.step) for host, name in named.items()}
        if http3:
            check_http3(found.get("server"), http3)
        found |= nodes_userlands(wiring, self.progress.step)
        self.userlands = {host: each.facts for host, each in found.items()}
        self.progress.step(f"{ids[0]}: booting its machine")
        network = self.machines.open_for(ids, payload_bytes, wiring=wiring, userlands=found)
        self._take_up(network, servers, http3, endpoint, wiring)

    def _take_up(
        self,
        network: Network,
        servers: Collection[ServerName] = SERVERS,
        http3: Http3Server | None = None,
        endpoint: EndpointFile | None = None,
        wiring: Wiring | None = None,
    ) -> None:
        try:
            if network.clock.kind == "real":  # every cell pins its own machine when it shapes the link
                self._by.pin(network, "cubic")
            self._by.assert_no_bypass(network)
            self.servers = self._by.start_servers(
                network,
                payload_sizes=DEFAULT_PAYLOADS if network.clock.kind == "real" else (),
                sshd_options=self.options.sshd,
                clock=network.clock,
                random_bytes=network.random_bytes,
                wanted=servers,
                places=places(wiring or Wiring(same_host=network.router_facts.kind == "none")),
                http3=http3,
                endpoint=endpoint,
            )
        except BaseException:
            network.close()
            raise
        self.network = network
        self.raise_if_abandoned()

    def close_network(self) -> None:
        """Take the network down; idempotent. The next cell brings one up again."""
        if self.network is not None:
            self.network.close()
            self.network = self.servers = None
            self.forget_link()

    def close(self) -> None:
        """Take the network down and give the machine back."""
        self.close_network()
        self._turn.close()

    def abandon(self) -> None:
        """From another thread: the present work ends with LabFault, and leaves no result that would blame the lab for it."""
        self.abandoned = True
        if self.network is not None:
            self.network.close()

    def raise_if_abandoned(self) -> None:
        """LabFault after `abandon`: whatever was measured meanwhile may lack a part, and must not be stored as a result."""
        if self.abandoned:
            raise LabFault("the run was interrupted")

    def adapter(self, client: ClientSpec) -> ClientAdapter:
        """The client with the variables of the command line. Raises UsageProblem for an unknown client."""
        return with_variables(resolve(client), self.options.variables)

    def adapter_on(self, host: Host, client: ClientSpec, transfer: Transfer, what: str) -> ClientAdapter:
        """The client by its path on that host; `what` is an id. Raises as `adapter`, and NotSupported if it cannot transfer."""
        adapter = self.adapter(client)
        assert_able(adapter, client, transfer, what)
        return on_host(adapter, host)

    # --- links ------------------------------------------------------------------------------------------------------

    def shape(self, topology: Topology) -> Shaped:
        """The link of that topology. A seeded link starts afresh for every cell, so that its losses are always the same."""
        network, _ = self.up
        if self._shaped and self._shaped[0] == topology and topology.link.seed is None:
            return self._shaped[1]
        with self.timed("shape"):
            self.forget_link()
            self._by.pin(network, topology.congestion_control, topology.link.mtu)
            shaped = self._by.shape(network, topology.link)
            self.nodes = self._by.shape_nodes(network, topology)
            for name, each in self.nodes.items():
                shaped = replace(shaped, commands=(*shaped.commands, *(f"{name}: {command}" for command in each.commands)))
        self._shaped = (topology, shaped)
        return shaped

    def forget_link(self) -> None:
        """After a fault nothing about the link is taken for granted: the next cell shapes and calibrates it again."""
        self._shaped = self.calibration = self.idle = None

    def calibrate(self, topology: Topology) -> list[Calibration]:
        """Every look is kept: a second one is taken when the first is beyond tolerance, never a third."""
        network, _ = self.up
        looks: list[Calibration] = []
        with self.timed("calibrate"):
            for attempt in range(1, CALIBRATION_ATTEMPTS + 1):
                self.progress.step(f"{topology.name}: calibrating the link")
                looks.append(
                    self._by.calibrate(
                        network,
                        topology.link,
                        topology.congestion_control,
                        tolerance=self.options.tolerance,
                        attempt=attempt,
                    )
                )
                if looks[-1].ok:
                    break
        return looks

    def certified(self, topology: Topology) -> Calibration:
        """The calibration of that link in virtual time, which is taken once and then kept."""
        with self.timed("calibrate"):
            self.progress.step(f"{topology.name}: the link's certificate")
            return self.machines.certified(topology)

    def certified_path(self, topology: Topology) -> PathCertificate | None:
        """The proof of the path besides the judged link, which is taken once and then kept; None where the link is all of it."""
        if not topology.wiring.nodes:
            return None
        with self.timed("calibrate"):
            self.progress.step(f"{topology.name}: the path's certificate")
            return self.machines.certified_path(topology, nodes_userlands(topology.wiring, self.progress.step))

    # --- the machine under it ---------------------------------------------------------------------------------------

    @property
    def watcher(self) -> Watcher:
        """Watches this machine's load. No other process can disturb a machine in virtual time."""
        network, _ = self.up
        limits = None if self.clock == "virtual" else self.options.host_limits
        return Watcher.on(network, limits, beside=self.options.beside)

    def watch_idle(self) -> HostLoad | None:
        with self.timed("host"):
            return self.watcher.idle(self.up[0])

    def snapshot(self) -> HostSnapshot:
        """The hosts' facts now; without those of hosts where they cannot be read. Raises LabFault if the lab was abandoned."""
        with self.timed("provenance"):
            try:
                found = self._by.snapshot(self.up[0])
                client = {**found.hosts["client"], **self.client_facts}
                return found.model_copy(update={"hosts": {**found.hosts, "client": client}})
            except RoughwaterError:
                # A cell that ended meanwhile would be stored as complete, and lack the facts for good.
                if self.abandoned:
                    raise
                return HostSnapshot(at=datetime.now(UTC), machine=machine_facts(), hosts={})

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.timing_s[what] = self.timing_s.get(what, 0.0) + time.monotonic() - started
