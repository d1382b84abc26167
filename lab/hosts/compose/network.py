"""Makes the three hosts of a topology out of containers and joins them: wired and routed, not yet shaped.

client container        router container              server container
 eth0 ─── bridge ─── ethA            ethB ─── bridge ─── eth0
                       │ kernel router: addresses and netem are here
                       │ UML router: packet sockets here, vec0 and vec1 with addresses and netem in the guest
"""

from __future__ import annotations

import secrets
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from lab.hosts.agent import router as middle
from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.host import AgentHost
from lab.hosts.agent.protocol import UnixChannel
from lab.hosts.agent.router import RouterChoice
from lab.hosts.clocks import InRealTime
from lab.hosts.compose import content, images
from lab.hosts.compose.docker import NoEngine, compose_version, engine_version
from lab.hosts.compose.project import Project
from lab.hosts.host import Host, Ports, RouterFacts
from lab.hosts.wiring import LEAF, ROUTER_MACS, Addresses, leaf_neighbour
from lab.model.errors import LabFault, UsageProblem
from lab.model.units import Duration

# In the images, whose files are not this machine's.
_PYTHON = "/usr/bin/python3"
_UML_PYTHON = "/usr/lib/roughwater/python3"
# struct ucred: pid (0 for one of a PID namespace that is not seen from here), uid, gid.
_CREDENTIALS = struct.Struct("3i")
_WHO = (socket.SOL_SOCKET, socket.SO_PEERCRED)
# An engine that is restarted, with the containers that it has to end.
_RESTART_S = 30.0


@dataclass
class ComposeNetwork(InRealTime):
    """A `Network` (`lab.hosts.host`) whose hosts are containers of one project."""

    project: Project
    addresses: Addresses
    client: AgentHost
    router: Host
    server: AgentHost
    wire: AgentHost
    router_ports: Ports
    wire_ports: Ports
    router_facts: RouterFacts
    backend_facts: Mapping[str, str]
    backend: str = "compose"
    holds: list[UnixChannel] = field(default_factory=list)

    own_delay: Duration = Duration(0)

    @property
    def prober(self) -> Host:
        return self.client

    @property
    def name(self) -> str:
        return self.project.name

    @property
    def first_processes(self) -> list[int]:
        """The agents: each is the first process of its container, and the kernel names a connection's peer (unix(7))."""
        return [_CREDENTIALS.unpack(hold.socket.getsockopt(*_WHO, _CREDENTIALS.size))[0] for hold in self.holds]

    def remember(self, note: Mapping[str, object]) -> None:
        """With the router's agent: what `attach` needs to find this network again from another process."""
        own = {
            "addresses": asdict(self.addresses),
            "router_ports": asdict(self.router_ports),
            "wire_ports": asdict(self.wire_ports),
            "router_facts": asdict(self.router_facts),
            "backend_facts": dict(self.backend_facts),
        }
        AgentHandle(self.name, self.project.socket("router")).ask({"op": "note", "note": {**own, **note}})

    def detach(self) -> None:
        for role in content.ROLES:
            AgentHandle(self.name, self.project.socket(role)).ask({"op": "detach"})
        self._let_go()

    def _let_go(self) -> None:
        for hold in self.holds:
            hold.close()
        self.holds.clear()

    def close(self) -> None:
        """Idempotent."""
        self._let_go()
        self.project.down(patience_s=_RESTART_S)


class ContainerHost(AgentHost):
    """A host in a container, with its own agent."""

    def __init__(self, project: Project, role: str, address: str, *, name: str = "") -> None:
        agent = AgentHandle(project.name, project.socket(role))
        super().__init__(agent, name or role, address, namespace=role, programs=self._program, kept=())
        self.role = role
        self._find = cache(self._search)

    @property
    def agent(self) -> AgentHandle:
        return self._agent

    def _program(self, name: str) -> str:
        return _PYTHON if name == "python3" else self._find(name)

    def _search(self, name: str) -> str:
        done = self.run(["/bin/sh", "-c", 'command -v -- "$1"', "find", name], check=False)
        if done.returncode:
            raise UsageProblem(f"{name} is not in the image of the {self.role}", remedy="lab images build")
        return done.text.strip()


def open_network(*, router: RouterChoice = "auto", name: str = "") -> ComposeNetwork:
    """Bring the containers up.

    Raises UsageProblem where there is no engine, no image, no free network or no such router; LabFault when a container does not
    start, or the engine ends meanwhile.
    """
    facts = {"engine": f"docker {engine_version()}", "compose": compose_version()}
    made = images.require_all()
    facts |= {f"image {role}": image.id for role, image in made.items()}
    project = Project(name or f"lab-{secrets.token_hex(3)}")
    with project.claim():
        try:
            addresses = project.up(made, router)
            project.wait_for_agents()
            return _wire(project, addresses, router, facts)
        except BaseException as problem:
            project.down(patience_s=_RESTART_S)
            if isinstance(problem, NoEngine):
                raise LabFault(f"the container engine ended while lab {project.name!r} started") from None
            raise


def _wire(project: Project, addresses: Addresses, choice: RouterChoice, facts: Mapping[str, str]) -> ComposeNetwork:
    client, server, wire = _hosts(project, addresses)
    holds = [_hold(host.agent) for host in (client, server, wire)]
    ports = middle.ports_of(wire, addresses)
    leaf_macs = {host.role: host.read(f"/sys/class/net/{LEAF}/address").decode().strip() for host in (client, server)}
    site = _site(wire, addresses, ports, leaf_macs)
    finish = middle.begin(site, choice)
    for host, gateway in ((client, addresses.client_gateway), (server, addresses.server_gateway)):
        host.run(["/bin/sh", "-ec", leaf_neighbour(gateway, ROUTER_MACS[host.role])], root=True)
    router, router_ports, router_facts = finish()
    if router_facts.kind == "uml":
        middle.leave_to_guest(wire, ports)
    return ComposeNetwork(project, addresses, client, router, server, wire, router_ports, ports, router_facts, facts, holds=holds)


def _hosts(project: Project, addresses: Addresses) -> tuple[ContainerHost, ContainerHost, ContainerHost]:
    return (
        ContainerHost(project, "client", addresses.client),
        ContainerHost(project, "server", addresses.server),
        ContainerHost(project, "router", "", name="wire"),
    )


def _site(wire: ContainerHost, addresses: Addresses, ports: Ports, leaf_macs: Mapping[str, str]) -> middle.RouterSite:
    return middle.RouterSite(wire.agent, wire, ports, addresses, _UML_PYTHON, "/", leaf_macs)


def _hold(agent: AgentHandle) -> UnixChannel:
    """The container lives as long as this connection, until the network is detached."""
    channel = agent.connect_unix()
    channel.send({"op": "hold"})
    if channel.receive(10.0) is None:
        raise LabFault(f"a container of lab {agent.name!r} ended as soon as it had started")
    return channel


def attach(name: str) -> tuple[ComposeNetwork, dict[str, Any]]:
    """A network that another process brought up, and the note it left. Raises LabFault for an unknown name."""
    project = Project(name)
    answer = AgentHandle(name, project.socket("router")).ask({"op": "note"})
    note = answer["note"]
    if not note:
        raise UsageProblem(f"lab {name!r} belongs to a run in progress", remedy="only labs made by `lab up` can be joined")
    addresses, wire_ports = Addresses(**note["addresses"]), Ports(**note["wire_ports"])
    facts = RouterFacts(**{**note["router_facts"], "notes": tuple(note["router_facts"]["notes"])})
    client, server, wire = _hosts(project, addresses)
    router = middle.find(_site(wire, addresses, wire_ports, {}), facts.kind)
    network = ComposeNetwork(
        project, addresses, client, router, server, wire, Ports(**note["router_ports"]), wire_ports, facts, note["backend_facts"]
    )
    return network, {**note, "started": answer["started"]}
