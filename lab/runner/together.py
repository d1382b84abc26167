"""Cells that run interleaved between one pair of calibrations: their clients, their samples, whose turn was when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.backend.host import Network
from lab.client.adapter import ClientAdapter
from lab.client.registry import resolve
from lab.errors import NotSupported
from lab.result.models import CellResult, ClientIdentity, Sample, Verdict
from lab.runner.schedule import Schedule
from lab.server.bundle import Servers
from lab.spec.models import Cell, ClientSpec


@dataclass
class Together:
    """Parallel lists, an entry per cell; `order` has the index of a cell per transfer. `problems` are the lab's."""

    cells: Sequence[Cell]
    schedule: Schedule
    adapters: list[ClientAdapter]
    identities: dict[ClientSpec, ClientIdentity]
    samples: list[list[Sample]]
    order: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    results: list[CellResult] = field(default_factory=list)

    @classmethod
    def on(cls, network: Network, cells: Sequence[Cell], schedule: Schedule) -> Together:
        """Every client once, whatever the number of its cells. Raises NotSupported for a cell that its client cannot do."""
        clients = {client: resolve(client) for client in dict.fromkeys(cell.client for cell in cells)}
        for cell in cells:
            if reason := clients[cell.client].supports(cell.transfer):
                raise NotSupported(f"{cell.client.name} cannot do {cell.id}: {reason}")
        identities = {client: adapter.identify(network.client) for client, adapter in clients.items()}
        return cls(cells, schedule, [clients[cell.client] for cell in cells], identities, [[] for _ in cells])

    def identity(self, index: int, servers: Servers) -> ClientIdentity:
        """Of a cell's client, with the command of its transfer."""
        cell = self.cells[index]
        named = cell.client.program
        program = os.path.abspath(named) if "/" in named else named  # noqa: PTH100 - keeps symlinks, as typed
        command = self.adapters[index].command(cell.transfer, servers.endpoints)
        return self.identities[cell.client].model_copy(update={"command": command, "program": program})


def remarked(verdict: Verdict, remarks: Sequence[str]) -> Verdict:
    """With what else a reader should know."""
    return verdict.model_copy(update={"warnings": [*verdict.warnings, *remarks]}) if remarks else verdict
