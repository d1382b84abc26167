"""Suites and cells under Robot, with a session that notes what it is asked for instead of running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.errors import UsageProblem
from lab.model.paths import shipped_suites_dir
from lab.model.units import BitRate
from lab.robot.suite import Choice, find_suite, list_suites, read_suites, suite_file
from lab.robot.tables import read_rows
from lab.run.named_cells import named_cells
from tests.support.noted_session import NotedSession, run_suite

THROTTLE = shipped_suites_dir() / "throttle.robot"


def test_the_suite_names_ferry_by_default(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(tests=["DSL 20, H2 Put*"]))
    assert notes.ids == ["ferry--dsl-20--h2-put-5MiB-at-2MBps", "ferry--dsl-20--h2-put-5MiB-at-1MBps"]


def test_one_client_by_path(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {}, clients=["mine=/opt/curl"], choice=Choice(tests=["DSL 20, H2 Put*"]))
    assert notes.clients == ["/opt/curl"] * 2
    assert notes.ids[0].startswith("mine--")


def test_several_clients_one_after_the_other_in_one_run(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {"SIZE": "1 MB"}, clients=["ferry", "curl"], choice=Choice(include=["demo"]))
    demo = len(notes.cells) // 2
    assert notes.clients == ["ferry"] * demo + ["curl"] * demo
    assert {cell.transfer.size.bytes for cell in notes.cells} == {1_000_000}
    assert 'name="Throttle"' in notes.output
    assert 'name="Throttle, ferry"' in notes.output
    assert 'status="FAIL"' not in notes.output


def test_the_demo_has_one_of_each_kind(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(include=["demo"]))
    kinds = {(cell.transfer.protocol, cell.transfer.direction, cell.transfer.chunked) for cell in notes.cells}
    assert {kind[0] for kind in kinds} == {"http1", "h2", "sftp"}
    assert {kind[1] for kind in kinds} == {"get", "put"}
    assert any(chunked for _, _, chunked in kinds)
    assert {cell.topology.name for cell in notes.cells} == {"link-local", "dsl-50", "dsl-20"}


def test_every_row_of_the_suite_is_a_cell_of_its_own(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {})
    assert len(notes.ids) == len(set(notes.ids)) >= 20


@pytest.mark.parametrize("clients", [[], ["a", "b"]])
@pytest.mark.parametrize(
    "choice", [Choice(tests=["Nothing"]), Choice(include=["nothing"]), Choice(include=["demo"], exclude=["study:*"])]
)
def test_no_such_test_is_the_users_problem(notes: NotedSession, choice: Choice, clients: list[str]) -> None:
    with pytest.raises(UsageProblem, match=r"no test of throttle matches '(Nothing|nothing|demo', not 'study:\*)'"):
        run_suite(THROTTLE, notes, {}, clients=clients, choice=choice)


def test_tests_with_a_tag_are_left_out(notes: NotedSession) -> None:
    run_suite(THROTTLE, notes, {}, choice=Choice(exclude=["demo"]))
    whole = len(notes.ids)
    run_suite(THROTTLE, notes, {}, choice=Choice(include=["demo"]))
    assert whole > len(notes.ids) - whole > 0
    assert not set(notes.ids[:whole]) & set(notes.ids[whole:])


@pytest.mark.parametrize("clients", [["curl@9.9.9"], ["ferry", "curl@9.9.9"]])
def test_a_client_that_is_not_there_is_said_before_anything_is_run(notes: NotedSession, clients: list[str]) -> None:
    with pytest.raises(UsageProblem, match=r"curl '9\.9\.9' is in no registry"):
        run_suite(THROTTLE, notes, {}, clients=clients, choice=Choice(include=["demo"]))
    with pytest.raises(UsageProblem, match=r"curl '9\.9\.9' is in no registry"):
        named_cells(["curl@9.9.9--dsl-20--http1-get-1MB"])
    assert notes.cells == []


def test_a_client_that_no_cell_uses_is_refused() -> None:
    with pytest.raises(UsageProblem, match="--client wget: none of the cells"):
        named_cells(["curl--dsl-20--http1-get-1MB"], ["wget"])


def test_cells_take_the_client_of_their_name() -> None:
    names = ["curl--dsl-20--http1-get-1MB-at-1MBps", "ferry--dsl-20--h2-get-1MB-at-1MBps"]
    cells = named_cells(names, ["curl=/opt/curl", "ferry=/opt/ferry"])
    assert [cell.id for cell in cells] == names
    assert [cell.client.program for cell in cells] == ["/opt/curl", "/opt/ferry"]


def test_a_transfer_that_cannot_be_is_one_line(notes: NotedSession, tmp_path: Path) -> None:
    suite = tmp_path / "bad.robot"
    row = "client=ferry    topology=dsl-20    limit=1 MB/s    size=1 MB    tolerance=5 %    direction=put    size_known=no"
    settings = "*** Settings ***\nLibrary    lab.robot.library.LabLibrary\n"
    suite.write_text(f"{settings}*** Test Cases ***\nBad\n    Judge Limited Transfer    {row}\n")
    with pytest.raises(UsageProblem, match="chunked needs an HTTP get"):
        run_suite(suite, notes, {})


def test_a_cells_network_may_be_a_file_of_your_own(tmp_path: Path) -> None:
    file = tmp_path / "hotel.yaml"
    file.write_text("name: hotel\ndescription: An evening.\nlink:\n  rate: 8 Mbit/s\n")
    [cell] = named_cells(["curl--hotel--http1-get-1MB"], topologies=[str(file)])
    assert cell.topology.link.rate == BitRate.parse("8 Mbit/s")
    with pytest.raises(UsageProblem, match="--topology hotel: none of the cells has that network"):
        named_cells(["curl--dsl-20--http1-get-1MB"], topologies=[str(file)])


def test_a_suite_of_your_own_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "suites" / "hotel.robot"
    own.parent.mkdir()
    own.write_text("*** Test Cases ***\nNothing\n    No Operation\n")
    assert find_suite("hotel") == own
    assert {"hotel", "throttle"} <= {*list_suites()}


def test_interruptions_are_asked_over_every_protocol_both_ways() -> None:
    rows = read_rows(read_suites([suite_file("windows-quirks")], ()), {})
    asked = [question.id for row in rows for question in row.questions]
    for event in ("flap", "address"):
        transfers = {name.split("--")[2] for name in asked if name.endswith(f"--{event}")}
        assert transfers == {
            f"{way}-8MiB" for protocol in ("http1", "h2", "sftp") for way in (f"{protocol}-get", f"{protocol}-put")
        }
    assert len(asked) == len({*asked}) == 16
