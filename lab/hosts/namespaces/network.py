"""Makes the three hosts of a topology out of namespaces and joins them: wired and routed, not yet shaped.

client ns            router ns                     server ns
 eth0 ─── veth ─── to-client   to-server ─── veth ─── eth0
                       │ kernel router: addresses and netem are here
                       │ UML router: packet sockets here, vec0 and vec1 with addresses and netem in the guest
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.hosts import loopback
from lab.hosts.agent import router as middle
from lab.hosts.agent.host import AgentHost
from lab.hosts.agent.router import RouterChoice
from lab.hosts.clocks import InRealTime
from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.namespaces.launch import NamespaceLab
from lab.hosts.wiring import LEAF, ROUTER_MACS, Addresses, ip_batch, leaf_neighbour
from lab.model.errors import UsageProblem
from lab.model.units import Duration

# They exist only inside the lab's own namespaces; two labs may use the same ones.
ADDRESSES = Addresses()
CLIENT_ADDRESS, SERVER_ADDRESS = ADDRESSES.client, ADDRESSES.server
_LEAF_MACS = {"client": "02:54:4c:01:00:02", "server": "02:54:4c:02:00:02"}
PORTS = Ports(client="to-client", server="to-server")


@dataclass
class NamespaceNetwork(InRealTime):
    """A `Network` (`lab.hosts.host`) whose hosts are namespaces of one agent."""

    agent: NamespaceLab
    client: AgentHost
    router: Host
    server: AgentHost
    wire: AgentHost
    router_ports: Ports
    wire_ports: Ports
    router_facts: RouterFacts
    backend: str = "namespaces"
    backend_facts: Mapping[str, str] = field(default_factory=dict)
    first_processes: tuple[int, ...] = ()

    own_delay: Duration = Duration(0)

    @property
    def prober(self) -> Host:
        return self.client

    @property
    def name(self) -> str:
        return self.agent.name

    def remember(self, note: Mapping[str, object]) -> None:
        """With the agent: what `attach` needs to find this network again from another process."""
        own = {"router_ports": asdict(self.router_ports), "router_facts": asdict(self.router_facts)}
        self.agent.ask({"op": "note", "note": {**own, **note}})

    def detach(self) -> None:
        self.agent.detach()

    def close(self) -> None:
        self.agent.shutdown()


def agent_host(agent: NamespaceLab, name: str, address: str, *, namespace: str = "", on_loopback: bool = False) -> AgentHost:
    from lab.assets.tools import host_program

    return AgentHost(agent, name, address, namespace=namespace, programs=host_program, on_loopback=on_loopback)


def open_network(*, router: RouterChoice = "auto", name: str = "") -> NamespaceNetwork:
    """Bring the hosts up. Raises UsageProblem for a router that this machine does not have, LabFault when the machine refuses."""
    lab = name or f"lab-{secrets.token_hex(3)}"
    names = {"client": CLIENT_ADDRESS, "server": SERVER_ADDRESS, "router": ADDRESSES.client_gateway}
    agent = NamespaceLab.launch(lab, names)
    try:
        return _wire(agent, router)
    except BaseException:
        agent.shutdown()
        raise


def open_same_host(*, name: str = "") -> NamespaceNetwork:
    """One namespace as client and server, without a router. Raises LabFault when the machine refuses."""
    agent = NamespaceLab.launch(name or f"lab-{secrets.token_hex(3)}", dict(loopback.NAMES))
    try:
        wire = agent_host(agent, "wire", "", namespace="router", on_loopback=True)
        client, server = (agent_host(agent, each, loopback.ADDRESS, on_loopback=True) for each in ("client", "server"))
        for host in (client, server):
            agent.ask({"op": "namespace", "name": host.name, "same_host": True})
        wire.run(["/bin/sh", "-ec", loopback.setup_script()], root=True)
        ports = loopback.PORTS
        return NamespaceNetwork(agent, client, wire, server, wire, ports, ports, loopback.facts_of(wire))
    except BaseException:
        agent.shutdown()
        raise


def _wire(agent: NamespaceLab, choice: RouterChoice) -> NamespaceNetwork:
    wire = agent_host(agent, "wire", "", namespace="router")
    client = agent_host(agent, "client", CLIENT_ADDRESS)
    server = agent_host(agent, "server", SERVER_ADDRESS)
    for host in (client, server):
        agent.ask({"op": "namespace", "name": host.name})
    wire.run(["/bin/sh", "-ec", ports_script()], root=True)
    finish = middle.begin(_site(agent, wire, choice), choice)
    for host, gateway in ((client, ADDRESSES.client_gateway), (server, ADDRESSES.server_gateway)):
        host.run(["/bin/sh", "-ec", leaf_script(host.name, host.address, gateway)], root=True)
    router, ports, facts = finish()
    return NamespaceNetwork(agent, client, router, server, wire, ports, PORTS, facts)


def _site(agent: NamespaceLab, wire: AgentHost, choice: RouterChoice) -> middle.RouterSite:
    from lab.assets import uml

    asset = uml.find()
    if asset is None and (choice == "uml" or (choice == "auto" and not middle.kernel_has_netem(wire))):
        asset = uml.build(lambda message: print(f"setup: {message}", file=sys.stderr, flush=True))
    # Without it there may still be a kernel that needs none.
    root = str(asset.root) if asset else ""
    return middle.RouterSite(agent, wire, PORTS, ADDRESSES, sys.executable, root, _LEAF_MACS)


def leaf_macs() -> Mapping[str, str]:
    """MAC addresses of the hosts, for the router's permanent neighbours."""
    return _LEAF_MACS


QUIET_IPV6 = "for f in all default; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done 2>/dev/null || :"
"""A line of shell: no IPv6, whose neighbour discovery would put packets on the link."""


def ports_script() -> str:
    """No IPv6: its neighbour discovery would put packets on the link that a seeded loss would count."""
    lines = ["link set lo up"]
    for port, leaf in ((PORTS.client, "client"), (PORTS.server, "server")):
        ends = f"address {ROUTER_MACS[leaf]} type veth peer name {LEAF} address {_LEAF_MACS[leaf]}"
        lines.append(f"link add {port} {ends} netns {leaf}")
        lines.append(f"link set {port} up")
    return f"{QUIET_IPV6}\n{ip_batch(lines)}"


def leaf_script(name: str, address: str, gateway: str, *, group: int = 0) -> str:
    """Set up a client's or a server's interface; programs of `group` may ping."""
    return "\n".join(
        (
            QUIET_IPV6,
            ip_batch(
                (
                    "link set lo up",
                    f"address add {address}/24 dev {LEAF}",
                    f"link set {LEAF} up",
                    *leaf_neighbour(gateway, ROUTER_MACS[name]).splitlines(),
                )
            ),
            "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
            # In a user namespace, group 0 is the user who made the lab.
            f"echo {group} {group} >/proc/sys/net/ipv4/ping_group_range",
        )
    )


def attach(name: str) -> tuple[NamespaceNetwork, dict[str, Any]]:
    """Join a network that another process brought up; returns it and that process's note. Raises LabFault for an unknown name."""
    agent = NamespaceLab(name)
    answer = agent.ask({"op": "note"})
    note = answer["note"]
    if not note:
        raise UsageProblem(f"lab {name!r} belongs to a run in progress", remedy="only labs made by `lab up` can be joined")
    facts = RouterFacts(**{**note["router_facts"], "notes": tuple(note["router_facts"]["notes"])})
    wire = agent_host(agent, "wire", "", namespace="router")
    router: Host = middle.find(_site(agent, wire, "uml" if facts.kind == "uml" else "kernel"), facts.kind)
    network = NamespaceNetwork(
        agent,
        agent_host(agent, "client", CLIENT_ADDRESS),
        router,
        agent_host(agent, "server", SERVER_ADDRESS),
        wire,
        Ports(**note["router_ports"]),
        PORTS,
        facts,
    )
    return network, {**note, "started": answer["started"]}
