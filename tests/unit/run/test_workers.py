"""Questions on other machines: compared first, asked once each, repeated where a worker is lost; what arrives was sent so."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from lab.model.errors import LabFault, NotSupported, RoughwaterError, UsageProblem
from lab.model.results import CellResult
from lab.model.transfer import ClientSpec
from lab.run.questions import CellQuestion
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.run.workers import crew as crew_module
from lab.run.workers.cluster import Cluster, SchedulerLost
from lab.run.workers.crew import MOST_LOST, DaskCrew
from lab.run.workers.facts import Facts, facts, first_difference
from lab.run.workers.parcel import Document, HeldRun, Parcel, found_problem, problem_of, unpack
from lab.run.workers.task import Order, Turns, answer, sendable
from lab.store.provenance import WORKER, machine_facts
from lab.store.run_dir import RunDir, read_cell
from tests.unit.run.fake_cluster import HERE, FakeCluster, FakeWorker
from tests.unit.run.fake_lab import FakeLab

ASKED = [
    CellQuestion(ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(ClientSpec(name="new")))
    for size in range(1, 7)
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "_LOOK_S", 0.01)


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


def ask(cluster: FakeCluster, made: Session, questions: Sequence[CellQuestion] = ASKED) -> list[Any]:
    cluster.instruments = made.options.instruments
    return DaskCrew(cluster, wait_s=5.0).answer(made, questions)  # type: ignore[arg-type]


def test_every_question_is_asked_once_and_its_result_is_in_the_run(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a"), FakeWorker("b")])
    outcomes = ask(cluster, made)
    assert [outcome.id for outcome in outcomes] == [question.id for question in ASKED]
    assert [result.id for result in made.results] == [question.id for question in ASKED]
    assert {cell.id: cell for cell in made.run.read_cells()} == {outcome.id: outcome for outcome in outcomes}
    assert len(cluster.orders) == len(ASKED)
    assert {order.worker for order in cluster.orders} == {"a", "b"}


def test_a_question_in_real_time_has_the_worker_to_itself(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a")])
    ask(cluster, made)
    assert all(order.alone for order in cluster.orders)
    assert made.options.clock == "real"


def test_a_lost_worker_costs_its_question_one_repetition_and_the_order_says_so(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a", loses=1), FakeWorker("b")])
    outcomes = ask(cluster, made)
    assert all(isinstance(outcome, CellResult) for outcome in outcomes)
    again = [order for order in cluster.orders if order.lost]
    assert [order.lost for order in again] == [("a",)]
    assert len(cluster.orders) == len(ASKED) + 1


def test_a_silent_worker_is_lost(made: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "SILENT_S", 0.05)
    cluster = FakeCluster([FakeWorker("a"), FakeWorker("b", silent=True)])
    assert all(isinstance(outcome, CellResult) for outcome in ask(cluster, made))
    assert [order.lost for order in cluster.orders if order.lost] == [("b",)]


def test_a_question_that_ends_every_worker_is_given_up(made: Session) -> None:
    (outcome,) = ask(FakeCluster([FakeWorker("a", loses=99)]), made, ASKED[:1])
    assert isinstance(outcome, LabFault)
    assert f"{MOST_LOST} workers were lost with it: a, a, a" in str(outcome)


def test_a_process_that_took_the_place_of_another_is_compared_again(made: Session) -> None:
    """At the same address, between two looks: only the process itself can tell."""
    worker = FakeWorker("a", facts=HERE.model_copy(update={"instance": "the one before"}))
    cluster = FakeCluster([worker])
    probes: list[str] = []

    def probe(addresses: Sequence[str], clients: object) -> dict[str, Facts | str]:
        probes.extend(addresses)
        found = FakeCluster.probe(cluster, addresses, clients)
        worker.facts = HERE
        return found

    cluster.probe = probe  # type: ignore[method-assign]
    outcomes = ask(cluster, made, ASKED[:2])
    assert all(isinstance(outcome, CellResult) for outcome in outcomes)
    assert probes == [worker.address] * 2
    assert [order.lost for order in cluster.orders] == [(), ("a",), ()]


@pytest.mark.parametrize(
    "change", [{"lab": "0" * 64}, {"kernel": "0" * 64}, {"programs": {"nginx": "0" * 64}}, {"clients": {"new": "1"}}]
)
def test_workers_that_differ_are_refused_in_one_line_before_the_first_question(made: Session, change: dict[str, Any]) -> None:
    cluster = FakeCluster([FakeWorker("a"), FakeWorker("b", facts=HERE.model_copy(update=change))])
    with pytest.raises(UsageProblem, match=r"^worker b") as caught:
        ask(cluster, made)
    assert "\n" not in str(caught.value)
    assert not cluster.orders


def test_a_worker_that_comes_later_and_differs_gets_nothing(made: Session) -> None:
    late = FakeWorker("late", facts=HERE.model_copy(update={"programs": {"nginx": "0" * 64}}))
    cluster = FakeCluster([FakeWorker("a", loses=1)], late=late)
    assert all(isinstance(outcome, CellResult) for outcome in ask(cluster, made))
    assert {order.worker for order in cluster.orders} == {"a"}


def test_without_a_worker_that_can_do_it_the_run_is_refused(made: Session) -> None:
    with pytest.raises(UsageProblem, match="needs a worker that offers real, and none does"):
        ask(FakeCluster([FakeWorker("a", offers={"virtual": 2})]), made)


def test_a_lost_scheduler_keeps_what_was_done_and_says_how_to_go_on(made: Session) -> None:
    with pytest.raises(SchedulerLost) as caught:
        ask(FakeCluster([FakeWorker("a")], lost_after=2), made)
    assert "2 of 6 are done" in str(caught.value)
    assert f"--resume {made.run.name}" in str(caught.value)
    assert [result.id for result in made.results] == [question.id for question in ASKED[:2]]
    assert {path.stem for path in made.run.cells.glob("*.json")} == {question.id for question in ASKED[:2]}


def test_a_client_by_a_relative_path_is_refused(made: Session) -> None:
    cell = ASKED[0].cell.model_copy(update={"client": ClientSpec(name="new", program="./new")})
    with pytest.raises(UsageProblem, match=r"workers have no \./new"):
        ask(FakeCluster([FakeWorker("a")]), made, [CellQuestion(cell)])


# --- parcels ---------------------------------------------------------------------------------------------------------


def parcel_of(made: Session, question: CellQuestion = ASKED[0]) -> Parcel:
    options = replace(sendable(made.options), instruments=made.options.instruments)
    order = Order(question, options, made.run.name, "a", HERE.instance, alone=False, wait_s=1.0)
    return answer(order)


def test_a_result_arrives_byte_for_byte(made: Session) -> None:
    parcel = parcel_of(made)
    (result,) = unpack(parcel, made.run)
    (document,) = parcel.documents
    path = made.run.cell_path(result.id)
    assert path.read_bytes() == document.data
    assert read_cell(path) == result


def test_a_result_with_other_bytes_or_of_another_run_is_refused_and_not_written(made: Session, tmp_path: Path) -> None:
    parcel = parcel_of(made)
    (document,) = parcel.documents
    damaged = Document(document.kind, document.sha256, document.data.replace(b"PASS", b"FAIL", 1))
    with pytest.raises(LabFault, match="the bytes received are not those sent"):
        unpack(replace(parcel, documents=(damaged,)), made.run)
    with pytest.raises(LabFault, match="is not one of"):
        unpack(parcel, RunDir.create("other", results=tmp_path))
    assert not list(made.run.cells.glob("*.json"))


@pytest.mark.parametrize("data", [b"{}", b"no JSON", b"[]"])
def test_a_result_that_is_not_valid_is_refused_in_one_line(made: Session, data: bytes) -> None:
    for kind in ("cell", "answer"):
        document = Document(kind, hashlib.sha256(data).hexdigest(), data)
        with pytest.raises(LabFault, match=r"^a result from a worker is not valid: ") as caught:
            unpack(Parcel((document,)), made.run)
        assert "\n" not in str(caught.value)


def test_a_worker_writes_no_file(made: Session) -> None:
    run = HeldRun("held")
    parcel = parcel_of(made)
    run.write_cell(CellResult.model_validate_json(parcel.documents[0].data))
    assert run.documents == parcel.documents
    assert not run.path.exists()


@pytest.mark.parametrize("problem", [UsageProblem("no", remedy="yes"), NotSupported("cannot"), LabFault("broken", remedy="mend")])
def test_a_problem_arrives_as_it_was(problem: RoughwaterError) -> None:
    found = found_problem(problem_of(problem))
    assert (type(found), found.message, found.remedy, str(found)) == (
        type(problem),
        problem.message,
        problem.remedy,
        str(problem),
    )


def test_what_a_worker_is_called_is_provenance() -> None:
    assert "worker" not in machine_facts()
    before = WORKER.set(MappingProxyType({"worker": "a", "repetition": 1}))
    try:
        assert (machine_facts()["worker"], machine_facts()["repetition"]) == ("a", 1)
    finally:
        WORKER.reset(before)


# --- machines --------------------------------------------------------------------------------------------------------


def test_this_machine_agrees_with_itself() -> None:
    assert first_difference({"a": HERE, "b": facts(), "c": HERE}) == ""
    assert len(HERE.lab) == len(HERE.kernel) == len(HERE.programs["python3"]) == 64


def test_the_digest_of_a_program_has_its_libraries_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.run.workers import facts as module

    before = module._with_libraries([Path("/bin/sh")])
    monkeypatch.setattr(module, "_LIBRARY", module.re.compile("no library"))
    assert module._with_libraries([Path("/bin/sh")]) != before


def test_a_missing_client_is_a_difference_with_its_reason() -> None:
    found = facts([ClientSpec(name="curl", program="/nowhere/curl")])
    assert found.clients["curl"].startswith("missing: ")
    other = found.model_copy(update={"clients": {"curl": "a" * 64}})
    assert first_difference({"a": other, "b": found}).startswith("b has another client curl than a: missing: ")


def test_real_time_waits_for_the_others_and_they_wait_for_it() -> None:
    turns, seen = Turns(), list[str]()
    shared_in, alone_waits, shared_out = (threading.Event() for _ in range(3))

    def shared() -> None:
        with turns.take(alone=False):
            shared_in.set()
            assert shared_out.wait(10)
            seen.append("shared ends")

    def alone() -> None:
        alone_waits.set()
        with turns.take(alone=True):
            seen.append("alone")

    first = threading.Thread(target=shared)
    first.start()
    assert shared_in.wait(10)
    second = threading.Thread(target=alone)
    second.start()
    assert alone_waits.wait(10)
    shared_out.set()
    for thread in (first, second):
        thread.join(10)
    assert seen == ["shared ends", "alone"]
    with turns.take(alone=False):
        seen.append("after")
    assert seen[-1] == "after"


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError()])
def test_a_scheduler_that_does_not_answer_a_probe_is_lost(error: OSError) -> None:
    class Client:
        def run(self, *_: object, **__: object) -> None:
            raise error

    with pytest.raises(SchedulerLost, match="the scheduler at tcp://there is gone"):
        Cluster(cast(Any, Client()), "tcp://there").probe(["tcp://worker"])
