"""This machine as a lab's hosts and network, for tests of what runs on hosts, not of networks."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.assets.tools import host_program
from lab.hosts import local
from lab.hosts.agent.syscalls import die_with_parent
from lab.hosts.clocks import InRealTime
from lab.hosts.command_host import Command
from lab.hosts.host import Completed, Ports, RouterFacts
from lab.model.units import Duration

# A process ends with the thread that made it, and servers are started by threads that end at once.
_LASTING = ThreadPoolExecutor(1, "local-host")
# Not by SIGKILL: nginx ends its workers only where it is asked to end itself.
_END_WITH_TESTS = partial(die_with_parent, number=signal.SIGTERM)


@dataclass
class LocalHost(local.LocalHost):
    """The servers may be the cache's. What it starts ends with the tests' process, even if that is killed."""

    programs: Callable[[str], str] = host_program
    before: Callable[[], None] | None = _END_WITH_TESTS

    def _spawn(self, command: Command) -> local.LocalProcess:
        return _LASTING.submit(super()._spawn, command).result()


@dataclass
class RouterStub(LocalHost):
    """A router whose tc says that nothing was ever dropped."""

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        rows = b'[{"kind":"netem","handle":"1:","dev":"lo","root":true,"options":{},"bytes":0,"packets":0,"drops":3}]'
        return Completed(tuple(argv), 0, rows, b"", 0, 0, 0.0, 0.0)


class LocalNetwork(InRealTime):
    """Client, server and wire are this machine; the ports are the loopback, which carries both directions at once."""

    name = "local"
    backend = "local"
    router_ports = wire_ports = Ports(client="lo", server="lo")
    router_facts = RouterFacts(kind="kernel", kernel="", iproute2="", supports_seed=False)
    own_delay = Duration(0)

    def __init__(self, folder: Path) -> None:
        self.client = self.prober = LocalHost("client", folder / "client")
        self.server = LocalHost("server", folder / "server")
        self.wire = LocalHost("wire", folder / "wire")
        self.router = RouterStub("router", folder / "router")

    def close(self) -> None:
        for host in (self.client, self.server, self.wire):
            host.close()
