"""The nodes of a path besides the judged link: shaped, and proven by each link alone, all together, and what each NAT forgets.

The path is counted at its last port in each direction, so a slow link is seen wherever it is (ADR 0047).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lab.hosts.host import Network
from lab.hosts.scripts import script_command
from lab.hosts.virtual.host import VirtualHost
from lab.hosts.virtual.network import VirtualNetwork
from lab.hosts.virtual.path import memory_script
from lab.link.path import as_one_link
from lab.model.errors import LabFault
from lab.model.results import Calibration, NatProof, PathCertificate
from lab.model.topology import Topology
from lab.model.units import Duration
from lab.model.wiring import Nat, PathNode
from lab.net.calibrate import Tolerance, calibrate
from lab.net.pins import pin_ports
from lab.net.shape import shape

_NAT_SCRIPT = Path(__file__).with_name("nat_script.py")
# A NAT counts in its kernel's ticks, and forgets when a packet asks.
_SOON, _LATE = 0.9, 1.1
_WANTED = (True, False, True, False)
_NAT_PORT = 7707
_PATIENT = Nat(tcp_idle=Duration.parse("60 min"))
# By then the server listens.
_BOUND_S = 0.5


def at_node(network: Network, node: VirtualHost) -> Network:
    """The network as if that node were its router: shaped and counted there."""
    return replace(_virtual(network), router=node, wire=node, router_ports=network.wire_ports)


def shape_nodes(network: Network, topology: Topology) -> tuple[str, ...]:
    """Put each other link of the path on its node, and let none merge packets; the commands. Raises LabFault as `shape`."""
    commands: list[str] = []
    for node in topology.wiring.nodes:
        host = _virtual(network).nodes[node.name]
        pin_ports(host, network.wire_ports)
        if node.link:
            commands += [f"{node.name}: {command}" for command in shape(at_node(network, host), node.link).commands]
    return tuple(commands)


def _virtual(network: Network) -> VirtualNetwork:
    assert isinstance(network, VirtualNetwork), "only virtual time has a path"
    return network


def certify_path(
    network: Network, topology: Topology, links: Mapping[str, Calibration], *, tolerance: Tolerance
) -> PathCertificate:
    """The proof of a path that is shaped, on a network of its own; `links` are the calibrations of its nodes' links."""
    made = _virtual(network)
    hosts = [made.nodes[each.name] if isinstance(each, PathNode) else made.wire for each in topology.path]
    nodes = {node.name: node.nat for node in topology.wiring.nodes if node.nat}
    # The connection that controls a calibration is silent for seconds.
    for name in nodes:
        made.nodes[name].run(["/bin/sh", "-ec", memory_script(_PATIENT)], root=True)
    # The last port towards the server is the last node's, and the last one towards the client is the first node's.
    found = calibrate(
        network,
        as_one_link(topology),
        topology.congestion_control,
        tolerance=tolerance,
        counted_at={"up": at_node(network, hosts[-1]), "down": at_node(network, hosts[0])},
    )
    for name, nat in nodes.items():
        made.nodes[name].run(["/bin/sh", "-ec", memory_script(nat)], root=True)
    nats = {name: _prove_nat(network, nat) for name, nat in nodes.items()}
    proofs: dict[str, Calibration | NatProof] = {**links, **nats}
    return PathCertificate(
        links=dict(links),
        combined=found,
        nats=nats,
        problems=[
            *(f"{name}: {problem}" for name, proof in proofs.items() for problem in proof.problems),
            *(f"path: {problem}" for problem in found.problems),
        ],
    )


def _prove_nat(network: Network, nat: Nat) -> NatProof:
    """Whether a word of the server arrives shortly before the NAT should have forgotten its client, and shortly after."""
    waits = [round(share * idle.ns) for idle in (nat.udp_idle, nat.tcp_idle) for share in (_SOON, _LATE)]
    words = [str(_NAT_PORT), *map(str, waits)]
    served = network.server.start(script_command(network.server, _NAT_SCRIPT, "server", network.server.address, *words))
    network.clock.sleep(_BOUND_S)
    try:
        asked = network.client.run(
            script_command(network.client, _NAT_SCRIPT, "client", network.server.address, *words),
            check=False,
            timeout_s=max(waits) / 1e9 + 60,
        )
    finally:
        served.stop()
    seen = dict(line.split() for line in asked.text.splitlines())
    if asked.returncode or len(seen) != len(waits):
        raise LabFault(f"the NAT could not be proven: {asked.error_text}")
    arrived = [seen[f"{number}"] != "-" for number in range(len(waits))]
    problems = [
        f"a word after {wait_ns / 1e9:g} s of silence {'arrived' if came else 'was dropped'}"
        for wait_ns, came, wanted in zip(waits, arrived, _WANTED, strict=True)
        if came != wanted
    ]
    if network.client.address in seen.values():
        problems.append("the server sees the client's own address")
    return NatProof(
        udp_idle=nat.udp_idle, tcp_idle=nat.tcp_idle, waits_s=[each / 1e9 for each in waits], arrived=arrived, problems=problems
    )
