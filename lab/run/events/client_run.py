"""A client's run outside a sample: started as for a sample, the file checked, nothing else measured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lab.clients.adapter import ClientAdapter
from lab.hosts.host import Completed, Network, Process
from lab.model.endpoints import Endpoints
from lab.model.errors import NotSupported
from lab.model.transfer import Transfer
from lab.run.arrived import collect
from lab.servers.bundle import Servers
from lab.servers.payload import Payload


@dataclass(frozen=True)
class Bench:
    """A network with servers, the client to run on it, and the command lines that were started, in their order."""

    network: Network
    servers: Servers
    adapter: ClientAdapter
    started: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Ports:
    """The ports of the server's host for a client that does not use the lab's own ports."""

    http: int
    https: int
    ssh: int


@dataclass(frozen=True)
class ClientRun:
    """A client ready to start, and the file that it should transfer."""

    bench: Bench
    transfer: Transfer
    endpoints: Endpoints
    payload: Payload
    command: list[str]

    def start(self) -> Process:
        self.bench.started.append(list(self.command))
        return self.bench.network.client.under_test.start(
            self.command, env=self.bench.adapter.environment(self.endpoints), cwd=self.endpoints.client_workdir
        )

    def run(self, timeout_s: float) -> Completed:
        """Run the client, and kill it after `timeout_s`. Never raises."""
        return self.start().wait(timeout_s)

    def content(self) -> str:
        """The defect of the file that arrived, in words; empty when the file is intact. Removes the file."""
        network = self.bench.network
        receiver = network.client if self.transfer.direction == "get" else network.server
        arrived = collect(receiver, self.endpoints.arrival_path(self.transfer))
        return arrived.problem(self.payload.size, self.payload.sha256)


def prepare(bench: Bench, transfer: Transfer, *, server: str = "", http_port: int = 0, ports: Ports | None = None) -> ClientRun:
    """A client ready to start. `server`, and `http_port` or all `ports`, replace the lab's own server.

    Raises NotSupported for a transfer the client cannot do, or whose file cannot be checked here.
    """
    if reason := bench.adapter.supports(transfer):
        raise NotSupported(f"{bench.adapter.name} cannot do it: {reason}")
    if transfer.files > 1 or transfer.sink or transfer.discard:
        raise NotSupported("an event needs a transfer of one file that is kept")
    network, servers = bench.network, bench.servers
    elsewhere = server == "localhost"
    sender = network.client if transfer.direction == "put" or elsewhere else network.server
    payload = servers.payload(sender, transfer.size.bytes)
    endpoints = servers.endpoints.for_sample(payload.name, servers.next_upload_name(payload.name))
    endpoints = replace(endpoints, server=server or endpoints.server, http_port=http_port or endpoints.http_port)
    if ports is not None:
        endpoints = replace(endpoints, http_port=ports.http, https_port=ports.https, ssh_port=ports.ssh)
    for path, text in bench.adapter.inputs(transfer, endpoints).items():
        network.client.write(path, text)
    return ClientRun(bench, transfer, endpoints, payload, bench.adapter.command(transfer, endpoints))


def said(done: Completed) -> bool:
    return bool(done.stderr.strip() or done.stdout.strip())
