"""A scenario: a reported bug as a cell without its client, with the clients reported to have the bug and those without it.

Rows of `suites/repros.robot` are scenarios. The name of a cell is also one, without clients reported to have a bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from lab.model.base import Model, Slug, first_problem
from lab.model.cell import Cell
from lab.model.cell_name import format_transfer, parse_cell_name, parse_transfer
from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.model.transfer import ClientSpec, Expectation, Transfer

Said = Literal["PASS", "FAIL"]
"""The verdict expected of a client: PASS for good ones, FAIL for bad ones."""


def _transfer(value: object) -> object:
    """Parse the name of a transfer. Raises ValueError, which pydantic expects of a field."""
    if not isinstance(value, str):
        return value
    try:
        return parse_transfer(value)
    except UsageProblem as problem:
        raise ValueError(str(problem)) from None


TransferName = Annotated[
    Transfer,
    BeforeValidator(_transfer),
    PlainSerializer(format_transfer, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["http1-put-1999999B-at-1MBps"]}),
]


class Scenario(Model):
    """A reported bug: its symptom, the cell that shows it, and the clients with and without it."""

    name: Slug
    symptom: str = Field("", description="what was reported, and how far off it was")
    report: str = Field("", description="link to the report; empty if there is no link")
    topology: str = Field(min_length=1, description="the name of a topology, or the path of its file")
    transfer: TransferName = Field(description="the part of a cell's name that says what is moved")
    expect: Expectation | None = Field(
        None, description="behaviour of the good clients; default: the expectation that the transfer implies"
    )
    client: Slug = Field("curl", description="client whose adapter runs builds without a version")
    good: tuple[str, ...] = Field((), description="clients without the bug, as `lab run --client` takes them")
    bad: tuple[str, ...] = Field((), description="clients with the bug")

    @property
    def expectation(self) -> Expectation:
        return self.expect or Expectation.of(self.transfer)

    @property
    def what(self) -> str:
        """Its cells' name without the client: `dsl-50--http1-get-5MiB-at-2MBps--burst`."""
        kind = self.expectation.named
        return "--".join([PurePath(self.topology).stem, format_transfer(self.transfer), *([kind] if kind else [])])

    @property
    def said(self) -> Iterator[tuple[str, Said]]:
        """Each client with its expected verdict. The bad clients come first, because the scenario must catch them."""
        yield from ((client, "FAIL") for client in self.bad)
        yield from ((client, "PASS") for client in self.good)

    def cell(self, client: str) -> Cell:
        """The scenario on one client. Raises UsageProblem when there is no such topology, or the cell cannot be."""
        topology = load_topology(self.topology)
        try:
            spec = ClientSpec.parse(client)
            return Cell(client=spec, topology=topology, transfer=self.transfer, expectation=self.expectation)
        except ValueError as problem:
            raise UsageProblem(f"scenario {self.name} cannot be run on {client!r}: {first_problem(problem)}") from None

    @model_validator(mode="after")
    def _sane(self) -> Self:
        names = [ClientSpec.parse(client).name for client, _ in self.said]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"a client is named twice: {', '.join(twice)}")
        if problem := self.expectation.problem(self.transfer):
            raise ValueError(problem)
        return self


def scenario_of_cell(name: str) -> Scenario:
    """The scenario that a cell is. Only the program of its client is kept: its versions are what is searched."""
    client, topology, transfer, kind = parse_cell_name(name)
    load_topology(topology)
    return Scenario(
        name=f"{topology}.{format_transfer(transfer)}".lower().replace("@", ".")[:64].rstrip("-._"),
        topology=topology,
        transfer=transfer,
        expect=Expectation.of(transfer, kind=kind),
        client=client.partition("@")[0],
    )
