"""This machine as a lab's hosts and network, for tests of what runs on hosts, not of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.assets.tools import host_program
from lab.hosts import local
from lab.hosts.clocks import InRealTime
from lab.hosts.host import Completed, Ports, RouterFacts
from lab.model.units import Duration


@dataclass
class LocalHost(local.LocalHost):
    """The servers may be the cache's."""

    programs: Callable[[str], str] = host_program


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
