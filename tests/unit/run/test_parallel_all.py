"""Jobs on as many machines as there are cores: whose outcome is whose, in which order, and what a problem ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault, NotSupported, RoughwaterError
from lab.model.results import CellResult
from lab.run import parallel
from lab.run.parallel import RUN_AGAIN, Job, run_all, run_jobs
from lab.run.session import Session
from lab.store.run_dir import RunDir
from tests.support.waiting import until
from tests.unit.run.fake_lab import FakeLab


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(parallel, "side_by_side", lambda: 2)
    return fake_lab.session(RunDir.create("test", results=tmp_path))


def named(cell: CellResult, name: str) -> CellResult:
    return cell.model_copy(update={"id": name})


def test_outcomes_and_results_are_in_the_order_of_the_jobs_whichever_was_done_first(made: Session, cell: CellResult) -> None:
    second_is_done = threading.Event()

    def job(number: int) -> Any:
        def work(own: Session) -> str:
            if number == 0:
                assert second_is_done.wait(10)
            own.results.append(named(cell, f"cell {number}"))
            if number == 1:
                second_is_done.set()
            return f"outcome {number}"

        return work

    assert run_all(made, [job(number) for number in range(5)]) == [f"outcome {number}" for number in range(5)]
    assert [result.id for result in made.results] == [f"cell {number}" for number in range(5)]


def test_a_problem_is_an_outcome_and_stops_no_other(made: Session, cell: CellResult) -> None:
    fault, skip = LabFault("broken"), NotSupported("it cannot")

    def job(problem: RoughwaterError | None, name: str) -> Any:
        def work(own: Session) -> str:
            own.results.append(named(cell, name))
            if problem:
                raise problem
            return name

        return work

    jobs = [job(fault, "a"), job(skip, "b"), job(None, "c")]
    assert run_all(made, jobs) == [fault, skip, "c"]
    assert [result.id for result in made.results] == ["a", "b", "c"], "what was written before it is kept"


def test_anything_else_ends_all_and_is_raised_when_the_networks_are_down(made: Session, fake_lab: FakeLab) -> None:
    began: list[str] = []

    def broken(own: Session) -> None:
        own.lab.bring_up()
        began.append("broken")
        raise ZeroDivisionError("a bug")

    def last(_: Session) -> None:
        began.append("last")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        run_all(made, [broken, broken, broken, last])
    assert "last" not in began
    assert fake_lab.opened
    assert not any(network.open for network in fake_lab.opened)


def test_there_are_no_more_machines_than_cores_or_jobs(made: Session) -> None:
    def job(own: Session) -> tuple[str, str]:
        return own.lab.name, threading.current_thread().name

    found = {each for each in run_all(made, [job] * 6) if isinstance(each, tuple)}
    names = {f"{made.run.name}-lane1", f"{made.run.name}-lane2"}
    assert {name for name, _ in found} <= names
    assert all(thread == f"ahead-{name}" for name, thread in found)
    assert run_all(made, [job]) == [(f"{made.run.name}-lane1", f"ahead-{made.run.name}-lane1")]
    assert run_all(made, []) == []


def test_an_interrupt_abandons_every_machine_and_keeps_what_was_written(
    made: Session, cell: CellResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, crews = threading.Barrier(3), list[Session]()
    waits = parallel.wait_for

    def hangs(own: Session) -> None:
        crews.append(own)
        own.results.append(named(cell, own.lab.name))
        inside.wait(10)
        until(lambda: own.lab.abandoned, "the lab is abandoned")

    def interrupted(_: object) -> None:
        monkeypatch.setattr(parallel, "wait_for", waits)
        inside.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all(made, [hangs] * 4)
    assert len(crews) == 2, "no other job was begun"
    assert sorted(result.id for result in made.results) == sorted(crew.lab.name for crew in crews)


def test_there_are_as_many_machines_as_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 5, 7} if pid == 0 else set())
    assert parallel.side_by_side() == 3


@pytest.mark.parametrize(("lanes", "light", "together"), [(1, 4, 0), (4, 1, 0), (4, 3, 3), (2, 5, 2), (2, 0, 0)])
def test_light_jobs_share_the_machine_where_there_are_several(
    made: Session, monkeypatch: pytest.MonkeyPatch, lanes: int, light: int, together: int
) -> None:
    asked: list[Any] = []

    def side_by_side(_: Session, jobs: Any, which: list[int], count: int) -> dict[int, str]:
        asked.append((which, count))
        return {index: f"beside {index}" for index in which}

    monkeypatch.setattr(parallel, "_side_by_side", side_by_side)
    jobs = [Job(lambda own: f"alone {own.run.name == made.run.name}", light=number < light) for number in range(5)]
    found = run_jobs(made, jobs, lanes, lambda _: False)
    assert asked == ([(list(range(light)), together)] if together else [])
    assert found == [f"beside {number}" if together and number < light else "alone True" for number in range(5)]


def test_what_was_spoilt_next_to_others_is_run_again_and_says_so_even_where_that_fails(
    made: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    remarks: list[Any] = []

    def job(own: Session) -> str:
        remarks.append(own.remarks)
        if len(remarks) == 2:
            raise LabFault("again")
        return "good"

    monkeypatch.setattr(parallel, "_side_by_side", lambda *_: {0: "spoilt", 1: "fine"})
    assert run_jobs(made, [Job(job, light=True)] * 2, 2, lambda outcome: outcome == "spoilt") == ["good", "fine"]
    assert (remarks, made.remarks) == ([(RUN_AGAIN,)], ())
    with pytest.raises(LabFault, match="again"):
        run_jobs(made, [Job(job, light=True)] * 2, 2, lambda outcome: outcome == "spoilt")
    assert made.remarks == ()
