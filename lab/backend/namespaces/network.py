"""Makes the three hosts of a topology out of namespaces and joins them: wired and routed, not yet shaped.

client ns            router ns                     server ns
 eth0 ─── veth ─── to-client   to-server ─── veth ─── eth0
                       │ kernel router: addresses and netem are here
                       │ UML router: packet sockets here, vec0 and vec1 with addresses and netem in the guest
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lab.backend.agent.host import AgentHost, ConsoleHost
from lab.backend.agent.wiring import LEAF, ROUTER_MACS, Addresses, leaf_neighbour, router_commands
from lab.backend.host import Host, Ports, RouterFacts
from lab.backend.namespaces.launch import NamespaceLab
from lab.errors import LabFault, UsageProblem

RouterChoice = Literal["auto", "kernel", "uml"]
ROUTER_CHOICES: tuple[str, ...] = get_args(RouterChoice)

# They exist only inside the lab's own namespaces; two labs may use the same ones.
ADDRESSES = Addresses()
CLIENT_ADDRESS, CLIENT_GATEWAY = ADDRESSES.client, ADDRESSES.client_gateway
SERVER_ADDRESS, SERVER_GATEWAY = ADDRESSES.server, ADDRESSES.server_gateway
_LEAF_MACS = {"client": "02:54:4c:01:00:02", "server": "02:54:4c:02:00:02"}
PORTS = Ports(client="to-client", server="to-server")

UML_BOOT_TIMEOUT_S = 30.0
UML_MEMORY_MIB = 256
# Bursts at link-local speed must fit while the guest is not scheduled: 64 MiB is 50 ms at 10 Gbit/s.
UML_BUFFER_BYTES = 64 << 20


@dataclass
class NamespaceNetwork:
    """A `Network` (backend/host.py) whose hosts are namespaces of one agent."""

    agent: NamespaceLab
    client: AgentHost
    router: Host
    server: AgentHost
    wire: AgentHost
    router_ports: Ports
    wire_ports: Ports
    router_facts: RouterFacts
    backend: str = "namespaces"

    @property
    def name(self) -> str:
        return self.agent.name

    def close(self) -> None:
        self.agent.shutdown()


def agent_host(agent: NamespaceLab, name: str, address: str, *, namespace: str = "") -> AgentHost:
    from lab.assets.tools import host_program

    return AgentHost(agent, name, address, namespace=namespace, programs=host_program)


def open_network(*, router: RouterChoice = "auto", name: str = "") -> NamespaceNetwork:
    """Bring the hosts up. Raises UsageProblem for a router that cannot be had here, LabFault when the machine refuses."""
    if router not in ROUTER_CHOICES:
        raise UsageProblem(f"unknown router {router!r}", remedy="use " + ", ".join(ROUTER_CHOICES))
    lab = name or f"lab-{secrets.token_hex(3)}"
    agent = NamespaceLab.launch(lab, {"client": CLIENT_ADDRESS, "server": SERVER_ADDRESS, "router": CLIENT_GATEWAY})
    try:
        return _wire(agent, router)
    except BaseException:
        agent.shutdown()
        raise


def _wire(agent: NamespaceLab, choice: RouterChoice) -> NamespaceNetwork:
    wire = agent_host(agent, "wire", "", namespace="router")
    client = agent_host(agent, "client", CLIENT_ADDRESS)
    server = agent_host(agent, "server", SERVER_ADDRESS)
    for host in (client, server):
        agent.ask({"op": "namespace", "name": host.name})
    wire.run(["/bin/sh", "-ec", _ports_script()], root=True)
    kernel_router = choice != "uml" and kernel_has_netem(wire)
    if choice == "kernel" and not kernel_router:
        raise UsageProblem(
            "this kernel has no sch_netem, so it cannot be the router",
            remedy="use --router uml, or load the module: sudo modprobe sch_netem",
        )
    finish = _kernel_router(agent, wire) if kernel_router else _uml_router(agent)
    for host, gateway in ((client, CLIENT_GATEWAY), (server, SERVER_GATEWAY)):
        host.run(["/bin/sh", "-ec", _leaf_script(host.name, host.address, gateway)], root=True)
    router, ports, facts = finish()
    return NamespaceNetwork(agent, client, router, server, wire, ports, PORTS, facts)


_QUIET_IPV6 = "for f in all default; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done 2>/dev/null || :"


def _ports_script() -> str:
    """No IPv6: its neighbour discovery would put packets on the link that a seeded loss would count."""
    lines = [_QUIET_IPV6, "ip link set lo up"]
    for port, leaf in ((PORTS.client, "client"), (PORTS.server, "server")):
        ends = f"address {ROUTER_MACS[leaf]} type veth peer name {LEAF} address {_LEAF_MACS[leaf]}"
        lines.append(f"ip link add {port} {ends} netns {leaf}")
        lines.append(f"ip link set {port} up")
    return "\n".join(lines)


def _leaf_script(name: str, address: str, gateway: str) -> str:
    return "\n".join(
        (
            _QUIET_IPV6,
            "ip link set lo up",
            f"ip address add {address}/24 dev {LEAF}",
            f"ip link set {LEAF} up",
            leaf_neighbour(gateway, ROUTER_MACS[name]),
            "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
            # Group 0 here is whoever made the lab: their programs may ping.
            "echo 0 0 >/proc/sys/net/ipv4/ping_group_range",
        )
    )


def _router_commands(ports: Ports) -> list[list[str]]:
    return router_commands(ADDRESSES, {"client": ports.client, "server": ports.server}, _LEAF_MACS)


Router = tuple[Host, Ports, RouterFacts]


def _kernel_router(agent: NamespaceLab, wire: AgentHost) -> Callable[[], Router]:
    from lab.assets.uml import supports_seed

    router = agent_host(agent, "router", CLIENT_GATEWAY)

    def finish() -> Router:
        script = "\n".join(shlex.join(command) for command in _router_commands(PORTS))
        script += "\necho 1 >/proc/sys/net/ipv4/ip_forward\ntc -V"
        version = wire.run(["/bin/sh", "-ec", script], root=True).text
        facts = RouterFacts(
            "kernel", os.uname().release, _iproute2(version), supports_seed(os.uname().release, _iproute2(version))
        )
        return router, PORTS, facts

    return finish


def _uml_router(agent: NamespaceLab) -> Callable[[], Router]:
    """Starts the boot now; the returned function waits for it."""
    from lab.assets.uml import BOOT_ARGUMENTS, find

    asset = find()
    if asset is None:
        raise UsageProblem("the User-Mode Linux router has not been built yet", remedy="run `lab setup` (or `make setup`)")
    ports = Ports(client="vec0", server="vec1")
    router = ConsoleHost(agent, CLIENT_GATEWAY)
    inner = [sys.executable, "-I", "-m", "lab.backend.agent.uml_launch", str(asset.root), str(UML_MEMORY_MIB)]
    port_words = [f"{PORTS.client}={ROUTER_MACS['client']}", f"{PORTS.server}={ROUTER_MACS['server']}"]
    argv = [*inner, str(UML_BUFFER_BYTES), *port_words, "--", *BOOT_ARGUMENTS]
    booted = router.start_boot(argv, timeout_s=UML_BOOT_TIMEOUT_S)

    def finish() -> Router:
        greeting = booted()
        for command in _router_commands(ports):
            router.run(command)
        router.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
        buffers = [int(size) for size in re.findall(r"receive-buffer (\d+)", greeting)]
        if not buffers:
            raise LabFault(f"the User-Mode Linux router started without its ports: {greeting[-200:]}")
        facts = RouterFacts("uml", asset.kernel_release, asset.iproute2, asset.supports_seed, receive_buffer_bytes=min(buffers))
        return router, ports, facts

    return finish


def kernel_has_netem(wire: Host) -> bool:
    """Tried on the lab's own loopback: a module list would not know of built-in code."""
    script = "tc qdisc add dev lo root netem delay 1us && tc qdisc del dev lo root"
    return wire.run(["/bin/sh", "-ec", script], root=True, check=False).returncode == 0


def _iproute2(version: str) -> str:
    found = re.search(r"iproute2-([\d.]+)", version)
    return found[1] if found else version.strip()


def remember(network: NamespaceNetwork, more: dict[str, object]) -> None:
    """Leave with the agent what `attach` needs to find this network again from another process."""
    note = {"router_ports": asdict(network.router_ports), "router_facts": asdict(network.router_facts), **more}
    network.agent.ask({"op": "note", "note": note})


def attach(name: str) -> tuple[NamespaceNetwork, dict[str, Any]]:
    """A network that another process brought up, and the note it left. Raises LabFault when there is none of that name."""
    agent = NamespaceLab(name)
    answer = agent.ask({"op": "note"})
    note = answer["note"]
    if not note:
        raise UsageProblem(f"lab {name!r} belongs to a run in progress", remedy="only labs made by `lab up` can be joined")
    facts = RouterFacts(**{**note["router_facts"], "notes": tuple(note["router_facts"]["notes"])})
    router: Host = ConsoleHost(agent, CLIENT_GATEWAY) if facts.kind == "uml" else agent_host(agent, "router", CLIENT_GATEWAY)
    network = NamespaceNetwork(
        agent,
        agent_host(agent, "client", CLIENT_ADDRESS),
        router,
        agent_host(agent, "server", SERVER_ADDRESS),
        agent_host(agent, "wire", "", namespace="router"),
        Ports(**note["router_ports"]),
        PORTS,
        facts,
    )
    return network, {**note, "started": answer["started"]}
