"""Whether a container is what it should be: 0, or 1 and one line that says why not. Standard library only.

    python3 -I -m lab.backend.compose.inside.health [ROLE]

ROLE is THROUGHLINE_ROLE where it is left out. A lab that drives checks more: for it, an agent that listens is enough.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from lab.backend.agent import router as middle
from lab.backend.compose.inside import links
from lab.backend.compose.inside.entry import SHARED
from lab.backend.compose.inside.hand import Around
from lab.backend.host import Host, Ports
from lab.backend.local import LocalHost
from lab.errors import LabFault, ThroughlineError
from lab.server.nginx import HTTP_PORT
from lab.server.ready_script import answers, unanswered

_PATIENCE_S = 1.0
# A check that waits for the start tells of it at once, and not an interval later. Less than the check's own timeout.
START_S = 8.0


def router(around: Around) -> None:
    """The qdiscs are those of the link."""
    noted = around.noted("router", START_S)
    host = middle.find(around.site(Ports(*noted["wire"])), noted["kind"])
    problems = links.differences(host, Ports(*noted["ports"]), around.profile())
    if problems:
        raise LabFault(f"the link is not {around.link}: {'; '.join(problems)}")


def server(around: Around) -> None:
    """Each server answers a real request."""
    if silent := unanswered(_PATIENCE_S, around.noted("server", START_S)["checks"]):
        raise LabFault(f"not answered: {'; '.join(silent)}")


def client(around: Around) -> None:
    """The server answers, and through the router: a packet with one hop to live dies there."""
    around.noted("client", START_S)
    profile = around.profile()
    # A handshake takes a round trip of the link, and each wait is for one.
    patience_s = _PATIENCE_S + profile.rtt.s
    host = LocalHost("client", around.run_dir / "client")
    check_hop(host, around.addresses.server, patience_s)
    try:
        answered = answers("http", around.addresses.server, HTTP_PORT, "/ready", patience_s)
    except OSError as error:
        raise LabFault(f"the server does not answer through the router: {error}") from None
    if not answered:
        raise LabFault("the server's answer through the router is no 2xx")


def check_hop(host: Host, address: str, patience_s: float) -> None:
    """Raises LabFault unless a router, and no server, answers a packet with one hop to live."""
    said = host.run(["ping", "-n", "-c", "1", "-W", str(math.ceil(patience_s)), "-t", "1", address], check=False).text
    if "Time to live exceeded" not in said:
        raise LabFault("traffic goes round the router" if "ttl=" in said else "no router answers")


CHECKS: dict[str, Callable[[Around], None]] = {"client": client, "router": router, "server": server}


def driven(role: str, shared: str = SHARED) -> None:
    if not Path(shared, f"{role}.socket").is_socket():
        raise LabFault("its agent does not listen yet")


def main() -> int:
    role = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("THROUGHLINE_ROLE", "")
    try:
        if role not in CHECKS:
            raise LabFault(f"there is no role {role!r}")
        if os.environ.get("THROUGHLINE_DRIVER") == "lab":
            driven(role)
        else:
            CHECKS[role](Around.of(os.environ))
    except ThroughlineError as problem:
        print(f"{role}: {problem}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
