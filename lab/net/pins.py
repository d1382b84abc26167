"""The settings without which no host's number means anything: sysctls, congestion control, segmentation offload.

They are set, then read back; a host that does not hold a pin is the lab's fault (LabFault), never the client's.
"""

from __future__ import annotations

import shlex

from lab.hosts.host import Host, Network, Ports
from lab.model.errors import LabFault


def pin(network: Network, congestion_control: str, mtu: int = 1500) -> None:
    """Set everything on client, server and prober, and assert it. Idempotent."""
    for host in _pinned(network):
        pin_host(host, congestion_control, mtu)
    if network.router_facts.kind != "none":
        pin_ports(network.wire, network.wire_ports)


def pin_host(host: Host, congestion_control: str, mtu: int = 1500) -> None:
    """Set everything on a client or a server, and assert it. Idempotent."""
    host.pin(congestion_control, mtu)
    assert_host_pinned(host, congestion_control)


def pin_ports(wire: Host, ports: Ports) -> None:
    """The router's own ports must not merge what arrives."""
    names = " ".join(shlex.quote(port) for port in (ports.client, ports.server))
    wire.run(["/bin/sh", "-ec", f"for p in {names}; do ethtool -K $p gro off; done"], root=True)


def assert_pinned(network: Network, congestion_control: str) -> None:
    """Raises LabFault that names every setting a host does not hold."""
    for host in _pinned(network):
        assert_host_pinned(host, congestion_control)


def assert_host_pinned(host: Host, congestion_control: str) -> None:
    if problems := host.unpinned(congestion_control):
        raise LabFault(f"{host.name} does not hold its settings: {'; '.join(problems)}", remedy="see `lab doctor`")


def _pinned(network: Network) -> list[Host]:
    return [network.client, network.server, *([] if network.prober is network.client else [network.prober])]
