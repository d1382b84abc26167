"""The network of a topology in virtual time for a user's own commands: its link is shaped, its servers have started."""

from __future__ import annotations

from collections.abc import Callable

from lab.assets.tools import provide
from lab.hosts.virtual.machine import Patience
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.topology import Topology
from lab.model.userland import NO_USERLANDS, Userlands
from lab.net.guard import assert_no_bypass
from lab.net.path import shape_nodes
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.userlands import found_userlands, http3_server_of, nodes_userlands, one_cell
from lab.servers.bundle import Servers, places, start_servers


def open_shaped(
    topology: Topology,
    *,
    seed: int,
    patience: Patience,
    name: str,
    say: Callable[[str], None],
    memory_bytes: int = 0,
    userlands: Userlands = NO_USERLANDS,
) -> tuple[VirtualNetwork, Servers]:
    """The network, which the caller closes, and its servers.

    `say` takes lines about programs and userlands that are fetched or unpacked; `userlands` take precedence over the topology's.

    Raises LabFault where a program cannot be had, the machine does not boot, a packet could go round the link, or a server does
    not start.
    """
    provide(say)
    named = one_cell(None, topology, userlands, http3=False)
    http3 = http3_server_of(topology) if named.server and not topology.endpoint else None
    network = open_network(
        seed=seed,
        memory_bytes=memory_bytes,
        patience=patience,
        name=name,
        wiring=topology.wiring,
        userlands={**found_userlands(named, say, http3), **nodes_userlands(topology.wiring, say)},
    )
    try:
        pin(network, topology.congestion_control, topology.link.mtu)
        assert_no_bypass(network)
        shape(network, topology.link)
        shape_nodes(network, topology)
        servers = start_servers(
            network,
            places=places(topology.wiring),
            clock=network.clock,
            random_bytes=network.random_bytes,
            http3=http3,
            endpoint=topology.served_by,
        )
    except BaseException:
        network.close()
        raise
    return network, servers
