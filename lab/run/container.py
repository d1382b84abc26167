"""A container without a lab: the router shapes the link, the server starts its servers, the client waits for credentials.

    python3 -I -m lab.run.container ROLE

Every command goes through the container's own agent, as a lab's would: those that need capabilities get them there, servers
have none. Exit code 0 when the role needs no process, else one line on stderr. Standard library only, but for the server's keys.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lab.hosts.agent import router as middle
from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.host import AgentHost
from lab.hosts.agent.protocol import HOME_DIR, RUN_DIR
from lab.hosts.compose.inside import links
from lab.hosts.compose.inside.entry import OWN_SOCKET, SHARED
from lab.hosts.host import Host, Ports
from lab.hosts.local import LocalHost, find_on_path
from lab.hosts.wiring import ROUTER_MACS, Addresses, leaf_neighbour
from lab.link.plan import check_seed
from lab.model.endpoints import CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE
from lab.model.errors import EXIT_USAGE, LabFault, RoughwaterError
from lab.net.pins import pin_host, pin_ports

if TYPE_CHECKING:
    from lab.servers.process import ServerProcess

DEFAULT_LINK = "link-local"
PAYLOADS = (5 << 20, 100 << 20)
# The client's HOME: the server puts the run's credentials there.
CLIENT_HOME = f"{SHARED}/client"
_CREDENTIALS = (CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE)
_CREDENTIALS_S = 60.0
_PAUSE_S = 0.05
_WATCH_S = 1.0
# Has cap_net_raw as a file capability, which User-Mode Linux's packet sockets need.
_UML_PYTHON = "/usr/lib/roughwater/python3"


@dataclass(frozen=True)
class ContainerSetup:
    """The container's environment and paths."""

    link: str = DEFAULT_LINK
    addresses: Addresses = field(default_factory=Addresses)
    router: str = "auto"
    socket: str = OWN_SOCKET
    run_dir: Path = Path(RUN_DIR, "lab")
    client_home: Path = Path(CLIENT_HOME)
    passwd_home: Path = Path(HOME_DIR)
    tables: Path = links.FOLDER

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ContainerSetup:
        """An empty variable counts as unset: Compose passes one on for every name that is not given."""
        own = Addresses()
        return cls(
            environment.get("LINK") or DEFAULT_LINK,
            Addresses(environment.get("CLIENT_NET") or own.client_net, environment.get("SERVER_NET") or own.server_net),
            environment.get("ROUGHWATER_ROUTER") or "auto",
        )

    def profile(self) -> links.Profile:
        return links.load(self.link, self.tables)

    def host(self, role: str) -> AgentHost:
        address = {"client": self.addresses.client, "server": self.addresses.server}.get(role, "")
        return AgentHost(AgentHandle("container", self.socket), role, address, programs=find_on_path)

    def site(self, ports: Ports) -> middle.RouterSite:
        """Without permanent neighbours: this container does not know the MAC addresses of the others."""
        wire = self.host("router")
        return middle.RouterSite(AgentHandle("container", self.socket), wire, ports, self.addresses, _UML_PYTHON, "/")

    def note(self, role: str, facts: Mapping[str, Any]) -> None:
        """Facts for the health check, written when this role is set up."""
        place = self._note(role)
        place.with_suffix(".new").write_text(json.dumps(facts))
        place.with_suffix(".new").rename(place)

    def noted(self, role: str, timeout_s: float) -> dict[str, Any]:
        """The role's facts, waited for. Raises LabFault while the role is not set up."""
        deadline = time.monotonic() + timeout_s
        while not self._note(role).exists():
            if time.monotonic() >= deadline:
                raise LabFault("it is not set up yet")
            time.sleep(_PAUSE_S)
        return cast("dict[str, Any]", json.loads(self._note(role).read_text()))

    def _note(self, role: str) -> Path:
        return self.run_dir / role / "ready.json"


@dataclass(frozen=True)
class Pair:
    """The part of a network that `start_servers` needs."""

    client: Host
    server: Host


def router(setup: ContainerSetup) -> None:
    profile = setup.profile()
    wire = setup.host("router")
    ports = middle.ports_of(wire, setup.addresses)
    finish = middle.begin(setup.site(ports), cast("middle.RouterChoice", setup.router))
    pin_ports(wire, ports)
    host, router_ports, facts = finish()
    if facts.kind == "uml":
        middle.leave_to_guest(wire, ports)
    for plan in profile.plans.values():
        check_seed(plan.seed if plan else None, supports_seed=facts.supports_seed)
    links.put(host, router_ports, profile)
    used, seen = [router_ports.client, router_ports.server], [ports.client, ports.server]
    setup.note("router", {"kind": facts.kind, "ports": used, "wire": seen})
    print(f"router: {profile.name}, {facts.kind} router, Linux {facts.kernel}, iproute2 {facts.iproute2}", flush=True)


def pin_leaf(setup: ContainerSetup, role: str) -> AgentHost:
    """Set a client's or a server's route to the router, and its pins."""
    profile, host = setup.profile(), setup.host(role)
    gateway = setup.addresses.client_gateway if role == "client" else setup.addresses.server_gateway
    host.run(["/bin/sh", "-ec", leaf_neighbour(gateway, ROUTER_MACS[role])], root=True)
    pin_host(host, profile.congestion_control, profile.mtu)
    return host


def server(setup: ContainerSetup) -> None:
    from lab.servers.bundle import start_servers

    host = pin_leaf(setup, "server")
    servers = start_servers(Pair(LocalHost("client", setup.client_home), host), payload_sizes=PAYLOADS)
    setup.note("server", {"checks": [check for each in servers.all for check in each.checks]})
    print("server: nginx, sshd and iperf3 answer", flush=True)
    watch(servers.all)


def watch(servers: Sequence[ServerProcess], *, pause_s: float = _WATCH_S) -> None:
    """Until a server ends, which raises LabFault with its last words."""
    while True:
        for each in servers:
            if problem := each.ended():
                raise LabFault(problem)
        time.sleep(pause_s)


def client(setup: ContainerSetup) -> None:
    pin_leaf(setup, "client")
    await_credentials(setup.client_home)
    # OpenSSH asks passwd for the home, not HOME.
    keys = setup.passwd_home / ".ssh"
    keys.unlink(missing_ok=True)
    keys.symlink_to((setup.client_home / SSH_KEY_FILE).parent)
    setup.note("client", {})
    print(f"client: ready, over {setup.link}", flush=True)


def await_credentials(home: Path, timeout_s: float = _CREDENTIALS_S) -> None:
    """Until the server has left its credentials. Raises LabFault when it does not."""
    deadline = time.monotonic() + timeout_s
    while missing := [name for name in _CREDENTIALS if not (home / name).is_file()]:
        if time.monotonic() > deadline:
            raise LabFault(f"the server has left no {missing[0]} within {timeout_s:g} s", remedy="docker compose logs server")
        time.sleep(_PAUSE_S)


ROLES = {"client": client, "router": router, "server": server}


def main() -> int:
    role = sys.argv[1] if len(sys.argv) == 2 else ""
    if role not in ROLES:
        print(f"usage: container {'|'.join(ROLES)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        ROLES[role](ContainerSetup.of(os.environ))
    except RoughwaterError as problem:
        print(f"{role}: {problem}", file=sys.stderr, flush=True)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
