"""Which worker gets which question, how workers are refused, and what comes of answers that do not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lab.model.errors import LabFault, UsageProblem
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import Size
from lab.run.progress import Silent
from lab.run.questions import CellQuestion, EventQuestion, PlatformQuestion, SendBufferQuestion
from lab.run.release import ReleaseRow
from lab.run.session import Session
from lab.run.workers import crew as crew_module
from lab.run.workers.cluster import Listed, SchedulerLost
from lab.run.workers.crew import MOST_LOST, DaskCrew, clients_of, crew_at, needed
from lab.run.workers.parcel import Parcel
from lab.run.workers.task import Order
from lab.store.run_dir import RunDir
from tests.unit.run.fake_cluster import HERE, FakeCluster, FakeFuture, FakeWorker
from tests.unit.run.fake_lab import FakeLab

NEW, WINDOWS = ClientSpec(name="new"), ClientSpec(name="new", program="new.EXE")
ROW = ReleaseRow.named("dsl-50--http1-get-1MB-at-1MBps", "-")
ASKED = [CellQuestion(ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(NEW)) for size in range(1, 5)]
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rate": "8 Mbit/s"}})
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "_LOOK_S", 0.01)


@dataclass
class Heard(Silent):
    """Keeps what a person would read."""

    notes: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def verdict(self, cell: str, verdict: Any) -> None:
        self.verdicts.append(f"{cell} {verdict.name}")

    def skipped(self, reason: str) -> None:
        self.skips.append(reason)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def made(tmp_path: Path, fake_lab: FakeLab, heard: Heard) -> Session:
    return Session(RunDir.create("test", results=tmp_path), fake_lab.options(), progress=heard)


def ask(
    cluster: FakeCluster, made: Session, questions: Sequence[Any] = ASKED, *, needs: tuple[str, ...] = (), wait_s: float = 5.0
) -> list[Any]:
    cluster.instruments = made.options.instruments
    return DaskCrew(cluster, needs, wait_s).answer(made, questions)  # type: ignore[arg-type]


# --- what a question needs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["event", "buffers"])
def test_an_event_needs_the_clock_that_was_asked_for_and_windows_a_real_one(made: Session, kind: str) -> None:
    def question(client: ClientSpec) -> Any:
        if kind == "event":
            return EventQuestion(client, TOPOLOGY, GET, "silent")
        return SendBufferQuestion(client, TOPOLOGY, GET, Size(1), 1)

    virtual, real = (replace(made.options, clock=clock) for clock in ("virtual", "real"))
    assert needed(question(NEW), virtual) == ("virtual",)
    assert needed(question(NEW), real) == ("real",)
    assert needed(question(WINDOWS), virtual) == ("real", "windows")
    assert clients_of(question(NEW)) == [NEW]


def test_a_cell_needs_the_clock_that_it_runs_by(made: Session) -> None:
    virtual = replace(made.options, clock="virtual")
    assert needed(ASKED[0], virtual) == ("virtual",)
    assert needed(ASKED[0], made.options) == ("real",)
    assert needed(CellQuestion(ROW.cell(WINDOWS)), replace(made.options, clock="auto")) == ("real", "windows")
    assert clients_of(ASKED[0]) == [NEW]
    assert clients_of(PlatformQuestion(ROW.cell(WINDOWS))) == [WINDOWS]


def test_without_an_address_there_is_no_crew() -> None:
    with crew_at(None) as crew:
        assert crew is None


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_each_question_goes_to_the_worker_with_the_most_room(made: Session, heard: Heard) -> None:
    cluster = FakeCluster([FakeWorker("small", offers={"real": 1}), FakeWorker("large", offers={"real": 3, "gpu": 1})])
    held: list[Callable[[], None]] = []
    cluster.submit = holding(cluster, held, 4)  # type: ignore[method-assign]
    ask(cluster, made)
    assert [order.worker for order in cluster.orders[:2]] == ["large", "large"]
    assert sorted(order.worker for order in cluster.orders) == ["large", "large", "large", "small"]
    assert heard.notes == ["4 to ask of the 2 workers of tcp://test"]


def holding(cluster: FakeCluster, held: list[Callable[[], None]], count: int) -> Any:
    """Nothing comes back before `count` orders are out."""

    def submit(function: Any, order: Order, **how: Any) -> FakeFuture:
        future = FakeCluster.submit(cluster, function, order, **how)
        tell = future.add_done_callback

        def later(call: Any) -> None:
            held.append(lambda: tell(call))
            if len(held) == count:
                for each in held:
                    each()

        future.add_done_callback = later  # type: ignore[method-assign]
        return future

    return submit


def test_a_worker_has_no_more_at_a_time_than_it_offers_and_gets_the_next_when_one_came(made: Session, heard: Heard) -> None:
    cluster = FakeCluster([FakeWorker("a", offers={"real": 2})])
    cluster.submit = holding(cluster, [], 2)  # type: ignore[method-assign]
    outcomes = ask(cluster, made, ASKED[:2])
    assert [outcome.id for outcome in outcomes] == [question.id for question in ASKED[:2]]
    assert heard.notes == ["2 to ask of the 1 worker of tcp://test"]
    assert heard.verdicts == [f"{outcome.id} {outcome.verdict.name}" for outcome in outcomes]


def test_an_order_has_all_that_its_worker_must_know(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a", offers={"real": 1, "gpu": 1})])
    asked: list[dict[str, Any]] = []

    def submit(function: Any, order: Order, **how: Any) -> FakeFuture:
        asked.append(how)
        return FakeCluster.submit(cluster, function, order, **how)

    cluster.submit = submit  # type: ignore[method-assign]
    ask(cluster, made, ASKED[:1], needs=("gpu",), wait_s=7.0)
    (order,), (how,) = cluster.orders, asked
    assert (order.question, order.run, order.worker, order.alone, order.wait_s) == (ASKED[0], made.run.name, "a", True, 7.0)
    assert order.instance == HERE.instance
    assert how["resources"] == {"real": 1, "gpu": 1}
    name, _, number = how["key"].rpartition("-")
    assert (name, len(number)) == (ASKED[0].id, 12)


def test_a_question_that_no_free_worker_can_take_lets_others_pass(made: Session) -> None:
    windows = CellQuestion(ROW.cell(WINDOWS))
    workers = [FakeWorker("a", offers={"real": 1}), FakeWorker("w", offers={"real": 1, "windows": 1})]
    cluster = FakeCluster(workers)
    ask(cluster, made, [windows, *ASKED[1:]])
    assert next(order.worker for order in cluster.orders if order.question == windows) == "w"
    assert len(cluster.orders) == 4


def test_those_that_may_pass_keep_their_order(made: Session) -> None:
    windows = [CellQuestion(ReleaseRow.named(f"dsl-50--http1-get-{size}MB-at-1MBps", "-").cell(WINDOWS)) for size in (8, 9)]
    cluster = FakeCluster([FakeWorker("w", offers={"real": 1, "windows": 1}), FakeWorker("a", offers={"real": 2})])
    ask(cluster, made, [*windows, *ASKED[1:3]])
    assert [order.question for order in cluster.orders] == [windows[0], *ASKED[1:3], windows[1]]


def test_workers_that_offer_something_else_are_not_even_compared(made: Session) -> None:
    other = FakeWorker("b", offers={"virtual": 4}, facts=HERE.model_copy(update={"lab": "0" * 64}))
    cluster = FakeCluster([FakeWorker("a"), other])
    assert len(ask(cluster, made)) == len(ASKED)
    assert {order.worker for order in cluster.orders} == {"a"}


# --- who is refused ---------------------------------------------------------------------------------------------------


def test_what_is_needed_and_not_offered_is_named_with_a_question_that_needs_it(made: Session) -> None:
    with pytest.raises(UsageProblem) as caught:
        ask(FakeCluster([FakeWorker("a")]), made, needs=("gpu",))
    assert caught.value.message == f"{ASKED[0].id} needs a worker that offers real and gpu, and none does"
    assert caught.value.remedy == "lab workers tcp://test lists what they offer"


def test_a_scheduler_without_workers_is_waited_for_and_then_refused(made: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "FIRST_WORKER_S", -1.0)
    with pytest.raises(UsageProblem) as caught:
        ask(FakeCluster([]), made)
    assert caught.value.message == "the scheduler at tcp://test has no worker"
    assert caught.value.remedy == "start some: lab worker tcp://test"


def test_a_first_worker_may_come_late(made: Session) -> None:
    workers: list[FakeWorker] = []
    cluster = FakeCluster(workers)
    look = cluster.look

    def later() -> dict[str, Listed]:
        found = look()
        if not workers:
            workers.append(FakeWorker("a"))
        return found

    cluster.look = later  # type: ignore[method-assign]
    assert len(ask(cluster, made)) == len(ASKED)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({}, "worker a: it does not answer"),
        ({"tcp://a:1": "it has another version of the lab"}, "worker a: it has another version of the lab"),
        (
            {"tcp://a:1": HERE.model_copy(update={"kernel": "0" * 64})},
            f"worker a: a has another kernel of virtual time than this machine: {'0' * 12}, not {HERE.kernel[:12] or 'none'}",
        ),
    ],
)
def test_a_worker_that_is_not_like_this_machine_is_refused_with_its_reason(
    made: Session, told: dict[str, Any], problem: str
) -> None:
    cluster = FakeCluster([FakeWorker("a")])
    cluster.probe = lambda *_: told  # type: ignore[method-assign]
    with pytest.raises(UsageProblem) as caught:
        ask(cluster, made)
    assert (caught.value.message, caught.value.remedy) == (problem, "install the same lab on all machines")


def test_workers_that_are_unlike_each_other_are_refused(made: Session) -> None:
    other = HERE.model_copy(update={"clients": {"new": "1"}})
    with pytest.raises(UsageProblem) as caught:
        ask(FakeCluster([FakeWorker("a"), FakeWorker("b", facts=other)]), made)
    assert caught.value.message == "worker b has another client new than a: 1, not none"


@pytest.mark.parametrize(("program", "refused"), [("./new", True), ("bin/new", True), ("/bin/new", False), ("new", False)])
def test_a_client_in_a_folder_of_the_command_is_refused(made: Session, program: str, refused: bool) -> None:
    question = CellQuestion(ROW.cell(ClientSpec(name="new", program=program)))
    cluster = FakeCluster([FakeWorker("a")])
    if refused:
        with pytest.raises(UsageProblem, match=f"^client new: workers have no {program}"):
            ask(cluster, made, [question])
    else:
        assert len(ask(cluster, made, [question])) == 1


def test_a_worker_that_comes_later_is_compared_and_mentioned_once(made: Session, heard: Heard) -> None:
    late = FakeWorker("late", facts=HERE.model_copy(update={"programs": {"nginx": "0" * 64}}))
    cluster = FakeCluster([FakeWorker("a", loses=2)], late=late)
    ask(cluster, made)
    refused = [note for note in heard.notes if note.startswith("worker late gets nothing: late has another ")]
    assert len(refused) <= 1
    assert heard.notes.count("worker a is gone") == 2


# --- what does not come -----------------------------------------------------------------------------------------------


@dataclass
class Failing(FakeCluster):
    """The first `times` orders come to that problem."""

    problem: BaseException = field(default_factory=RuntimeError)
    times: int = 1

    def submit(self, function: Any, order: Order, *, workers: Sequence[str], **more: Any) -> FakeFuture:
        future = super().submit(function, order, workers=workers, **more)
        if len(self.orders) > self.times:
            return future

        def fail() -> Parcel:
            raise self.problem

        return FakeFuture(fail)


class KilledWorker(Exception):
    """As Dask's own, which need not be installed."""


@pytest.mark.parametrize("problem", [TimeoutError(), OSError("reset"), KilledWorker()])
def test_an_answer_that_is_lost_on_its_way_is_asked_for_again(made: Session, heard: Heard, problem: Exception) -> None:
    cluster = Failing([FakeWorker("a")], problem=problem)
    (outcome,) = ask(cluster, made, ASKED[:1])
    assert isinstance(outcome, CellResult)
    assert [order.lost for order in cluster.orders] == [(), ("a",)]
    assert f"{ASKED[0].id} was lost with worker a and runs again" in heard.notes


def test_a_problem_that_the_lab_does_not_know_is_the_questions_outcome(made: Session) -> None:
    cluster = Failing([FakeWorker("a")], problem=ValueError("one\n  two " + "x" * 300))
    first, second = ask(cluster, made, ASKED[:2])
    assert isinstance(first, LabFault)
    assert first.message == f"{ASKED[0].id}: worker a: ValueError: one two {'x' * 192}"
    assert first.remedy == "report it: a bug"
    assert isinstance(second, CellResult)


def test_a_question_is_given_up_with_the_worker_after_the_last_that_may_be_lost(made: Session) -> None:
    cluster = Failing([FakeWorker("a")], problem=TimeoutError(), times=MOST_LOST)
    (outcome,) = ask(cluster, made, ASKED[:1])
    assert isinstance(outcome, LabFault)
    assert outcome.message == f"{ASKED[0].id}: 3 workers were lost with it: a, a, a"
    assert len(cluster.orders) == MOST_LOST
    again = Failing([FakeWorker("a")], problem=TimeoutError(), times=MOST_LOST - 1)
    assert isinstance(ask(again, made, ASKED[:1])[0], CellResult)


def test_without_a_worker_for_long_the_run_ends_and_says_how_to_go_on(made: Session) -> None:
    workers = [FakeWorker("a")]
    cluster = FakeCluster(workers)

    def submit(function: Any, order: Order, **how: Any) -> FakeFuture:
        future = FakeCluster.submit(cluster, function, order, **how)
        if len(cluster.orders) < 2:
            return future
        workers.clear()
        return FakeFuture(None)

    cluster.submit = submit  # type: ignore[method-assign]
    with pytest.raises(LabFault) as caught:
        ask(cluster, made, ASKED[:2], wait_s=0.0)
    assert caught.value.message == f"no worker for {ASKED[1].id} in 0 s: 1 of 2 are done, and kept in {made.run.path}"
    assert caught.value.remedy == f"go on with the same command and --resume {made.run.name}"
    assert [result.id for result in made.results] == [ASKED[0].id], "what came is kept"


def test_what_has_not_come_when_the_scheduler_is_lost_is_called_back(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a", silent=True), FakeWorker("b")], lost_after=1)
    futures: list[FakeFuture] = []

    def submit(function: Any, order: Order, **how: Any) -> FakeFuture:
        futures.append(FakeCluster.submit(cluster, function, order, **how))
        return futures[-1]

    cluster.submit = submit  # type: ignore[method-assign]
    with pytest.raises(SchedulerLost):
        ask(cluster, made)
    assert futures
    assert all(future.cancelled for future in futures)


def test_a_worker_that_sends_no_result_is_a_bug(made: Session) -> None:
    cluster = FakeCluster([FakeWorker("a")])
    cluster.submit = lambda *_, **__: FakeFuture(lambda: Parcel(outcome="nothing", skipped={"it": "cannot"}))  # type: ignore[method-assign]
    (outcome,) = ask(cluster, made, ASKED[:1])
    assert isinstance(outcome, LabFault)
    assert outcome.message == f"{ASKED[0].id}: worker a sent no result"
    assert made.skipped == {"it": "cannot"}


def test_a_skip_is_shown_and_kept_and_its_problem_is_the_outcome(made: Session, heard: Heard) -> None:
    parcel = Parcel(problem=("NotSupported", "it cannot", "ask another"), skipped={"it": "cannot"})
    cluster = FakeCluster([FakeWorker("a")])
    cluster.submit = lambda *_, **__: FakeFuture(lambda: parcel)  # type: ignore[method-assign]
    (outcome,) = ask(cluster, made, ASKED[:1])
    assert (type(outcome).__name__, outcome.message, outcome.remedy) == ("NotSupported", "it cannot", "ask another")
    assert heard.skips == ["it: cannot"]
    assert (made.skipped, made.results) == ({"it": "cannot"}, [])
