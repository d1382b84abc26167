"""What a container does where no lab drives it: the router puts the link up, the server starts its servers, the client waits.

    python3 -I -m lab.backend.compose.inside.hand ROLE

Everything is done through the container's own agent, as a lab would do it: what needs capabilities gets them there, servers have
none. Ends with 0 when nothing is left to hold, else with one line on stderr. Standard library only, but for the server's keys.
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

from lab.backend.agent import router as middle
from lab.backend.agent.handle import AgentHandle
from lab.backend.agent.host import AgentHost
from lab.backend.agent.protocol import HOME_DIR, RUN_DIR
from lab.backend.agent.wiring import ROUTER_MACS, Addresses, leaf_neighbour
from lab.backend.compose.inside import links
from lab.backend.compose.inside.entry import HAND_SOCKET, SHARED
from lab.backend.host import Host, Ports
from lab.backend.local import LocalHost, on_path
from lab.client.endpoints import CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE
from lab.errors import EXIT_USAGE, LabFault, ThroughlineError
from lab.link.plan import check_seed
from lab.network.pins import pin_host, pin_ports

if TYPE_CHECKING:
    from lab.server.process import ServerProcess

DEFAULT_LINK = "link-local"
PAYLOADS = (5 << 20, 100 << 20)
# The client's HOME: the server puts the run's credentials there.
CLIENT_HOME = f"{SHARED}/client"
_CREDENTIALS = (CA_FILE, KNOWN_HOSTS_FILE, SSH_KEY_FILE)
_CREDENTIALS_S = 60.0
_PAUSE_S = 0.05
_WATCH_S = 1.0
# Has cap_net_raw of its own, which User-Mode Linux's packet sockets need.
_UML_PYTHON = "/usr/lib/throughline/python3"


@dataclass(frozen=True)
class Around:
    """What the container was given."""

    link: str = DEFAULT_LINK
    addresses: Addresses = field(default_factory=Addresses)
    router: str = "auto"
    socket: str = HAND_SOCKET
    run_dir: Path = Path(RUN_DIR, "lab")
    client_home: Path = Path(CLIENT_HOME)
    passwd_home: Path = Path(HOME_DIR)
    tables: Path = links.FOLDER

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Around:
        """An empty variable counts as unset: Compose passes one on for every name that is not given."""
        own = Addresses()
        return cls(
            environment.get("LINK") or DEFAULT_LINK,
            Addresses(environment.get("CLIENT_NET") or own.client_net, environment.get("SERVER_NET") or own.server_net),
            environment.get("THROUGHLINE_ROUTER") or "auto",
        )

    def profile(self) -> links.Profile:
        return links.load(self.link, self.tables)

    def host(self, role: str) -> AgentHost:
        return AgentHost(AgentHandle("hand", self.socket), role, getattr(self.addresses, role, ""), programs=on_path)

    def site(self, ports: Ports) -> middle.Site:
        """No permanent neighbours: this container does not know the others' addresses on the wire."""
        wire = self.host("router")
        return middle.Site(AgentHandle("hand", self.socket), wire, ports, self.addresses, _UML_PYTHON, "/")

    def note(self, role: str, facts: Mapping[str, Any]) -> None:
        """What `health` needs to know; there only when this role has done its part."""
        place = self._note(role)
        place.with_suffix(".new").write_text(json.dumps(facts))
        place.with_suffix(".new").rename(place)

    def noted(self, role: str, timeout_s: float) -> dict[str, Any]:
        """Waits for it. Raises LabFault when the role is still at it."""
        deadline = time.monotonic() + timeout_s
        while not self._note(role).exists():
            if time.monotonic() >= deadline:
                raise LabFault("it is not set up yet")
            time.sleep(_PAUSE_S)
        return cast("dict[str, Any]", json.loads(self._note(role).read_text()))

    def _note(self, role: str) -> Path:
        return self.run_dir / role / "hand.json"


@dataclass(frozen=True)
class Pair:
    """What `start_servers` needs of a network."""

    client: Host
    server: Host


def router(around: Around) -> None:
    profile = around.profile()
    wire = around.host("router")
    ports = middle.ports_of(wire, around.addresses)
    finish = middle.begin(around.site(ports), cast("middle.RouterChoice", around.router))
    pin_ports(wire, ports)
    host, router_ports, facts = finish()
    if facts.kind == "uml":
        middle.leave_to_guest(wire, ports)
    for plan in profile.plans.values():
        check_seed(plan.seed if plan else None, supports_seed=facts.supports_seed)
    links.put(host, router_ports, profile)
    used, seen = [router_ports.client, router_ports.server], [ports.client, ports.server]
    around.note("router", {"kind": facts.kind, "ports": used, "wire": seen})
    print(f"router: {profile.name}, {facts.kind} router, Linux {facts.kernel}, iproute2 {facts.iproute2}", flush=True)


def pin_leaf(around: Around, role: str) -> AgentHost:
    """A client's or a server's own way to the router, and its settings."""
    profile, host = around.profile(), around.host(role)
    gateway = getattr(around.addresses, f"{role}_gateway")
    host.run(["/bin/sh", "-ec", leaf_neighbour(gateway, ROUTER_MACS[role])], root=True)
    pin_host(host, profile.congestion_control, profile.mtu)
    return host


def server(around: Around) -> None:
    from lab.server.bundle import start_servers

    host = pin_leaf(around, "server")
    servers = start_servers(Pair(LocalHost("client", around.client_home), host), payload_sizes=PAYLOADS)
    around.note("server", {"checks": [check for each in servers.all for check in each.checks]})
    print("server: nginx, sshd and iperf3 answer", flush=True)
    watch(servers.all)


def watch(servers: Sequence[ServerProcess], *, pause_s: float = _WATCH_S) -> None:
    """For as long as all of them run. Raises LabFault with the words of the one that has ended."""
    while True:
        for each in servers:
            if problem := each.ended():
                raise LabFault(problem)
        time.sleep(pause_s)


def client(around: Around) -> None:
    pin_leaf(around, "client")
    await_credentials(around.client_home)
    # OpenSSH asks passwd for the home, not HOME.
    keys = around.passwd_home / ".ssh"
    keys.unlink(missing_ok=True)
    keys.symlink_to((around.client_home / SSH_KEY_FILE).parent)
    around.note("client", {})
    print(f"client: ready, over {around.link}", flush=True)


def await_credentials(home: Path, timeout_s: float = _CREDENTIALS_S) -> None:
    """They come with the server's start. Raises LabFault when they do not."""
    deadline = time.monotonic() + timeout_s
    while missing := [name for name in _CREDENTIALS if not (home / name).is_file()]:
        if time.monotonic() > deadline:
            raise LabFault(f"the server has left no {missing[0]} within {timeout_s:g} s", remedy="docker compose logs server")
        time.sleep(_PAUSE_S)


ROLES = {"client": client, "router": router, "server": server}


def main() -> int:
    role = sys.argv[1] if len(sys.argv) == 2 else ""
    if role not in ROLES:
        print(f"usage: hand {'|'.join(ROLES)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        ROLES[role](Around.of(os.environ))
    except ThroughlineError as problem:
        print(f"{role}: {problem}", file=sys.stderr, flush=True)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
