"""A client's behaviour where no connection comes about: no server answers, or only one of localhost's two addresses does.

A plain connect() on the client's host comes first, as a control: the client is judged only if this ends as the event says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.clients.connect_timeout import connect_within
from lab.hosts import loopback
from lab.hosts.host import Completed, Host, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault, NotSupported
from lab.model.transfer import Transfer
from lab.run.events.client_run import Bench, prepare
from lab.run.events.refusal import Connected, try_connect
from lab.servers.process import ServerProcess, wait_ready

_SCRIPT = Path(__file__).with_name("addresses_script.py")
PORT = 8081
ASKED_S = 5
"""The client's own time-out for a connection, where it has one."""
_CONTROL_S = 3.0
# Linux gives a connection request up after 131 s (127 s before 6.5); a client may try again after that, and is killed.
_PATIENCE_S = 200.0


@dataclass(frozen=True)
class Attempt:
    """The outcomes of the client and of a plain connect(), and the defect of a file that should have come."""

    done: Completed
    control: Connected
    content: str = ""


@dataclass(frozen=True)
class Both:
    """The behaviour of localhost's two addresses: `serves`, `silent` (no answer to a SYN) or `refuses`."""

    ipv4: str
    ipv6: str

    @property
    def name(self) -> str:
        return f"127.0.0.1 {self.ipv4}, ::1 {self.ipv6}"

    @property
    def places(self) -> list[str]:
        pairs = ((loopback.ADDRESS, self.ipv4), (loopback.ADDRESS_6, self.ipv6))
        return [f"{address}={what}" for address, what in pairs if what != "refuses"]

    @property
    def serving(self) -> str:
        return loopback.ADDRESS if self.ipv4 == "serves" else loopback.ADDRESS_6


BOTH = Both("serves", "serves")
ONE_OF_TWO = (Both("serves", "refuses"), Both("serves", "silent"), Both("refuses", "serves"), Both("silent", "serves"))


@contextmanager
def addresses(host: Host, places: list[str]) -> Iterator[Process]:
    """Port `PORT` of the host serves or is silent at these addresses (ADDRESS=serves|silent) inside the block."""
    process = host.start(script_command(host, _SCRIPT, str(PORT), str(host.workdir), *places))
    try:
        serving = [place.rpartition("=")[0] for place in places if place.endswith("=serves")]
        checks = tuple(f"http,{address},{PORT},/ready" for address in serving) or (f"listen,,{PORT}",)
        wait_ready([ServerProcess("the lab's own port", host, (process,), checks)])
        yield process
    finally:
        process.stop()


def measure_silence(bench: Bench, transfer: Transfer, *, own: bool) -> Attempt | None:
    """One run against a port of the server that drops every SYN, with the client's own time-out of `ASKED_S` or without.

    None where the client has no option for it. Raises LabFault when the port does answer.
    """
    words = connect_within(bench.adapter.name, ASKED_S) if own else []
    if own and not words:
        return None
    server = bench.network.server
    with addresses(server, [f"{server.address}=silent"]):
        control = _control(bench, server.address, PORT, "timeout")
        attempt = prepare(bench, transfer, server=server.address, http_port=PORT)
        attempt.command.extend(words)
        return Attempt(attempt.run(_PATIENCE_S), control)


def measure_fallback(bench: Bench, transfer: Transfer, both: Both) -> Attempt:
    """One download from localhost. Raises NotSupported where localhost has one address only, LabFault without a server."""
    client = bench.network.client
    if not client.capture_port == loopback.LOOPBACK or not loopback.has_ipv6(client):
        raise NotSupported("localhost has one address here: ask on the topology same-host, where the kernel has IPv6")
    attempt = prepare(bench, transfer, server=loopback.NAME, http_port=PORT)
    with addresses(client, both.places):
        control = _control(bench, both.serving, PORT, "open")
        return Attempt(attempt.run(_PATIENCE_S), control, attempt.content())


def _control(bench: Bench, server: str, port: int, wanted: str) -> Connected:
    found = try_connect(bench.network.client, server, port, _CONTROL_S)
    if found.outcome != wanted:
        raise LabFault(f"a connection to port {port} of {server} should end as {wanted}, not {found.outcome}")
    return found
