"""The count of a client's queries for `localhost` at the resolver (RFC 6761, 6.3: there should be none).

The lab's hosts have no nameserver, so that a resolver asks 127.0.0.1:53, where the lab's own counting sink listens. As a control,
another name is looked up first on the client's host: unless that lookup is counted, no later count means anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.host import Completed
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault
from lab.model.transfer import Transfer
from lab.run.events.client_run import Bench, prepare
from lab.run.events.refusal import SCRIPT as CONNECT_SCRIPT
from lab.servers.process import ServerProcess, wait_ready

_SCRIPT = Path(__file__).with_name("lookups_script.py")
HTTP_PORT = 8080
CONTROL = "control.roughwater.test"
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Lookups:
    """The client's outcome, the defect of its file, and the names that were looked up."""

    done: Completed
    content: str
    control: tuple[str, ...]
    queries: tuple[str, ...]


def parse_queries(text: str) -> list[str]:
    """`NAME TYPE` of every query, in order; other lines are skipped."""
    lines = [line.split() for line in text.splitlines()]
    return [f"{words[1]} {words[2]}" for words in lines if len(words) == 3 and words[0] == "query"]


def split_control(queries: Sequence[str]) -> tuple[list[str], list[str]]:
    """The control's queries (with any search domain), and all others."""
    control = [query for query in queries if query.startswith(CONTROL)]
    return control, [query for query in queries if query not in control]


def measure_names(bench: Bench, transfer: Transfer) -> Lookups:
    """One GET of http://localhost. Raises LabFault when the control was not counted."""
    client = bench.network.client
    attempt = prepare(bench, transfer, server="localhost", http_port=HTTP_PORT)
    sink = client.start(script_command(client, _SCRIPT, str(HTTP_PORT), str(client.workdir)))
    try:
        wait_ready([ServerProcess("the resolver's sink", client, (sink,), (f"http,127.0.0.1,{HTTP_PORT},/ready",))])
        client.run(script_command(client, CONNECT_SCRIPT, "lookup", CONTROL), timeout_s=_PATIENCE_S)
        done = attempt.run(_PATIENCE_S)
    finally:
        counted = sink.stop()
    control, queries = split_control(parse_queries(counted.text))
    if not control:
        raise LabFault("the resolver of the client's host does not ask the lab's sink", remedy="see hosts: in /etc/nsswitch.conf")
    return Lookups(done, attempt.content(), tuple(control), tuple(queries))
