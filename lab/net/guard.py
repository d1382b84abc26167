"""The leak guard: when a packet can bypass the shaped link, the lab refuses to start."""

from __future__ import annotations

from lab.hosts.host import Network
from lab.model.errors import LabFault


def assert_no_bypass(network: Network) -> None:
    """Client and server must have only their own interface, reach each other over it, and be two hops apart."""
    pairs = [(network.client, network.server), (network.server, network.client)]
    if network.prober is not network.client:
        pairs.append((network.prober, network.server))
    for host, other in pairs:
        if problem := host.bypass(other):
            raise LabFault(
                f"traffic can bypass the router: {problem}",
                remedy="the link would not be what it claims; remove the extra interface or route",
            )
