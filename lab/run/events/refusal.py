"""The time a client takes to report a refused connection: to the server, one round trip away, and to its own host.

As a control, a plain connect() on the client's host tries the same port first. The client can be judged only if that is refused,
and the time of this first refusal is the round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.hosts.host import Completed, Host
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault
from lab.model.transfer import Transfer
from lab.run.events.client_run import Bench, prepare

SCRIPT = Path(__file__).with_name("connect_script.py")
# The port of `discard` (RFC 863), which no host of a lab serves.
CLOSED_PORT = 9
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Connected:
    """The outcome of connect(), `open`, `timeout` or the name of an errno, and how long it took."""

    outcome: str
    seconds: float


@dataclass(frozen=True)
class Refused:
    """The client's outcome, and the time in which a plain connect() was refused."""

    done: Completed
    control_s: float


def parse_connected(text: str) -> Connected:
    """Parse the output of the script. Raises LabFault for anything else."""
    words = text.split()
    try:
        outcome, seconds = words
        return Connected(outcome, float(seconds))
    except ValueError:
        raise LabFault(f"the connection probe printed {text[:80]!r}") from None


def try_connect(host: Host, server: str, port: int, timeout_s: float = 5.0) -> Connected:
    argv = script_command(host, SCRIPT, "connect", server, str(port), f"{timeout_s}")
    return parse_connected(host.run(argv, timeout_s=timeout_s + 10).text)


def measure_refusal(bench: Bench, transfer: Transfer, server: str) -> Refused:
    """One run of the client against a closed port of `server`. Raises LabFault when the port does not refuse."""
    control = try_connect(bench.network.client, server, CLOSED_PORT)
    if control.outcome != "ECONNREFUSED":
        raise LabFault(f"port {CLOSED_PORT} of {server} does not refuse ({control.outcome})")
    return Refused(prepare(bench, transfer, server=server, http_port=CLOSED_PORT).run(_PATIENCE_S), control.seconds)
