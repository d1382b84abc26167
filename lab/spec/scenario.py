"""A scenario: a bug that was reported, as a cell without its client, and the versions it is said to be in and not in.

One YAML file each in `suites/repros/`. The name of a cell is a scenario too, one of which nothing has been said yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from lab.errors import UsageProblem
from lab.paths import repros_dir
from lab.spec.cell import format_transfer, parse_cell_name, parse_transfer
from lab.spec.load import check_name, load_topology, meant, parse_model, read_text
from lab.spec.models import YAML_SUFFIXES, Cell, ClientSpec, Expectation, Model, Slug, Transfer, first_problem

Said = Literal["PASS", "FAIL"]
"""What a client is said to do: the good ones PASS, the bad ones FAIL."""


def _transfer(value: object) -> object:
    """Of its name, in the error that a model's field may raise."""
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
    """What was reported, the cell that shows it, and who is said to have it."""

    name: Slug
    reported: str = Field("", description="what was reported, where, and how far off it was")
    topology: str = Field(min_length=1, description="the name of a topology, or the path of its file")
    transfer: TransferName = Field(description="the part of a cell's name that says what is moved")
    expect: Expectation | None = Field(None, description="what the good ones do; left out, what the transfer promises by itself")
    client: Slug = Field("curl", description="what a build of no version is called: the adapter that speaks for it")
    good: tuple[str, ...] = Field((), description="clients without the bug, as `lab run --client` takes them")
    bad: tuple[str, ...] = Field((), description="clients with it")

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
        """Each client and what it is said to do, the bad ones first: it is they who must be caught."""
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


def list_scenarios(folder: Path | None = None) -> list[str]:
    """Names of the scenarios in `folder` (the project's own by default), sorted."""
    return sorted(path.stem for path in (folder or repros_dir()).glob("*.yaml"))


def find_scenario(text: str, folder: Path | None = None) -> Scenario:
    """The scenario of that name in `folder`, in that file, or which a cell of that name is. Raises UsageProblem."""
    path = Path(text)
    if path.suffix not in YAML_SUFFIXES:
        if "--" in text:
            return _of_cell(text)
        path = (folder or repros_dir()) / f"{text}.yaml"
        if not path.is_file():
            names = list_scenarios(folder)
            remedy = f"there are: {', '.join(names)}; the path of a YAML file or a cell's name will do too"
            raise UsageProblem(f"no scenario called {text!r}{meant(text, names)}", remedy=remedy)
    scenario = parse_model(Scenario, read_text("scenario", path), str(path))
    check_name(scenario.name, path)
    return scenario


def _of_cell(name: str) -> Scenario:
    """Of the cell's client only the program is kept: its versions are what is looked among."""
    client, topology, transfer, kind = parse_cell_name(name)
    load_topology(topology)
    return Scenario(
        name=f"{topology}.{format_transfer(transfer)}".lower()[:64].rstrip("-._"),
        topology=topology,
        transfer=transfer,
        expect=Expectation.of(transfer, kind=kind),
        client=client.partition("@")[0],
    )
