"""Addresses of a lab's two networks, and the commands that wire a host to them. Stdlib only: runs inside containers, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Private addresses that exist only inside the lab's own networks.
CLIENT_NET, SERVER_NET = "10.77.1", "10.77.2"
# The prefix of documentation (RFC 3849). Programs that sort addresses (RFC 6724) would ask IPv4 before a unique local one.
CLIENT_NET_6, SERVER_NET_6 = "2001:db8:77:1", "2001:db8:77:2"
# The router's end of each network, as its neighbours see it; locally administered.
ROUTER_MACS = {"client": "02:54:4c:01:00:01", "server": "02:54:4c:02:00:01"}
LEAF = "eth0"


@dataclass(frozen=True)
class Addresses:
    """Both networks are /24: the router has .1, the host .2."""

    client_net: str = CLIENT_NET
    server_net: str = SERVER_NET

    @property
    def client(self) -> str:
        return f"{self.client_net}.2"

    @property
    def server(self) -> str:
        return f"{self.server_net}.2"

    @property
    def client_6(self) -> str:
        return f"{CLIENT_NET_6}::2"

    @property
    def server_6(self) -> str:
        return f"{SERVER_NET_6}::2"

    @property
    def client_gateway(self) -> str:
        return f"{self.client_net}.1"

    @property
    def server_gateway(self) -> str:
        return f"{self.server_net}.1"


def router_commands(addresses: Addresses, ports: Mapping[str, str], macs: Mapping[str, str]) -> list[list[str]]:
    """On the router: `ports` are its devices by the host they lead to, `macs` the hosts' own, permanent where they are known.

    Permanent neighbours: an ARP exchange at the wrong moment would shift which packet a seed drops.
    """
    commands = []
    for name, leaf, gateway in (
        ("client", addresses.client, addresses.client_gateway),
        ("server", addresses.server, addresses.server_gateway),
    ):
        device = ports[name]
        commands.append(["ip", "address", "add", f"{gateway}/24", "dev", device])
        commands.append(["ip", "link", "set", device, "up"])
        if name in macs:
            commands.append(["ip", "neighbour", "replace", leaf, "lladdr", macs[name], "nud", "permanent", "dev", device])
    return commands


def ip_batch(commands: Iterable[str], *, ipv6: bool = False) -> str:
    """Lines of ip(8) as one process of it, which stops at the first that fails."""
    return "\n".join((f"ip {'-6 ' if ipv6 else ''}-batch - <<END", *(command.removeprefix("ip ") for command in commands), "END"))


def leaf_neighbour(gateway: str, mac: str) -> str:
    """On client and server: the way to the router, as a line of shell."""
    return (
        f"ip neighbour replace {gateway} lladdr {mac} nud permanent dev {LEAF}\nip route replace default via {gateway} dev {LEAF}"
    )
