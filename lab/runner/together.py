"""Cells that run interleaved between one pair of calibrations: their clients, their samples, whose turn was when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.backend.host import Network
from lab.client import windows
from lab.client.adapter import ClientAdapter
from lab.client.registry import assert_able, resolve
from lab.result.models import CellResult, ClientIdentity, HostLoad, HostSnapshot, Sample, SetAside, Verdict
from lab.runner.schedule import Schedule
from lab.server.bundle import Servers
from lab.spec.models import Cell, ClientSpec


@dataclass
class Together:
    """Parallel lists, an entry per cell; `order` has the index of a cell per transfer that counts. `problems` are the lab's."""

    cells: Sequence[Cell]
    schedule: Schedule
    adapters: list[ClientAdapter]
    identities: dict[ClientSpec, ClientIdentity]
    samples: list[list[Sample]]
    set_aside: list[list[SetAside]]
    order: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    idle_before: HostLoad | None = None
    idle_after: HostLoad | None = None
    results: list[CellResult] = field(default_factory=list)

    @classmethod
    def on(cls, network: Network, cells: Sequence[Cell], schedule: Schedule) -> Together:
        """Every client once, whatever the number of its cells. Raises NotSupported for a cell that its client cannot do."""
        clients = {client: resolve(client) for client in dict.fromkeys(cell.client for cell in cells)}
        for cell in cells:
            assert_able(clients[cell.client], cell.client, cell.transfer, cell.id)
        identities = {client: adapter.identify(network.client) for client, adapter in clients.items()}
        adapters = [clients[cell.client] for cell in cells]
        return cls(cells, schedule, adapters, identities, [[] for _ in cells], [[] for _ in cells])

    def identity(self, index: int, servers: Servers) -> ClientIdentity:
        """Of a cell's client, with the command of its transfer."""
        cell = self.cells[index]
        named = cell.client.program
        program = os.path.abspath(named) if "/" in named else named  # noqa: PTH100 - keeps symlinks, as typed
        command = self.adapters[index].command(cell.transfer, servers.endpoints)
        return self.identities[cell.client].model_copy(update={"command": command, "program": program})

    def snapshot(self, index: int, shared: HostSnapshot) -> HostSnapshot:
        """As one cell's client saw its host: two clients of one network may be of different systems, one of them under Wine."""
        system = windows.system_of(self.identities[self.cells[index].client])
        client = shared.hosts.get("client")
        if system is None or client is None:
            return shared
        return shared.model_copy(update={"hosts": {**shared.hosts, "client": {**client, "system": system}}})


def remarked(verdict: Verdict, remarks: Sequence[str]) -> Verdict:
    """With what else a reader should know."""
    return verdict.model_copy(update={"warnings": [*verdict.warnings, *remarks]}) if remarks else verdict
