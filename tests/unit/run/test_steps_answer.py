"""A test in steps: what is changed and when, what each transfer is given, and the answer that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.hosts.host import RouterFacts
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import Link
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.run import steps
from lab.run.session import Session
from lab.run.steps import Steps
from lab.store.run_dir import RunDir
from tests.support.samples import sample
from tests.unit.run.fake_lab import FakeLab, FakeNetwork

TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": {"rate": "8 Mbit/s", "rtt": "20 ms"}})
CHANGING = Topology.model_validate(
    {**TOPOLOGY.model_dump(), "name": "train", "schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}}
)
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
NEW = ClientSpec(name="new", program="/opt/new")


@dataclass
class World:
    """A clock that moves where something sleeps, and what was done at which time."""

    now_ns: int = 0
    ends_ns: int = 10**12
    told: list[Any] = field(default_factory=list)
    problem: str = ""
    byte_s: float | None = 2e6

    kind = "real"

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now_ns += round(seconds * 1e9)

    def running(self) -> bool:
        return self.now_ns < self.ends_ns

    def take(self, *words: Any, link: Any, schedule: Any, meanwhile: Any) -> Any:
        _, __, adapter, transfer, index = words
        self.told.append(("transfer", adapter.name, transfer.direction, index, link.rate.bit_s, schedule))
        if meanwhile:
            meanwhile(self)
        return sample(problem=self.problem, ok=not self.problem, exit_code=7 if self.problem else 0, body_byte_s=self.byte_s)

    @contextmanager
    def down(self, _: object, link: Link) -> Iterator[None]:
        self.told.append(("down", link, self.now_ns / 1e9))
        yield
        self.told.append(("up", self.now_ns / 1e9))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(steps, "take_sample", made.take)
    monkeypatch.setattr(steps, "link_down", made.down)
    monkeypatch.setattr(steps, "scheduled", lambda _, topology: f"schedule of {topology.name}")
    monkeypatch.setattr("lab.net.shape.change", lambda _, link: made.told.append(("change", link.rate.bit_s, made.now_ns / 1e9)))
    monkeypatch.setattr(FakeNetwork, "clock", made)
    monkeypatch.setattr(FakeNetwork, "vary", lambda _, seed: made.told.append(("vary", seed)))
    return made


@pytest.fixture
def session(fake_lab: FakeLab, tmp_path: Path) -> Session:
    return fake_lab.session(RunDir.create("test", results=tmp_path))


@pytest.fixture
def begun(session: Session, world: World) -> Steps:
    del world
    made = Steps(session, "A test, of: Steps!")
    made.start(TOPOLOGY, 5_000)
    return made


@pytest.mark.parametrize(
    ("name", "found"), [("A test, of: Steps!", "a-test-of-steps"), ("  -- 7 Up--", "7-up"), ("!?", "steps"), ("", "steps")]
)
def test_a_test_is_called_by_the_words_of_its_name(session: Session, name: str, found: str) -> None:
    assert Steps(session, name).id == found


def test_nothing_can_be_done_before_a_lab_is_up(session: Session, world: World) -> None:
    made = Steps(session, "a")
    acts: list[Callable[[], object]] = [
        lambda: made.transfer(NEW, GET),
        made.calibrate,
        lambda: made.command(["it"], environment={}, folder="/", timeout_s=9.0),
    ]
    for act in acts:
        with pytest.raises(UsageProblem, match="no lab is up") as caught:
            act()
        assert caught.value.remedy == "begin with Start Lab"
    assert (made.answer("PASS", ""), world.told) == (None, [])


def test_a_link_is_shaped_at_the_start_and_changed_at_once_or_later(begun: Steps, fake_lab: FakeLab, world: World) -> None:
    assert fake_lab.steps == ["shape"]
    link = begun.change({"rate": "4 Mbit/s"})
    assert (link.rate, link.rtt) == (Link.model_validate({"rate": "4 Mbit/s"}).rate, TOPOLOGY.link.rtt)
    later = begun.change({"rtt": "60 ms"}, after_s=2.0)
    assert later.rate == link.rate, "what was changed before stays"
    assert world.told == [("change", 4_000_000, 0.0)]
    begun.transfer(NEW, GET)
    assert world.told[2:] == [
        ("transfer", "new", "get", 0, 4_000_000, "schedule of plain"),
        ("change", 4_000_000, 2.0),
    ]
    begun.transfer(NEW, GET)
    assert len([each for each in world.told if each[0] == "change"]) == 2, "what was planned is done once"
    with pytest.raises(ValueError, match="nonsense"):
        begun.change({"nonsense": 1})


def test_what_is_planned_is_done_in_the_order_of_time(begun: Steps, world: World) -> None:
    begun.interrupt(1.5, after_s=3.0)
    begun.change({"rate": "2 Mbit/s"}, after_s=1.0)
    begun.change({"rate": "1 Mbit/s"}, after_s=4.0)
    begun.transfer(NEW, GET)
    # The interruption lasts until 4.5 s: what was due at 4 s comes then.
    assert world.told[2:] == [
        ("change", 2_000_000, 1.0),
        ("down", TOPOLOGY.link.model_copy(update={"rate": Link.model_validate({"rate": "2 Mbit/s"}).rate}), 3.0),
        ("up", 4.5),
        ("change", 1_000_000, 4.5),
    ]


def test_a_link_goes_down_at_once(begun: Steps, world: World) -> None:
    begun.interrupt(0.5)
    assert world.told == [("down", TOPOLOGY.link, 0.0), ("up", 0.5)]


def test_a_transfer_that_is_over_before_its_change_is_the_labs_fault(begun: Steps, world: World) -> None:
    begun.change({"rate": "2 Mbit/s"}, after_s=1.0)
    world.ends_ns = 10**9
    with pytest.raises(LabFault, match=r"^the transfer was over before the link could change after 1 s") as caught:
        begun.transfer(NEW, GET)
    assert caught.value.remedy == "take a larger size"
    assert "change" not in [each[0] for each in world.told]


def test_a_link_with_a_schedule_is_not_changed_by_hand(session: Session, world: World) -> None:
    made = Steps(session, "a")
    made.start(CHANGING, 0)
    for act in (lambda: made.change({"rate": "1 Mbit/s"}), lambda: made.interrupt(1.0)):
        with pytest.raises(UsageProblem, match="the schedule of train changes its link already"):
            act()
    made.transfer(NEW, GET)
    assert world.told[-1][-1] == "schedule of train"


def test_a_calibration_is_of_the_link_as_it_is_now(begun: Steps, session: Session, fake_lab: FakeLab) -> None:
    asked: list[Link] = []
    calibrate = fake_lab.calibrate

    def noted(network: Any, link: Link, *words: Any, **more: Any) -> Any:
        asked.append(link)
        return calibrate(network, link, *words, **more)

    object.__setattr__(session.options.instruments, "calibrate", noted)
    link = begun.change({"rate": "4 Mbit/s"})
    assert begun.calibrate().ok
    assert asked == [link]
    fake_lab.broken = lambda _: True
    with pytest.raises(LabFault, match=r"^the link is not what it claims to be: 9 % low"):
        begun.calibrate()


def test_an_answer_has_an_observation_of_every_transfer(begun: Steps, session: Session, world: World) -> None:
    shown: list[Any] = []
    session.progress.sample = lambda *words: shown.append((words[0], words[2]))  # type: ignore[method-assign]
    assert begun.transfer(NEW, GET).ok
    world.problem, world.byte_s = "cut off", None
    put = GET.model_copy(update={"direction": "put"})
    begun.transfer(NEW, put)
    answer = begun.answer("FAIL", "it was cut off")
    assert answer
    assert (answer.id, answer.question, answer.run, answer.backend) == ("a-test-of-steps", "complete", session.run.name, "fake")
    assert [each.name for each in answer.observations] == [
        "1. new--plain--http1-get-1MB",
        "2. new--plain--http1-put-1MB",
    ]
    assert [each.problem for each in answer.observations] == ["", "cut off"]
    assert [each.figures for each in answer.observations] == [
        {"wall_s": 1.5, "exit_code": 0.0, "body_MBps": 2.0},
        {"wall_s": 1.5, "exit_code": 7.0},
    ]
    assert (answer.clocks, answer.topology, answer.transfer) == (["real"], TOPOLOGY, put)
    assert answer.client
    assert (answer.client.name, answer.client.program) == ("new", "/opt/new")
    assert answer.verdict
    assert (answer.verdict.name, answer.verdict.reason) == ("FAIL", "it was cut off")
    assert session.answers == [answer]
    assert shown == [("a-test-of-steps", 1), ("a-test-of-steps", 2)]


def test_after_the_end_the_answer_still_knows_its_network(begun: Steps) -> None:
    begun.transfer(NEW, GET)
    begun.stop()
    with pytest.raises(UsageProblem, match="no lab is up"):
        begun.change({})
    answer = begun.answer("PASS", "")
    assert answer
    assert (answer.topology, answer.backend) == (TOPOLOGY, "fake")


def test_a_command_has_what_was_planned_for_it(begun: Steps, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def measure(network: FakeNetwork, argv: Any, *, meanwhile: Any, **how: Any) -> str:
        asked.append((network.backend, argv, how, bool(meanwhile)))
        if meanwhile:
            meanwhile(world)
        return "measured"

    monkeypatch.setattr("lab.run.commands.measure", measure)
    begun.change({"rate": "2 Mbit/s"}, after_s=1.0)
    for _ in range(2):
        assert begun.command(["it"], environment={"A": "1"}, folder="/w", timeout_s=3.0) == "measured"  # type: ignore[comparison-overlap]
    how = {"environment": {"A": "1"}, "folder": "/w", "timeout_s": 3.0}
    assert asked == [("fake", ["it"], how, True), ("fake", ["it"], how, False)]
    assert world.told == [("change", 2_000_000, 1.0)]


def test_in_steps_the_network_was_there_before_its_clients(begun: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    h3 = GET.model_copy(update={"protocol": "h3"})
    lab = begun._lab
    monkeypatch.setattr(steps, "userland_of", lambda client: client.program.partition(":")[2])
    other = ClientSpec(name="new", program="new:debian-12")
    begun._check_userland(NEW, GET)
    with pytest.raises(NotSupported, match=r"^new needs --userland client=debian-12"):
        begun._check_userland(other, GET)
    with pytest.raises(NotSupported, match=r"^HTTP/3 in steps needs --userland server="):
        begun._check_userland(NEW, h3)
    named: Any = {"client": SimpleNamespace(name="debian-12"), "server": SimpleNamespace(name="debian-13")}
    lab.userlands = named
    begun._check_userland(other, h3)
    with pytest.raises(NotSupported, match=r"^new needs --userland client=debian-11"):
        begun._check_userland(ClientSpec(name="new", program="new:debian-11"), GET)


@pytest.mark.parametrize(("same_host", "clock"), [(False, "virtual"), (True, "auto")])
def test_in_virtual_time_the_tests_name_decides_its_machine(
    fake_lab: FakeLab, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch, same_host: bool, clock: Any
) -> None:
    monkeypatch.setattr(World, "kind", "virtual")
    session = Session(RunDir.create("test", results=tmp_path), replace(fake_lab.options(), clock=clock))
    booted: list[Any] = []
    facts = RouterFacts("kernel", "", "", supports_seed=True)

    def open_for(ids: Any, payload_bytes: int, **how: Any) -> FakeNetwork:
        booted.append((list(ids), payload_bytes, how["wiring"].same_host))
        return FakeNetwork("machine", router_facts=facts)

    seeds = SimpleNamespace(open_for=open_for, sample_seed=lambda what, index: f"{what} {index}")
    session.lab.machines = seeds  # type: ignore[assignment]
    made = Steps(session, "a test")
    made.start(Topology.model_validate({"name": "free", "description": "A test.", "same_host": same_host}), 7_000)
    assert booted == [(["a-test"], 7_000, same_host)]
    if not same_host:
        made.transfer(NEW, GET)
        assert world.told[0] == ("vary", "a-test new--free--http1-get-1MB 0")
        assert world.told[1][4] == 1_000_000_000, "an unshaped link is a wire of a gigabit there"
        answer = made.answer("PASS", "")
        assert answer
        assert answer.clocks == ["virtual"]
