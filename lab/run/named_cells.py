"""Cells by their names, as a command is given them, and a run of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lab.clients.registry import parse_client, resolve_for
from lab.model.cell import Cell
from lab.model.cell_name import parse_cell_name
from lab.model.clock import ClockChoice
from lab.model.errors import NotSupported, UsageProblem
from lab.model.load import ENDPOINT_MARK, load_topology, with_endpoint
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation
from lab.run.clocks import clock_for
from lab.run.measured import measured_run
from lab.run.options import Options
from lab.run.progress import Progress
from lab.run.questions import Asking, CellQuestion, Crew, ask_all
from lab.run.resume import Resumed
from lab.run.session import Session
from lab.store.run_dir import RunDir


def named_cells(
    names: Sequence[str], clients: Sequence[str] = (), topologies: Sequence[str] = (), endpoint: str = ""
) -> list[Cell]:
    """The cells of these names. `clients` (NAME=PATH) are where cells of those clients find their programs; `topologies` are
    files of the networks that they name. The last one of a name counts. An `endpoint` is the server of them all.

    Raises UsageProblem for a name that is not a cell's and for a client or a network that is not there or has no cell. Raises
    NotSupported for a cell that its client or its server cannot do: it was asked for by name.
    """
    parsed = [parse_cell_name(name) for name in names]
    given: dict[str, ClientSpec] = {spec.name: spec for spec in map(parse_client, clients)}
    for client in given:
        if all(client != each.client for each in parsed):
            raise UsageProblem(
                f"--client {client}: none of the cells has that client",
                remedy=f"a cell's name begins with its client: {client}--...",
            )
    networks = {network.name: network for network in map(load_topology, topologies)}
    for network in networks:
        if all(network != each.topology.partition(ENDPOINT_MARK)[0] for each in parsed):
            raise UsageProblem(
                f"--topology {network}: none of the cells has that network",
                remedy=f"it is a cell's second part: --{network}--",
            )
    found: list[Cell] = []
    for name, (client, topology, transfer, kind) in zip(names, parsed, strict=True):
        spec = given.get(client) or parse_client(client)
        resolve_for(spec, transfer, name)
        cell = Cell(
            client=spec,
            topology=_network(topology, networks, endpoint),
            transfer=transfer,
            expectation=Expectation.of(transfer, kind=kind),
        )
        if cell.unserved:
            raise NotSupported(f"{cell.id}: {cell.unserved}")
        found.append(cell)
    return found


def _network(name: str, given: Mapping[str, Topology], endpoint: str) -> Topology:
    """The network of a cell's name, NETWORK or NETWORK@ENDPOINT. Raises UsageProblem."""
    network, _, named = name.partition(ENDPOINT_MARK)
    found = given.get(network) or load_topology(network)
    if not endpoint:
        return with_endpoint(found, named) if named else found
    served = with_endpoint(found, endpoint)
    if named and served.name != name:
        raise UsageProblem(f"--endpoint {endpoint} is not the {named} of {name}", remedy="leave one of them out")
    return served


def run_cells(
    cells: Sequence[Cell],
    options: Options,
    progress: Progress,
    *,
    name: str = "cells",
    reports: Callable[[RunDir], None] | None = None,
    crew: Crew | None = None,
    resume: Resumed | None = None,
) -> Session:
    """A run of these cells, side by side in virtual time, from its folder to its reports. The session is closed.

    A `crew` runs them on other machines; `resume` is a run that has some of them already.

    Raises NotSupported where no cell has an answer by the clock that was asked for, and the first problem that kept a cell from
    a result, after all are done.
    """
    refused = [problem for cell in cells if (problem := _refusal(cell, options.clock))]
    if refused and len(refused) == len(cells):
        raise refused[0]
    questions = [CellQuestion(cell) for cell in cells]
    done = resume.answered(questions, options) if resume else {}
    planned = [*dict.fromkeys(question.id for question in questions)]
    with measured_run(name, options, progress, reports=reports, resume=resume, planned=planned) as session:
        ask_all(Asking(session, crew, done), questions)
    return session


def _refusal(cell: Cell, clock: ClockChoice) -> NotSupported | None:
    try:
        clock_for([cell], clock)
    except NotSupported as problem:
        return problem
    return None
