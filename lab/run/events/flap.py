"""Something happens to the network in the middle of a transfer: the link is down for a second, or the client's address changes.

Either begins only when a part of the content has passed the router, and what the router counted meanwhile proves it:
a link that is down carries nothing. Both are undone before these functions return, whatever the client did.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab.hosts.clocks import Clock
from lab.hosts.host import Completed, Host, Network, Process
from lab.hosts.wiring import LEAF
from lab.link.layers import LayeredPlan, link_plan
from lab.link.plan import LEAST_QUEUE_PACKETS, QdiscPlan
from lab.model.errors import ClientFault, LabFault
from lab.model.link import DirectionName, Link
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.model.units import Duration, Ratio
from lab.net import shape
from lab.net.pins import pin_host
from lab.net.ports import PortReading, PortSampler
from lab.run.events.client_run import Bench, ClientRun, prepare
from lab.run.events.refusal import try_connect

_BEGIN_S = 30.0
# netem drops at its entrance: what is in it, a queue of one BDP behind half a round trip, still arrives.
_SETTLE_S, _SETTLE_RTTS = 0.1, 2
_PAUSE_S = 0.002
_BARE = QdiscPlan(
    limit_packets=LEAST_QUEUE_PACKETS,
    delay=Duration(0),
    jitter=Duration(0),
    rate=None,
    loss=Ratio(0),
    reorder=Ratio(0),
    corrupt=Ratio(0),
    duplicate=Ratio(0),
    seed=None,
)


@dataclass(frozen=True)
class Interrupted:
    """A transfer and its interruption; times in seconds since the client's start, bytes by the router's port."""

    done: Completed
    content: str
    at_s: float
    moved_bytes: int
    lasted_s: float
    silent_bytes: int | None

    @property
    def waited_s(self) -> float:
        """From the interruption to the client's end."""
        return self.done.wall_s - self.at_s


def down_commands(
    link: Link, ports: Mapping[DirectionName, str], *, supports_seed: bool, own_delay: Duration = Duration(0)
) -> list[tuple[str, ...]]:
    """tc commands that make both egresses lose everything; `ports` by direction. Packets on their way still arrive."""
    commands: list[tuple[str, ...]] = []
    for direction in shape.DIRECTIONS:
        found = link_plan(link.direction(direction), link.rtt, supports_seed=supports_seed, own_delay=own_delay)
        if isinstance(found, LayeredPlan):
            lossy = replace(found, netem=replace(found.netem, loss=Ratio(1)))
            commands += lossy.changes(ports[direction], found)
            continue
        commands += replace(found or _BARE, loss=Ratio(1)).commands(ports[direction], "change" if found else "add")
    return commands


@contextmanager
def link_down(network: Network, link: Link) -> Iterator[None]:
    """Both directions lose everything inside the block; afterwards the router holds `link` again, read back."""
    shape.assert_shapable(network)
    ports = {direction: shape.router_port(network, direction) for direction in shape.DIRECTIONS}
    try:
        seeded, own_delay = network.router_facts.supports_seed, network.own_delay
        for command in down_commands(link, ports, supports_seed=seeded, own_delay=own_delay):
            network.router.run(command, root=True)
        yield
    finally:
        shape.change(network, link)


@dataclass(frozen=True)
class Leaf:
    """The address of a host's interface with its prefix, its default gateway, and the neighbours (address, MAC).

    The lab made the neighbours permanent; the kernel removes them with the last address.
    """

    address: str
    gateway: str
    neighbours: tuple[tuple[str, str], ...] = ()

    def other_address(self) -> str:
        """The next address of the same network that is neither its own nor the gateway's; the first one after the last."""
        interface = ipaddress.IPv4Interface(self.address)
        taken = {str(interface.ip), self.gateway}
        hosts = [host for host in interface.network.hosts() if str(host) not in taken]
        free = next((host for host in hosts if host > interface.ip), hosts[0])
        return f"{free}/{interface.network.prefixlen}"


def parse_leaf(addresses: str, routes: str, neighbours: str) -> Leaf:
    """From `ip -j` of its addresses, default route and permanent neighbours. Raises LabFault where there is not one address and
    one route.
    """
    try:
        (found,) = [info for device in json.loads(addresses) for info in device.get("addr_info", []) if info["scope"] == "global"]
        (route,) = json.loads(routes)
        known = tuple((each["dst"], each["lladdr"]) for each in json.loads(neighbours or "[]"))
        return Leaf(f"{found['local']}/{found['prefixlen']}", route["gateway"], known)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabFault("the client's host has not one address and one default route: it cannot be given another") from None


def set_address_script(leaf: Leaf, address: str, congestion_control: str) -> str:
    """Shell lines that leave the interface with `address` alone, and the default route as it was.

    Without `promote_secondaries` the kernel takes every address of a network away with its first, so the new one comes after.
    """
    gateway, control = shlex.quote(leaf.gateway), shlex.quote(congestion_control)
    return "\n".join(
        (
            f"ip -4 address flush dev {LEAF} scope global",
            f"ip address add {shlex.quote(address)} dev {LEAF}",
            *(f"ip neighbour replace {other} lladdr {mac} nud permanent dev {LEAF}" for other, mac in leaf.neighbours),
            f"ip route replace default via {gateway} dev {LEAF} congctl {control}",
        )
    )


@contextmanager
def other_address(host: Host, topology: Topology) -> Iterator[str]:
    """The host has another address inside the block, which begins when it has; afterwards its own again, pinned."""
    asked = (
        ["ip", "-j", "-4", "address", "show", "dev", LEAF],
        ["ip", "-j", "route", "show", "default"],
        ["ip", "-j", "-4", "neighbour", "show", "dev", LEAF, "nud", "permanent"],
    )
    addresses, routes, neighbours = (host.run(command, root=True).text for command in asked)
    leaf = parse_leaf(addresses, routes, neighbours)
    new = leaf.other_address()

    def become(address: str) -> None:
        host.run(["/bin/sh", "-ec", set_address_script(leaf, address, topology.congestion_control)], root=True)

    try:
        become(new)
        yield new
    finally:
        become(leaf.address)
        pin_host(host, topology.congestion_control, topology.link.mtu)


def measure_flap(bench: Bench, transfer: Transfer, topology: Topology, *, down_s: float, patience_s: float) -> Interrupted:
    """The link is down for `down_s` in the middle of the transfer. LabFault when it was over before, or went on."""

    shape.assert_shapable(bench.network)
    clock = bench.network.clock

    def flap(process: Process) -> tuple[int, int]:
        del process
        with link_down(bench.network, topology.link):
            started_ns = clock.monotonic_ns()
            clock.sleep(down_s)
            return started_ns, clock.monotonic_ns()

    settle_s = _SETTLE_S + _SETTLE_RTTS * topology.link.rtt.ns / 1e9
    found = _interrupt(prepare(bench, transfer), flap, patience_s=patience_s, settle_s=settle_s)
    # A frame or two of a neighbour's discovery or of an acknowledgement may be on its way; a transfer is not.
    if found.silent_bytes is None or found.silent_bytes > transfer.total_bytes // 100:
        raise LabFault(f"the link was down for {down_s:g} s and {found.silent_bytes} bytes passed")
    return found


def measure_address_change(bench: Bench, transfer: Transfer, topology: Topology, *, patience_s: float) -> Interrupted:
    """The client's host gets another address in the middle of the transfer, and has its own again after the client's end.

    Raises LabFault when the transfer was over before, or the server is out of reach afterwards.
    """
    network = bench.network
    shape.assert_shapable(network)

    def change(process: Process) -> tuple[int, int]:
        with other_address(network.client, topology):
            started_ns = network.clock.monotonic_ns()
            process.wait(patience_s)
            return started_ns, network.clock.monotonic_ns()

    found = _interrupt(prepare(bench, transfer), change, patience_s=patience_s)
    reached = try_connect(network.client, bench.servers.endpoints.server, bench.servers.endpoints.http_port)
    if reached.outcome != "open":
        raise LabFault(f"the client's host has its address again, but cannot reach the server ({reached.outcome})")
    return found


def _interrupt(
    attempt: ClientRun, disturb: Callable[[Process], tuple[int, int]], *, patience_s: float, settle_s: float = _SETTLE_S
) -> Interrupted:
    """Start the client, disturb the network once a quarter of the content has passed, and wait for the end.

    `disturb` returns the times between which the disturbance was fully in effect. The commands that set it up and undo it (some
    10 ms each) are outside that span. Raises ClientFault if the client fails or does not begin before the disturbance, and
    LabFault if it finished too early.
    """
    network = attempt.bench.network
    down = attempt.transfer.direction == "get"
    port = network.wire_ports.client if down else network.wire_ports.server
    needed = attempt.transfer.total_bytes // 4
    with PortSampler(network) as ports:
        first = _sent(ports.rows(), port)
        process = attempt.start()
        try:
            _wait_for(network.clock, ports, port, first + needed, process)
            if not process.running():
                done = process.wait(1.0)
                if done.returncode:
                    raise ClientFault(
                        f"failed with exit code {done.returncode} before anything was done to it: {done.error_text}"
                    )
                raise LabFault("the client was done before it could be interrupted", remedy="take a larger size")
            disturbed_ns = network.clock.monotonic_ns()
            moved = _sent(ports.rows(), port) - first
            whole_ns, back_ns = disturb(process)
        except BaseException:
            process.stop(0.0)
            raise
        done = process.wait(patience_s)
        at_s = (disturbed_ns - done.started_ns) / 1e9
        silent = silent_bytes(ports.rows(), port, whole_ns + round(settle_s * 1e9), min(back_ns, done.ended_ns))
    return Interrupted(done, attempt.content(), at_s, moved, (back_ns - whole_ns) / 1e9, silent)


def silent_bytes(rows: Sequence[PortReading], port: str, from_ns: int, to_ns: int) -> int | None:
    """The bytes that the port sent between two instants; None where fewer than two readings lie between them."""
    inside = [row for row in rows if from_ns <= row.t_ns <= to_ns]
    return inside[-1][port].tx_bytes - inside[0][port].tx_bytes if len(inside) > 1 else None


def _wait_for(clock: Clock, ports: PortSampler, port: str, goal: int, process: Process) -> None:
    deadline_ns = clock.monotonic_ns() + round(_BEGIN_S * 1e9)
    while process.running() and _sent(ports.rows(), port) < goal:
        if clock.monotonic_ns() > deadline_ns:
            raise ClientFault(f"had not moved a quarter of the content after {_BEGIN_S:g} s, with nothing in its way")
        clock.sleep(_PAUSE_S)


def _sent(rows: Sequence[PortReading], port: str) -> int:
    return rows[-1][port].tx_bytes if rows else 0
