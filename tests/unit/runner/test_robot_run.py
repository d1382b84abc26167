"""Suites and cells under Robot, with a session that notes what it is asked for instead of running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import UsageProblem
from lab.paths import suites_dir
from lab.runner.robot_run import Choice, run_cells, run_suite
from lab.spec.models import Cell

THROTTLE = suites_dir() / "throttle.robot"


class Notes:
    """As much of a Session as Robot's side needs; every cell passes."""

    def __init__(self, folder: Path) -> None:
        self.run = SimpleNamespace(path=folder)
        self.results: list[Any] = []
        self.findings: list[Any] = []
        self.options = SimpleNamespace(flamegraph=None, clock="real")
        self.cells: list[Cell] = []
        self.problem: UsageProblem | None = None

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_cell(self, cell: Cell) -> Any:
        self.cells.append(cell)
        verdict = SimpleNamespace(name="PASS", reason="well done")
        client = SimpleNamespace(name=cell.client.name, version="1")
        self.results.append(SimpleNamespace(verdict=verdict, client=client, transfer=cell.transfer, id=cell.id))
        return self.results[-1]

    @property
    def clients(self) -> list[str]:
        return [cell.client.program for cell in self.cells]

    @property
    def ids(self) -> list[str]:
        return [cell.id for cell in self.cells]


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    (tmp_path / "robot").mkdir()
    return Notes(tmp_path)


def test_the_suite_names_ferry_unless_told_otherwise(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(tests=["DSL 20, H2 Put*"]))
    assert notes.ids == ["ferry--dsl-20--h2-put-5MiB-at-2MBps", "ferry--dsl-20--h2-put-5MiB-at-1MBps"]


def test_one_client_by_path(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {}, clients=["mine=/opt/curl"], choice=Choice(tests=["DSL 20, H2 Put*"]))
    assert notes.clients == ["/opt/curl"] * 2
    assert notes.ids[0].startswith("mine--")


def test_several_clients_one_after_the_other_in_one_run(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {"SIZE": "1 MB"}, clients=["ferry", "curl"], choice=Choice(include=["demo"]))
    demo = len(notes.cells) // 2
    assert notes.clients == ["ferry"] * demo + ["curl"] * demo
    assert {cell.transfer.size.bytes for cell in notes.cells} == {1_000_000}
    output = (notes.run.path / "robot/output.xml").read_text()
    assert 'name="Throttle"' in output
    assert 'name="ferry"' in output


def test_the_demo_has_one_of_each_kind(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(include=["demo"]))
    kinds = {(cell.transfer.protocol, cell.transfer.direction, cell.transfer.chunked) for cell in notes.cells}
    assert {kind[0] for kind in kinds} == {"http1", "h2", "sftp"}
    assert {kind[1] for kind in kinds} == {"get", "put"}
    assert any(chunked for _, _, chunked in kinds)
    assert {cell.topology.name for cell in notes.cells} == {"link-local", "dsl-50", "dsl-20"}


def test_every_row_of_the_suite_is_a_cell_of_its_own(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {})
    assert len(notes.ids) == len(set(notes.ids)) >= 20


@pytest.mark.parametrize("clients", [[], ["a", "b"]])
@pytest.mark.parametrize(
    "choice", [Choice(tests=["Nothing"]), Choice(include=["nothing"]), Choice(include=["demo"], exclude=["study:*"])]
)
def test_no_such_test_is_the_users_problem(notes: Notes, choice: Choice, clients: list[str]) -> None:
    with pytest.raises(UsageProblem, match=r"no test of throttle matches '(Nothing|nothing|demo', not 'study:\*)'"):
        run_suite(THROTTLE, notes, {}, clients=clients, choice=choice)


def test_tests_with_a_tag_are_left_out(notes: Notes) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(exclude=["demo"]))
    whole = len(notes.ids)
    run_suite(THROTTLE, notes, {}, choice=Choice(include=["demo"]))
    assert whole > len(notes.ids) - whole > 0
    assert not set(notes.ids[:whole]) & set(notes.ids[whole:])


@pytest.mark.parametrize("clients", [["curl@9.9.9"], ["ferry", "curl@9.9.9"]])
def test_a_client_that_is_not_there_is_said_before_anything_is_run(notes: Notes, clients: list[str]) -> None:
    with pytest.raises(UsageProblem, match=r"curl '9\.9\.9' is in no registry"):
        run_suite(THROTTLE, notes, {}, clients=clients, choice=Choice(include=["demo"]))
    with pytest.raises(UsageProblem, match=r"curl '9\.9\.9' is in no registry"):
        run_cells(["ferry--dsl-20--http1-get-1MB"], notes, clients)
    assert notes.cells == []


def test_a_client_of_none_of_the_cells_is_not_left_unheeded(notes: Notes) -> None:
    with pytest.raises(UsageProblem, match="--client wget: none of the cells is wget's"):
        run_cells(["curl--dsl-20--http1-get-1MB"], notes, ["wget"])
    assert notes.cells == []


def test_cells_take_the_client_of_their_name(notes: Notes) -> None:
    names = ["curl--dsl-20--http1-get-1MB-at-1MBps", "ferry--dsl-20--h2-get-1MB-at-1MBps"]
    run_cells(names, notes, ["curl=/opt/curl", "ferry=/opt/ferry"])
    assert notes.ids == names
    assert notes.clients == ["/opt/curl", "/opt/ferry"]


def test_a_transfer_that_cannot_be_is_one_line(notes: Notes, tmp_path: Path) -> None:
    suite = tmp_path / "bad.robot"
    row = "client=ferry    topology=dsl-20    limit=1 MB/s    size=1 MB    tolerance=5 %    direction=put    size_known=no"
    settings = "*** Settings ***\nLibrary    lab.keywords.library.LabLibrary\n"
    suite.write_text(f"{settings}*** Test Cases ***\nBad\n    Judge Limited Transfer    {row}\n")
    with pytest.raises(UsageProblem, match="only an HTTP get can be chunked"):
        run_suite(suite, notes, {})
