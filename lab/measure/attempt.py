"""A client set to work where no sample is wanted: started as for a sample, its content checked, nothing else measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.backend.host import Completed, Network, Process
from lab.client.adapter import ClientAdapter
from lab.client.endpoints import Endpoints
from lab.errors import NotSupported
from lab.measure.arrived import collect
from lab.server.bundle import Servers
from lab.server.payload import Payload
from lab.spec.models import Transfer


@dataclass(frozen=True)
class Bench:
    """What a client needs to be run at all."""

    network: Network
    servers: Servers
    adapter: ClientAdapter


@dataclass(frozen=True)
class Attempt:
    """One client about to run, and what it should bring."""

    bench: Bench
    transfer: Transfer
    endpoints: Endpoints
    payload: Payload
    command: list[str]

    def start(self) -> Process:
        return self.bench.network.client.start(
            self.command, env=self.bench.adapter.environment(self.endpoints), cwd=self.endpoints.client_workdir
        )

    def run(self, timeout_s: float) -> Completed:
        """A client that hangs is killed after `timeout_s`; nothing of it raises."""
        return self.start().wait(timeout_s)

    def content(self) -> str:
        """What is wrong with what arrived; empty when it is whole. The file is taken away."""
        network = self.bench.network
        receiver = network.client if self.transfer.direction == "get" else network.server
        arrived = collect(receiver, self.endpoints.arrival_path(self.transfer))
        return arrived.problem(self.payload.size, self.payload.sha256)


def prepare(bench: Bench, transfer: Transfer, *, server: str = "", http_port: int = 0) -> Attempt:
    """`server` and `http_port` send the client elsewhere than to the lab's own server.

    Raises NotSupported for a transfer the client cannot do, or whose content this cannot check.
    """
    if reason := bench.adapter.supports(transfer):
        raise NotSupported(f"{bench.adapter.name} cannot do it: {reason}")
    if transfer.files > 1 or transfer.sink or transfer.discard:
        raise NotSupported("these studies look at one file that is kept")
    network, servers = bench.network, bench.servers
    elsewhere = server == "localhost"
    sender = network.client if transfer.direction == "put" or elsewhere else network.server
    payload = servers.payload(sender, transfer.size.bytes)
    endpoints = servers.endpoints.for_sample(payload.name, servers.next_upload_name(payload.name))
    endpoints = replace(endpoints, server=server or endpoints.server, http_port=http_port or endpoints.http_port)
    for path, text in bench.adapter.inputs(transfer, endpoints).items():
        network.client.write(path, text)
    return Attempt(bench, transfer, endpoints, payload, bench.adapter.command(transfer, endpoints))


def last_words(done: Completed) -> str:
    """The last line with a word in it that a client said, empty where there is none. Cut: some print their whole usage."""
    lines = (done.stdout + b"\n" + done.stderr).decode(errors="replace").splitlines()
    return next((line.strip()[:200] for line in reversed(lines) if any(letter.isalpha() for letter in line)), "")


def said(done: Completed) -> bool:
    return bool(done.stderr.strip() or done.stdout.strip())
