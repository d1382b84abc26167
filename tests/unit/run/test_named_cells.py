"""Cells by their names: where their clients and networks come from, and when a run of them is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import NotSupported, UsageProblem
from lab.run.measured import measured_run
from lab.run.named_cells import named_cells, run_cells
from lab.run.progress import Silent
from tests.unit.run.fake_lab import FakeLab

NAME = "new--dsl-50--http1-get-5MiB-at-1MBps"
OTHER = "old--dsl-50--http1-get-5MiB-at-1MBps"
VIRTUAL_ONLY = "new--train--http1-get-5MiB-at-1MBps"


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_lab: FakeLab) -> Path:
    del fake_lab  # it names the clients
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


def network(folder: Path, name: str, rate: str = "8 Mbit/s", more: str = "") -> str:
    file = folder / str(len(list(folder.iterdir()))) / f"{name}.yaml"
    file.parent.mkdir()
    file.write_text(f"name: {name}\ndescription: A test.\nlink:\n  rate: {rate}\n{more}")
    return str(file)


def test_a_name_says_client_network_transfer_and_expectation() -> None:
    first, second = named_cells([NAME, f"{OTHER}--memory"])
    assert [first.id, second.id] == [NAME, f"{OTHER}--memory"]
    assert (first.client.name, first.client.program, first.topology.name) == ("new", "new", "dsl-50")
    assert (first.expectation.kind, second.expectation.kind) == ("limit", "memory")
    assert first.transfer.limit_byte_s == 1_000_000


def test_a_client_and_a_network_may_be_given_and_the_last_of_a_name_counts(tmp_path: Path) -> None:
    files = [network(tmp_path, "dsl-50", "1 Mbit/s"), network(tmp_path, "dsl-50", "2 Mbit/s")]
    (first, second) = named_cells([NAME, OTHER], ["new=/opt/one", "new=/opt/two"], files)
    assert (first.client.program, second.client.program) == ("/opt/two", "old")
    for cell in (first, second):
        assert cell.topology.link.rate
        assert cell.topology.link.rate.bit_s == 2_000_000


def test_what_is_given_must_belong_to_a_cell(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        named_cells([NAME, OTHER], ["old=/opt/old", "two=/opt/two"])
    assert caught.value.message == "--client two: none of the cells has that client"
    assert caught.value.remedy == "a cell's name begins with its client: two--..."
    with pytest.raises(UsageProblem) as caught:
        named_cells([NAME], [], [network(tmp_path, "dsl-50"), network(tmp_path, "other")])
    assert caught.value.message == "--topology other: none of the cells has that network"
    assert caught.value.remedy == "it is a cell's second part: --other--"


def run(fake_lab: FakeLab, names: list[str], files: list[str], **more: Any) -> Any:
    options = replace(fake_lab.options(), clock="real")
    return run_cells(named_cells(names, [], files), options, Silent(), **more)


SCHEDULE = "schedule:\n  steps:\n    - {at: 1 s, rate: 1 Mbit/s}\n"


def test_a_run_is_refused_where_no_cell_has_an_answer_by_the_clock(fake_lab: FakeLab, tmp_path: Path, results: Path) -> None:
    file = network(tmp_path, "train", more=SCHEDULE)
    with pytest.raises(NotSupported, match="train has a schedule, which runs in virtual time only"):
        run(fake_lab, [VIRTUAL_ONLY], [file])
    assert not results.exists()


def test_a_cell_that_is_refused_keeps_no_other_from_its_result(fake_lab: FakeLab, tmp_path: Path) -> None:
    file = network(tmp_path, "train", more=SCHEDULE)
    reported: list[Any] = []
    session = run(fake_lab, [VIRTUAL_ONLY, NAME], [file], name="mine", reports=reported.append)
    assert [result.id for result in session.results] == [NAME]
    assert list(session.skipped) == [VIRTUAL_ONLY]
    assert "-mine-" in session.run.name
    assert [each.path for each in reported] == [session.run.path]
    assert not any(opened.open for opened in fake_lab.opened), "the session is closed"


def test_what_a_run_has_already_is_not_run_again(fake_lab: FakeLab) -> None:
    first = run(fake_lab, [NAME], [])
    resumed: Any = SimpleNamespace(
        run=first.run, take_up=lambda session: session.results.extend(first.results), answered=lambda *_: {NAME: first.results[0]}
    )
    opened = len(fake_lab.opened)
    again = run(fake_lab, [NAME], [], resume=resumed)
    assert (again.run, again.results, len(fake_lab.opened)) == (first.run, first.results, opened)


def test_a_crew_is_asked_for_all_of_them(fake_lab: FakeLab) -> None:
    asked: list[Any] = []

    def answer(session: Any, questions: Any) -> list[Any]:
        asked.extend(question.id for question in questions)
        with measured_run("inner", fake_lab.options()) as inner:
            found = [question.ask(inner) for question in questions]
        session.results.extend(found)
        return found

    session = run(fake_lab, [NAME, OTHER], [], crew=SimpleNamespace(answer=answer))
    assert asked == [NAME, OTHER]
    assert [result.id for result in session.results] == [NAME, OTHER]
