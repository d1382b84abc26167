"""Makes the three hosts of a topology in one machine in virtual time: wired and routed, not yet shaped.

The same namespaces, wires and commands as `lab/hosts/namespaces`; the router is the machine's own kernel, which has netem.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lab.assets import kernel
from lab.assets.userlands import Userland
from lab.hosts import loopback
from lab.hosts.agent import router as middle
from lab.hosts.agent.places import LAB_UID
from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.namespaces.network import ADDRESSES, CLIENT_ADDRESS, PORTS, SERVER_ADDRESS, leaf_macs, leaf_script, ports_script
from lab.hosts.virtual import ipv6, names, path, ready
from lab.hosts.virtual.host import VirtualClock, VirtualHost
from lab.hosts.virtual.machine import CHARGE_MOST_NS, Boot, Machine, Patience
from lab.model.clock import CHARGE_NS
from lab.model.errors import LabFault
from lab.model.paths import cache_dir
from lab.model.units import Duration
from lab.model.wiring import PLAIN, PathNode, Wiring

# The lab's programs and servers, and room for what they write: payloads at both ends, and captures.
_PROGRAMS_BYTES = 768 << 20
_LEAST_MEMORY_BYTES, _STEP_BYTES = 832 << 20, 256 << 20
_MEMORY_PER_PAYLOAD_BYTE = 3
_KEYS_SEED = 1
_LONGEST_PHASE_NS = 100_000_000
_ADDRESSES = {"client": CLIENT_ADDRESS, "server": SERVER_ADDRESS}


@dataclass
class VirtualNetwork:
    """A `Network` (`lab.hosts.host`) whose hosts, router and clock are one machine's."""

    machine: Machine
    client: VirtualHost
    router: Host
    server: VirtualHost
    wire: VirtualHost
    router_ports: Ports
    wire_ports: Ports
    router_facts: RouterFacts
    clock: VirtualClock
    random: random.Random
    conditions: Mapping[str, bool]
    name: str = "virtual"
    backend: str = "virtual"
    own_delay: Duration = field(default_factory=lambda: Duration(0))
    first_processes: tuple[int, ...] = ()
    nodes: Mapping[str, VirtualHost] = field(default_factory=dict)
    """The nodes of its path besides the router, by name, in the order from client to server."""

    @property
    def prober(self) -> Host:
        return self.client

    @property
    def backend_facts(self) -> Mapping[str, str]:
        return {}

    @property
    def virtual_facts(self) -> Mapping[str, Any]:
        boot, shipped = self.machine.boot, kernel.facts()
        return {
            "seed": boot.seed,
            "kernel_release": shipped.release,
            "kernel_sha256": shipped.sha256,
            "charge_ns": boot.charge_ns,
            "charge_most_ns": boot.charge_most_ns,
            "conditions": dict(self.conditions),
            "real_s": round(time.monotonic() - self.machine.booted, 3),
        }

    def vary(self, seed: int) -> None:
        """Seed the kernel's random numbers at the next tick, and let clients begin up to 100 ms after one."""
        self.machine.ask({"op": "vary"}, [seed.to_bytes(8, "big") * 4])
        self.machine.phase_ns = random.Random(seed).randrange(_LONGEST_PHASE_NS)  # noqa: S311

    def random_bytes(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def close(self) -> None:
        self.machine.close()


def memory_for(payload_bytes: int) -> int:
    """Bytes for a machine with room for a transfer of that size, in few steps: machines of one size share a ready one."""
    wanted = _PROGRAMS_BYTES + _MEMORY_PER_PAYLOAD_BYTE * payload_bytes
    return _LEAST_MEMORY_BYTES if wanted <= _LEAST_MEMORY_BYTES else -(-wanted // _STEP_BYTES) * _STEP_BYTES


def open_network(
    *,
    seed: int = 1,
    payload_bytes: int = 0,
    memory_bytes: int = 0,
    charge_ns: int = CHARGE_NS,
    charge_most_ns: int = CHARGE_MOST_NS,
    patience: Patience | None = None,
    name: str = "",
    wiring: Wiring = PLAIN,
    userlands: Mapping[str, Userland] | None = None,
) -> VirtualNetwork:
    """Boot and wire. `userlands` are by host.

    The machine has memory for that payload, or `memory_bytes` if that is more.

    Raises LabFault where the machine does not boot or is not deterministic.
    """
    memory = max(memory_for(payload_bytes), memory_bytes)
    boot = Boot(seed=seed, memory_bytes=memory, charge_ns=charge_ns, charge_most_ns=charge_most_ns)
    roots = dict(userlands or {})

    def wire(booted: Machine) -> Wired:
        wired = _wire_one(booted, roots, wiring) if wiring.same_host else _wire(booted, roots, wiring)
        # From numbers of their own: those before depend on the tools that wired the machine.
        booted.ask({"op": "vary"}, [_KEYS_SEED.to_bytes(32, "big")])
        booted.ask({"op": "draw_keys"})
        return wired

    kind = (replace(boot, seed=0), wiring, tuple((host, str(userland.root)) for host, userland in roots.items()), _cache())
    machine, wired = ready.take(kind, boot, wire, patience)
    try:
        made = _network(machine, wired, name or f"virtual-{secrets.token_hex(3)}", roots, wiring)
        if wiring.dns:
            nearest = wiring.path[0]
            names.start_resolver(made.nodes[nearest.name] if isinstance(nearest, PathNode) else made.wire, wiring)
        for node, nat in wiring.nats.items():
            made.nodes[node.name].under_test.run(["/bin/sh", "-ec", path.nat_script(nat)], root=True)
        # This ends a second after the start. Before, iputils' ping takes the clock's 0 seconds for a clock that it has not read
        # yet, and sends without waiting for its interval.
        made.vary(seed)
        machine.phase_ns = 0
    except BaseException:
        machine.close()
        raise
    return made


class Wired(NamedTuple):
    """Facts of a machine from its wiring, the same for each of its forks."""

    conditions: Mapping[str, bool]
    router_facts: RouterFacts
    router_ports: Ports
    wire_ports: Ports


def _wire(machine: Machine, roots: Mapping[str, Userland], wiring: Wiring) -> Wired:
    """Make client and server, and the router between them; `roots` are those of userlands, by host."""
    conditions = _furnish(machine, names.files(wiring), roots)
    wire = VirtualHost(machine, "wire", "", namespace="router")
    hosts = [VirtualHost(machine, name, address) for name, address in _ADDRESSES.items()]
    for host in hosts:
        machine.ask({"op": "namespace", "name": host.name})
    if wiring.nodes:
        ports, found = _wire_path(machine, wire, wiring)
    else:
        wire.run(["/bin/sh", "-ec", ports_script()], root=True)
    for host, gateway in zip(hosts, (ADDRESSES.client_gateway, ADDRESSES.server_gateway), strict=True):
        host.run(["/bin/sh", "-ec", leaf_script(host.name, host.address, gateway, group=LAB_UID)], root=True)
    if wiring.nodes:
        path.prove_order(client=hosts[0], server=hosts[1], wiring=wiring)
    else:
        _, ports, found = middle.kernel_router(wire, PORTS, ADDRESSES, leaf_macs())
    if wiring.has_ipv6:
        _add_ipv6(machine, wire, hosts, wiring)
    # Only a newer tc can hand netem a seed. Without one netem's losses follow from the machine's own random numbers, whose seed
    # is the sample's: the same in a host with any tc.
    return Wired(conditions, replace(found, supports_seed=False), ports, PORTS)


def _wire_one(machine: Machine, roots: Mapping[str, Userland], wiring: Wiring) -> Wired:
    """Make one host, which is client and server."""
    conditions = _furnish(machine, names.files(wiring), roots)
    wire = VirtualHost(machine, "wire", "", namespace="router", on_loopback=True)
    for name in ("client", "server"):
        machine.ask({"op": "namespace", "name": name, "same_host": True})
    wire.run(["/bin/sh", "-ec", loopback.setup_script(group=LAB_UID)], root=True)
    return Wired(conditions, loopback.facts_of(wire), loopback.PORTS, loopback.PORTS)


def _wire_path(machine: Machine, wire: VirtualHost, wiring: Wiring) -> tuple[Ports, RouterFacts]:
    """Make the nodes of the path, and all wires; client and server are there, and get their addresses later."""
    for node in wiring.nodes:
        machine.ask({"op": "namespace", "name": node.host})
    wire.run(["/bin/sh", "-ec", path.wires_script(wiring)], root=True)
    for index, node_or_link in enumerate(wiring.path):
        host = wire
        if isinstance(node_or_link, PathNode):
            host = VirtualHost(machine, node_or_link.host, "")
        host.run(["/bin/sh", "-ec", path.node_script(wiring, index)], root=True)
    return PORTS, middle.kernel_facts(wire)


def _add_ipv6(machine: Machine, wire: VirtualHost, hosts: Sequence[VirtualHost], wiring: Wiring) -> None:
    """Wire the hosts by IPv6 too, and prove that its packets fare as they should. Raises LabFault."""
    ports = {"client": PORTS.client, "server": PORTS.server}
    wire.run(["/bin/sh", "-ec", ipv6.router_script(ports, leaf_macs(), wiring.ipv6)], root=True)
    for host in hosts:
        host.run(["/bin/sh", "-ec", ipv6.leaf_script(host.name)], root=True)
    client, server = hosts
    ipv6.prove(client, server, wiring.ipv6)
    machine.ask({"op": "sleep", "seconds": ipv6.SETTLED_S})


def _network(machine: Machine, wired: Wired, name: str, roots: Mapping[str, Userland], wiring: Wiring) -> VirtualNetwork:
    """`roots`: the userlands, by host."""
    same_host = wiring.same_host
    addresses = dict.fromkeys(_ADDRESSES, loopback.ADDRESS) if same_host else _ADDRESSES
    addresses_6 = {"client": ADDRESSES.client_6, "server": ADDRESSES.server_6} if wiring.has_ipv6 else {}
    wire = VirtualHost(machine, "wire", "", namespace="router", on_loopback=same_host)
    client, server = (
        VirtualHost(machine, host, address, on_loopback=same_host, userland=roots.get(host), address_6=addresses_6.get(host, ""))
        for host, address in addresses.items()
    )
    nodes = {node.name: VirtualHost(machine, node.host, "", userland=roots.get(node.host)) for node in wiring.nodes}
    return VirtualNetwork(
        machine,
        client,
        wire if same_host else wire.renamed("router", ADDRESSES.client_gateway),
        server,
        wire,
        wired.router_ports,
        wired.wire_ports,
        wired.router_facts,
        VirtualClock(machine),
        random.Random(machine.boot.seed),  # noqa: S311 - a seed's own numbers are the point; nothing outside the machine trusts them
        wired.conditions,
        name=name,
        nodes=nodes,
    )


def _furnish(machine: Machine, told: Mapping[str, str], roots: Mapping[str, Userland]) -> dict[str, bool]:
    """The hosts' files; returns the conditions under which the machine is deterministic, which hold."""
    run_bytes = machine.boot.memory_bytes * 3 // 4
    owners = {
        host: [[each.path, each.uid, each.gid] for each in userland.image.owners]
        for host, userland in roots.items()
        if userland.image
    }
    paths = {host: str(userland.root) for host, userland in roots.items()}
    files = {"files": told, "run_bytes": run_bytes, "userlands": paths, "images": owners, "cache": _cache()}
    facts, _ = machine.ask({"op": "furnish", **files})
    return assert_deterministic(facts["cmdline"], has_hwrng=bool(facts["hwrng"]))


def _cache() -> str:
    """The cache's folder, where there is one."""
    folder = cache_dir()
    return str(folder) if folder.is_dir() else ""


def assert_deterministic(words: list[str], *, has_hwrng: bool) -> dict[str, bool]:
    """The conditions under which two boots of one seed are equal, as the guest sees them. Raises LabFault if one fails."""
    found = {
        "no entropy of the host's devices": not has_hwrng,
        "entropy from the seed": any(word.startswith("random-seed=") for word in words),
        "addresses not randomised": "norandmaps" in words,
        "a clock that no processing moves": "time-travel=inf-cpu" in words,
    }
    if wrong := [name for name, holds in found.items() if not holds]:
        raise LabFault(f"the machine in virtual time would not be deterministic without: {', '.join(wrong)}")
    return found
