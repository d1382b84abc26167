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
from lab.link.path import as_one_link, link_of
from lab.model.errors import LabFault
from lab.model.results import Calibration, NatProof, PathCertificate
from lab.model.topology import Topology
from lab.model.units import Duration
from lab.model.wiring import Nat, PathNode
from lab.net.calibrate import Tolerance, calibrate
from lab.net.pins import pin_ports
from lab.net.shape import Shaped, read_back, shape

_NAT_SCRIPT = Path(__file__).with_name("nat_script.py")
# A NAT counts in its kernel's ticks, and forgets when a packet asks.
_SOON, _LATE = 0.9, 1.1
_WANTED = (True, False, True, False)
_KINDS = ("UDP", "UDP", "TCP", "TCP")
_NAT_PORT = 7707
_PATIENT = Nat(tcp_idle=Duration.parse("60 min"))
# By then the server listens.
_BOUND_S = 0.5


def at_node(network: Network, node: VirtualHost) -> Network:
    """The network as if that node were its router: shaped and counted there."""
    return replace(_virtual(network), router=node, wire=node, router_ports=network.wire_ports)


def shape_nodes(network: Network, topology: Topology) -> dict[str, Shaped]:
    """Put each other link of the path on its node, and let no node merge packets; the links by their nodes' names.

    Raises LabFault as `shape`.
    """
    found = {}
    for node in topology.wiring.nodes:
        host = _virtual(network).nodes[node.name]
        pin_ports(host, network.wire_ports)
        if node.link:
            found[node.name] = shape(at_node(network, host), node.link)
    return found


def read_back_nodes(network: Network, nodes: Mapping[str, Shaped]) -> tuple[list[str], dict[str, object]]:
    """The problems of all other links, and their qdiscs by node and port, like `read_back` of the judged link."""
    problems: list[str] = []
    qdiscs: dict[str, object] = {}
    for name, shaped in nodes.items():
        wrong, seen = read_back(at_node(network, _virtual(network).nodes[name]), shaped)
        problems += [f"{name}: {problem}" for problem in wrong]
        qdiscs |= {f"{name} {port}": each for port, each in seen.items()}
    return problems, qdiscs


def _virtual(network: Network) -> VirtualNetwork:
    assert isinstance(network, VirtualNetwork), "only virtual time has a path"
    return network


def certify_path(
    network: Network, topology: Topology, links: Mapping[str, Calibration], *, tolerance: Tolerance
) -> PathCertificate:
    """The proof of a path that is shaped, on a network of its own; `links` are the calibrations of its nodes' links."""
    made = _virtual(network)
    hosts = [made.nodes[each.name] if isinstance(each, PathNode) else made.wire for each in topology.path]
    nats = topology.wiring.nats
    # The connection that controls a calibration is silent for seconds.
    for node in nats:
        _remember(made, node, _PATIENT)
    # The last port towards the server is the last node's, and the last one towards the client is the first node's.
    found = calibrate(
        network,
        as_one_link(topology),
        topology.congestion_control,
        tolerance=tolerance,
        counted_at={"up": at_node(network, hosts[-1]), "down": at_node(network, hosts[0])},
    )
    proven = {}
    for node, nat in nats.items():
        # One after the other, and each next to patient ones: any of them forgets for all.
        _remember(made, node, nat)
        proven[node.name] = _prove_nat(network, nat, _round_trip_behind_ns(topology, node))
        _remember(made, node, _PATIENT)
    proofs: dict[str, Calibration | NatProof] = {**links, **proven}
    return PathCertificate(
        links=dict(links),
        combined=found,
        nats=proven,
        problems=[
            *(f"{name}: {problem}" for name, proof in proofs.items() for problem in proof.problems),
            *(f"path: {problem}" for problem in found.problems),
        ],
    )


def _remember(network: VirtualNetwork, node: PathNode, nat: Nat) -> None:
    """Let that node remember as long as `nat` says."""
    network.nodes[node.name].run(["/bin/sh", "-ec", memory_script(nat)], root=True)


def _round_trip_behind_ns(topology: Topology, node: PathNode) -> int:
    """The round trip between that node and the server."""
    behind = [link_of(each, topology) for each in topology.path[topology.path.index(node) + 1 :]]
    return sum(link.rtt.ns for link in behind if link)


def _prove_nat(network: Network, nat: Nat, behind_ns: int) -> NatProof:
    """Words of the server to its client, shortly before the NAT should have forgotten the client and shortly after.

    The NAT waits for a round trip behind it longer than the server does.
    """
    silences = [(idle, share) for idle in (nat.udp_idle, nat.tcp_idle) for share in (_SOON, _LATE)]
    waits = [max(1, round(share * idle.ns) - behind_ns) for idle, share in silences]
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
        f"a word over {kind} after {share * idle.s:g} s of silence {'arrived' if came else 'was dropped'}"
        for kind, (idle, share), came, wanted in zip(_KINDS, silences, arrived, _WANTED, strict=True)
        if came != wanted
    ]
    if network.client.address in seen.values():
        problems.append("the server sees the client's own address")
    return NatProof(
        udp_idle=nat.udp_idle,
        tcp_idle=nat.tcp_idle,
        waits_s=[round(share * idle.s, 3) for idle, share in silences],
        arrived=arrived,
        problems=problems,
    )
