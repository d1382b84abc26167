"""A container's health check: exit code 0, or 1 and one line with the reason. Standard library only.

    python3 -I -m lab.run.container_health [ROLE]

Without ROLE, ROUGHWATER_ROLE counts. A lab does its own checks: for it, an agent that listens is enough.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from lab.hosts.agent import router as middle
from lab.hosts.compose.inside import links
from lab.hosts.compose.inside.entry import SHARED
from lab.hosts.host import Host, Ports
from lab.hosts.local import LocalHost
from lab.model.errors import LabFault, RoughwaterError
from lab.run.container import ContainerSetup
from lab.servers.nginx import HTTP_PORT
from lab.servers.ready_script import answers, unanswered

_PATIENCE_S = 1.0
# Waiting for the start reports it at once instead of an interval later. Less than the check's own timeout.
START_S = 8.0


def router(setup: ContainerSetup) -> None:
    """The qdiscs are those of the link."""
    noted = setup.noted("router", START_S)
    host = middle.find(setup.site(Ports(*noted["wire"])), noted["kind"])
    problems = links.differences(host, Ports(*noted["ports"]), setup.profile())
    if problems:
        raise LabFault(f"the link is not {setup.link}: {'; '.join(problems)}")


def server(setup: ContainerSetup) -> None:
    """Each server answers a real request."""
    if silent := unanswered(_PATIENCE_S, setup.noted("server", START_S)["checks"]):
        raise LabFault(f"not answered: {'; '.join(silent)}")


def client(setup: ContainerSetup) -> None:
    """The server answers, and through the router: a packet with TTL 1 dies there."""
    setup.noted("client", START_S)
    profile = setup.profile()
    # A handshake takes a round trip of the link, and each wait is for one.
    patience_s = _PATIENCE_S + profile.rtt.s
    host = LocalHost("client", setup.run_dir / "client")
    check_hop(host, setup.addresses.server, patience_s)
    try:
        answered = answers("http", setup.addresses.server, HTTP_PORT, "/ready", patience_s)
    except OSError as error:
        raise LabFault(f"the server does not answer through the router: {error}") from None
    if not answered:
        raise LabFault("the server's answer through the router is not 2xx")


def check_hop(host: Host, address: str, patience_s: float) -> None:
    """Raises LabFault unless a router and not the server answers a packet with TTL 1."""
    said = host.run(["ping", "-n", "-c", "1", "-W", str(math.ceil(patience_s)), "-t", "1", address], check=False).text
    if "Time to live exceeded" not in said:
        raise LabFault("traffic bypasses the router" if "ttl=" in said else "no router answers")


CHECKS: dict[str, Callable[[ContainerSetup], None]] = {"client": client, "router": router, "server": server}


def driven(role: str, shared: str = SHARED) -> None:
    if not Path(shared, f"{role}.socket").is_socket():
        raise LabFault("its agent does not listen yet")


def main() -> int:
    role = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ROUGHWATER_ROLE", "")
    try:
        if role not in CHECKS:
            raise LabFault(f"there is no role {role!r}")
        if os.environ.get("ROUGHWATER_DRIVER") == "lab":
            driven(role)
        else:
            CHECKS[role](ContainerSetup.of(os.environ))
    except RoughwaterError as problem:
        print(f"{role}: {problem}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
