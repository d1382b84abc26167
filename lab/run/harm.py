"""The harm of clients to a bystander on their link, in virtual time: measured solo first, then next to each (ADR 0035)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab.assets.tools import provide
from lab.clients.adapter import ClientAdapter
from lab.clients.registry import on_host, resolve
from lab.hosts.host import Network
from lab.hosts.virtual.machine import Patience, derived_seed
from lab.hosts.virtual.network import open_network
from lab.judge.harm import Delay, delay, harm_of_delay, harm_of_goodput
from lab.judge.quantile import quantile
from lab.link.schedule import Course, carried_bytes, course
from lab.link.theory import ideal_goodput_bit_s
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import DirectionName, carrier
from lab.model.obeyed import refuse
from lab.model.results import Sample
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Duration
from lab.model.userland import NO_USERLANDS, Userlands
from lab.net.bystander import Echo, bystander
from lab.net.flow import Flow, RunningFlow, flowing
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.scheduled import scheduled
from lab.net.shape import shape
from lab.run.progress import Progress
from lab.run.sample import take_sample
from lab.run.userlands import found_userlands, http3_server_of, one_cell
from lab.servers.bundle import Servers, start_servers

SOLO_S = 5.0
FLOW_SOLO_S = 20.0
_QUEUED = Duration.parse("1 s")
"""A client cannot see when its last byte leaves a full queue, and harm does not judge its clock."""
_PATIENCE = Patience(cpu_s=1800.0, real_s=6 * 3600.0)
"""A cell's patience is for one transfer; this machine runs many."""


@dataclass(frozen=True)
class FlowSeen:
    """The rate of a competing flow, and for web pages the seconds of each."""

    byte_s: float
    page_s: tuple[float, ...] = ()

    @classmethod
    def of(cls, running: RunningFlow, from_ns: int, to_ns: int) -> FlowSeen:
        return cls(running.byte_s(from_ns, to_ns), tuple(running.page_s(from_ns, to_ns)))


@dataclass(frozen=True)
class Beside:
    """One transfer, and the bystander's round trips meanwhile, counted from the schedule's beginning. `share` is that of what the
    link could carry while the body moved."""

    client: str
    transfer: Transfer
    index: int
    problem: str
    wall_s: float
    goodput_byte_s: float | None
    share: float | None
    echoes: tuple[Echo, ...]
    flow: FlowSeen | None = None

    @property
    def direction(self) -> DirectionName:
        return carrier(self.transfer.direction)

    @property
    def delay(self) -> Delay | None:
        return delay([echo.rtt_ms for echo in self.echoes])


@dataclass(frozen=True)
class HarmTable:
    """`solo` is the bystander without a client, next to the competing flow if there is one, during a complete `course` of the
    link; a row per sample.

    `left_out` says which clients were not run, and why.
    """

    topology: Topology
    seed: int
    course: Course
    solo: tuple[Echo, ...]
    rows: tuple[Beside, ...]
    left_out: tuple[str, ...]
    flow: Flow | None
    flow_solo: Mapping[DirectionName, FlowSeen]

    @property
    def solo_delay(self) -> Delay:
        found = delay([echo.rtt_ms for echo in self.solo])
        if found is None:
            raise LabFault(f"no packet of the bystander came back over {self.topology.name}, which carried nothing else")
        return found

    def of(self, client: str) -> list[Beside]:
        return [row for row in self.rows if row.client == client]

    def pooled(self, client: str) -> Delay | None:
        """The bystander's delay during all transfers of the client that arrived."""
        return delay([echo.rtt_ms for row in self.of(client) if not row.problem for echo in row.echoes])

    def solo_of(self, client: str) -> Delay | None:
        """The bystander's delay alone, of the pieces of the schedule in which the client's transfers moved, each as often."""
        walls = [round(row.wall_s * 1e9) for row in self.of(client) if not row.problem]
        alike = [
            echo.rtt_ms for echo in self.solo for _ in range(sum(self.course.visits(echo.sent_ns, wall_ns) for wall_ns in walls))
        ]
        return delay(alike)

    def added_p95_ms(self, client: str) -> float | None:
        """The client's addition to the bystander's p95 in the same pieces of the schedule."""
        solo, found = self.solo_of(client), self.pooled(client)
        return found.p95_ms - solo.p95_ms if solo and found else None

    def harm(self, client: str) -> float | None:
        """To the delay, at p95."""
        solo, found = self.solo_of(client), self.pooled(client)
        return harm_of_delay(solo.p95_ms, found.p95_ms) if solo and found else None

    def flow_seen(self, client: str) -> FlowSeen | None:
        """The flow next to all transfers of the client that arrived: its average rate, and every page."""
        seen = [row.flow for row in self.of(client) if row.flow and not row.problem]
        if not seen:
            return None
        return FlowSeen(math.fsum(each.byte_s for each in seen) / len(seen), tuple(page for each in seen for page in each.page_s))

    def flow_harm(self, client: str) -> float | None:
        """To the flow: of web to the p95 of its pages' times, of others to the goodput."""
        seen = self.flow_seen(client)
        if seen is None or self.flow is None:
            return None
        solo = self.flow_solo[self.of(client)[0].direction]
        if self.flow.kind != "web":
            return harm_of_goodput(solo.byte_s, seen.byte_s)
        alone_s, beside_s = (quantile(each, 0.95) for each in (solo.page_s, seen.page_s))
        return None if alone_s is None or beside_s is None else harm_of_delay(alone_s, beside_s)

    def flow_share(self, client: str) -> float | None:
        """The flow's part of the link's ideal goodput."""
        seen = self.flow_seen(client)
        ideal = ideal_goodput_bit_s(self.topology.link.direction(self.of(client)[0].direction))
        return seen.byte_s * 8 / ideal if seen and ideal else None


def chosen(client: ClientSpec, transfers: Sequence[Transfer]) -> tuple[ClientAdapter, Transfer]:
    """The first transfer that the client can do. Raises NotSupported with its reason against the last one."""
    adapter, why = resolve(client), ""
    for transfer in transfers:
        why = adapter.supports(transfer)
        if not why:
            return adapter, transfer
    raise NotSupported(f"{client.name}: {why}")


def harm_table(
    topology: Topology,
    clients: Sequence[ClientSpec],
    transfers: Sequence[Transfer],
    *,
    samples: int,
    seed: int,
    progress: Progress,
    flow: Flow | None = None,
) -> HarmTable:
    """Each client moves the first of `transfers` that it can, `samples` times, next to the flow.

    Transfers of one index have one seed for all clients: they differ by what they do, not by what the link drew for them.

    Raises LabFault, and UsageProblem for a network that has no link or clients of different userlands.
    """
    refuse("harm", topology, "virtual")
    topology = topology.in_virtual_time()
    rows, left_out = list[Beside](), list[str]()
    with _lab(topology, clients, transfers, seed, progress) as (network, servers):
        progress.step(f"{topology.name}: the bystander alone")
        ways: list[DirectionName] = list(dict.fromkeys(carrier(each.direction) for each in transfers)) if flow else ["down"]
        alone = {way: _alone(network, topology, flow, way, seed) for way in ways}
        solo = alone[ways[0]][0]
        for client in clients:
            try:
                adapter, transfer = chosen(client, transfers)
            except NotSupported as reason:
                left_out.append(reason.message)
                continue
            adapter = on_host(adapter, network.client.under_test)
            adapter.identify(network.client.under_test)
            for index in range(samples):
                progress.step(f"{topology.name}: {client.name}, transfer {index + 1} of {samples}")
                network.vary(derived_seed(seed, index))
                rows.append(_beside(network, servers, topology, adapter, transfer, index=index, flow=flow, seed=seed))
    flows = {way: seen for way, (_, seen) in alone.items()}
    return HarmTable(topology, seed, _course(topology, flow), solo, tuple(rows), tuple(left_out), flow, flows)


def _userlands(topology: Topology, clients: Sequence[ClientSpec], *, http3: bool) -> Userlands:
    """The userlands of the one machine that all clients share. Raises UsageProblem where the clients need different ones."""
    found = {one_cell(client, topology, NO_USERLANDS, http3=http3): client.name for client in clients}
    if len(found) > 1:
        named = " and ".join(f"{name} of {each.client or 'this machine'}" for each, name in found.items())
        raise UsageProblem(f"clients share a machine, and their userlands differ: {named}", remedy="measure one after the other")
    return next(iter(found))


@contextmanager
def _lab(
    topology: Topology, clients: Sequence[ClientSpec], transfers: Sequence[Transfer], seed: int, progress: Progress
) -> Iterator[tuple[Network, Servers]]:
    provide(progress.step)
    most = max(each.total_bytes for each in transfers)
    http3 = any(each.protocol == "h3" for each in transfers)
    program = http3_server_of(topology) if http3 else None
    userlands = found_userlands(_userlands(topology, clients, http3=http3), progress.step, program)
    network = open_network(seed=seed, payload_bytes=most, patience=_PATIENCE, name="harm", userlands=userlands)
    try:
        pin(network, topology.congestion_control, topology.link.mtu)
        assert_no_bypass(network)
        servers = start_servers(network, payload_sizes=(), clock=network.clock, random_bytes=network.random_bytes, http3=program)
        shape(network, topology.link)
        yield network, servers
    finally:
        network.close()


def _course(topology: Topology, flow: Flow | None) -> Course:
    """A link with a schedule has several round trips of its own: all of them belong to what the bystander has alone."""
    return course(topology.schedule, topology.link, round((FLOW_SOLO_S if flow else SOLO_S) * 1e9))


def _alone(
    network: Network, topology: Topology, flow: Flow | None, way: DirectionName, seed: int
) -> tuple[tuple[Echo, ...], FlowSeen]:
    with scheduled(network, topology) as changing, flowing(network, flow, way, seed) as running, bystander(network) as other:
        if changing:
            changing.start()
        from_ns = network.clock.monotonic_ns()
        seen = _course(topology, flow)
        network.clock.sleep(max(FLOW_SOLO_S if flow else SOLO_S, (seen.once_ns + seen.period_ns) / 1e9))
        to_ns = network.clock.monotonic_ns()
    return _since(from_ns, other.between(from_ns, from_ns + seen.once_ns + seen.period_ns)), FlowSeen.of(running, from_ns, to_ns)


def _beside(
    network: Network,
    servers: Servers,
    topology: Topology,
    adapter: ClientAdapter,
    transfer: Transfer,
    *,
    index: int,
    flow: Flow | None,
    seed: int,
) -> Beside:
    began_ns, link = list[int](), topology.link.direction(carrier(transfer.direction))
    with flowing(network, flow, carrier(transfer.direction), seed) as running, bystander(network) as other:
        sample = take_sample(
            network,
            servers,
            adapter,
            transfer,
            index,
            link=link.model_copy(update={"delay": Duration(link.delay.ns + _QUEUED.ns)}),
            schedule=scheduled(network, topology),
            meanwhile=lambda _: began_ns.append(network.clock.monotonic_ns()),
        )
    ended_ns = began_ns[0] + round(sample.wall_s * 1e9)
    return Beside(
        client=adapter.name,
        transfer=transfer,
        index=index,
        problem=sample.problem,
        wall_s=sample.wall_s,
        goodput_byte_s=sample.body_byte_s,
        share=_share(topology, transfer, sample),
        echoes=_since(began_ns[0], other.between(began_ns[0], ended_ns)),
        flow=FlowSeen.of(running, began_ns[0], ended_ns) if flow else None,
    )


def _since(from_ns: int, echoes: Sequence[Echo]) -> tuple[Echo, ...]:
    return tuple(replace(echo, sent_ns=echo.sent_ns - from_ns) for echo in echoes)


def _share(topology: Topology, transfer: Transfer, sample: Sample) -> float | None:
    """The part of what the link carries while the body moves; a schedule begins with the client."""
    if topology.schedule is None or sample.problem or not sample.body_s:
        return sample.goodput_ratio
    end_s = sample.wall_s - (sample.tail_s or 0.0)
    span = (round(each * 1e9) for each in (max(0.0, end_s - sample.body_s), end_s))
    carried = carried_bytes(topology.link, topology.schedule, carrier(transfer.direction), *span)
    return transfer.total_bytes / carried if carried else None
