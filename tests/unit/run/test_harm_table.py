"""What a client does to a bystander and to a flow: figures of a table written by hand, and the order in which one is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from lab.clients import registry
from lab.hosts.virtual.machine import derived_seed
from lab.link.schedule import Course
from lab.model.errors import LabFault, NotSupported
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Transfer
from lab.model.units import ByteRate
from lab.net.bystander import Echo
from lab.net.flow import Flow, RunningFlow
from lab.run import harm
from lab.run.harm import FLOW_SOLO_S, SOLO_S, Beside, FlowSeen, HarmTable, chosen, harm_table
from tests.support.samples import sample
from tests.unit.run.fake_lab import FakeClient

MS, S = 1_000_000, 1_000_000_000
LINK = {"rate": "8 Mbit/s", "up": {"rate": "4 Mbit/s"}}
TOPOLOGY = Topology.model_validate({"name": "plain", "description": "A test.", "link": LINK})
GET = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
PUT = Transfer.model_validate({"protocol": "http1", "direction": "put", "size": "3 MB"})
BULK, WEB = Flow("bulk"), Flow("web")
UNSEEN = FlowSeen(0)


# --- the figures ------------------------------------------------------------------------------------------------------


def echoes(*rtts_ms: float | None) -> tuple[Echo, ...]:
    return tuple(Echo(20 * MS * at, rtt_ms) for at, rtt_ms in enumerate(rtts_ms))


def row(*rtts_ms: float | None, client: str = "it", problem: str = "", flow: FlowSeen | None = None, way: Any = GET) -> Beside:
    return Beside(client, way, 0, problem, 0.2, None, None, echoes(*rtts_ms), flow)


def table(
    *rows: Beside,
    flow: Flow | None = None,
    solo: Sequence[float | None] = (20.0,) * 10,
    down: FlowSeen = UNSEEN,
    up: FlowSeen = UNSEEN,
) -> HarmTable:
    return HarmTable(TOPOLOGY, 1, Course(0, 200 * MS), echoes(*solo), rows, (), flow, {"down": down, "up": up})


def test_each_client_is_compared_with_the_bystander_alone() -> None:
    found = table(row(*[25.0] * 9, 30.0), row(*[25.0] * 9, 99.0, client="other"), row(25.0, 50.0, 50.0, problem="broke off"))
    assert [len(found.of(name)) for name in ("it", "other", "third")] == [2, 1, 0]
    pooled = found.pooled("it")
    assert pooled is not None
    assert (pooled.p50_ms, pooled.p95_ms, pooled.count) == (25.0, 30.0, 10)
    assert (found.added_p95_ms("it"), found.added_p95_ms("other"), found.added_p95_ms("third")) == (10.0, 79.0, None)
    assert found.harm("it") == pytest.approx(1 / 3)
    assert found.harm("third") is None


def test_a_row_has_its_own_delay_and_way() -> None:
    delay = row(25.0, None, 35.0).delay
    assert delay is not None
    assert (delay.p50_ms, delay.p95_ms, delay.count) == (25.0, 35.0, 3)
    assert delay.loss == pytest.approx(1 / 3)
    assert (row().delay, row().direction, row(way=PUT).direction) == (None, "down", "up")


def test_a_bystander_that_is_lost_alone_is_the_labs_fault() -> None:
    assert table().solo_delay.p95_ms == 20.0
    with pytest.raises(LabFault, match="no packet of the bystander came back over plain, which carried nothing else"):
        _ = table(solo=(None, None)).solo_delay


def test_a_flow_gets_the_mean_of_what_it_had_next_to_transfers_that_arrived() -> None:
    found = table(
        row(flow=FlowSeen(400.0, (1.0, 2.0))),
        row(flow=FlowSeen(800.0, (3.0,))),
        row(flow=FlowSeen(9.0), problem="broke off"),
        row(client="alone"),
        flow=BULK,
        down=FlowSeen(1000.0),
    )
    assert found.flow_seen("it") == FlowSeen(600.0, (1.0, 2.0, 3.0))
    assert (found.flow_seen("alone"), found.flow_harm("alone"), found.flow_share("alone")) == (None, None, None)
    assert found.flow_harm("it") == pytest.approx(0.4)
    assert table(row(flow=FlowSeen(1.0))).flow_harm("it") is None, "no flow was asked for"


def test_a_flow_is_compared_with_itself_the_same_way() -> None:
    for way, harmed in ((GET, 0.75), (PUT, 0.5)):
        beside = row(flow=FlowSeen(250.0), way=way)
        assert table(beside, flow=BULK, down=FlowSeen(1000.0), up=FlowSeen(500.0)).flow_harm("it") == pytest.approx(harmed)


def test_web_is_harmed_by_the_time_of_its_slow_pages() -> None:
    beside = row(flow=FlowSeen(1.0, (1.0,) * 18 + (4.0, 9.0)))
    assert table(beside, flow=WEB, down=FlowSeen(1.0, (1.0,) * 18 + (2.0, 8.0))).flow_harm("it") == pytest.approx(0.5)
    assert table(beside, flow=WEB, down=FlowSeen(1.0)).flow_harm("it") is None
    assert table(row(flow=FlowSeen(1.0)), flow=WEB, down=FlowSeen(1.0, (1.0,))).flow_harm("it") is None


def test_a_flows_share_is_of_what_its_way_can_carry_at_best() -> None:
    # 1448 bytes of content in a frame of 1514.
    best = 1448 / 1514 * 1e6
    assert table(row(flow=FlowSeen(best / 4)), flow=BULK).flow_share("it") == pytest.approx(0.25)
    assert table(row(flow=FlowSeen(best / 4), way=PUT), flow=BULK).flow_share("it") == pytest.approx(0.5)
    found = HarmTable(
        Topology.model_validate({"name": "free", "description": "A test."}), 1, Course(0, S), (), (row(flow=FlowSeen(5.0)),), (),
        BULK, {},
    )  # fmt: skip
    assert found.flow_share("it") is None


def test_a_running_flow_is_seen_between_two_instants() -> None:
    running = RunningFlow()
    running.received = [(at * S // 10, 100) for at in range(20)]
    running.pages = [(0, 0.5), (S // 2, 0.25), (S, 0.125)]
    assert FlowSeen.of(running, S // 2, S) == FlowSeen(1000.0, (0.25,))


# --- which transfer ---------------------------------------------------------------------------------------------------


@dataclass
class Choosy(FakeClient):
    """Knows uploads only."""

    def supports(self, transfer: Transfer) -> str:
        return self.cannot or ("" if transfer.direction == "put" else f"no {transfer.direction}")


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[ClientSpec]:
    makers = {
        "all": FakeClient,
        "choosy": Choosy,
        "none": lambda name, program: FakeClient(name, program, cannot="it knows nothing"),
    }
    for name, maker in makers.items():
        monkeypatch.setitem(registry._CODE, name, maker)
    return [ClientSpec(name=name) for name in makers]


def test_a_client_moves_the_first_transfer_that_it_can(clients: list[ClientSpec]) -> None:
    everything, choosy, nothing = clients
    assert chosen(everything, [GET, PUT])[1] == GET
    assert chosen(choosy, [GET, PUT])[1] == PUT
    with pytest.raises(NotSupported, match=r"^choosy: no get$"):
        chosen(choosy, [GET])
    with pytest.raises(NotSupported, match=r"^none: it knows nothing$"):
        chosen(nothing, [PUT, GET])


# --- how a table is made ----------------------------------------------------------------------------------------------


@dataclass
class Made:
    """A lab whose clock moves where something sleeps or a client runs; `told` has what happened."""

    now_ns: int = 7 * S
    told: list[tuple[Any, ...]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    problem: str = ""
    slept_s: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_ns += round(seconds * 1e9)

    @property
    def network(self) -> Any:
        return SimpleNamespace(
            clock=SimpleNamespace(monotonic_ns=lambda: self.now_ns, sleep=self.sleep),
            client=SimpleNamespace(under_test=None),
            random_bytes=bytes,
            vary=lambda seed: self.told.append(("vary", seed)),
            close=lambda: self.told.append(("close",)),
        )

    @contextmanager
    def flowing(self, _: object, flow: Flow | None, way: str, seed: int) -> Iterator[RunningFlow]:
        self.told.append(("flow", str(flow), way, seed))
        running = RunningFlow()
        yield running
        running.received = [(at * S // 10, 50) for at in range(1000)]

    @contextmanager
    def bystander(self, _: object) -> Iterator[Any]:
        yield SimpleNamespace(between=lambda from_ns, to_ns: [Echo(at, 9.0) for at in range(from_ns, to_ns, S // 2)])

    @contextmanager
    def scheduled(self, _: object, topology: Topology) -> Iterator[Any]:
        changing = SimpleNamespace(start=lambda: self.told.append(("begin", topology.name)))
        yield changing if topology.schedule else None

    def take(self, *words: Any, link: Any, schedule: Any, meanwhile: Any) -> Any:
        _, __, adapter, transfer, index = words
        with schedule:
            meanwhile(None)
            self.now_ns += 2 * S
        self.told.append(("sample", adapter.name, transfer.direction, index, link.delay.ns))
        return sample(problem=self.problem, wall_s=1.75, tail_s=0.5, goodput_ratio=0.75, body_byte_s=1e6)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made()

    def open_network(**how: Any) -> Any:
        found.told.append(("open", how["seed"], how["payload_bytes"]))
        return found.network

    monkeypatch.setattr(harm, "open_network", open_network)
    monkeypatch.setattr(harm, "pin", lambda _, control, mtu: found.told.append(("pin", control, mtu)))
    monkeypatch.setattr(harm, "assert_no_bypass", lambda _: None)
    monkeypatch.setattr(harm, "start_servers", lambda *_, **__: "servers")
    monkeypatch.setattr(harm, "shape", lambda _, link: found.told.append(("shape", link)))
    for name in ("flowing", "bystander", "scheduled"):
        monkeypatch.setattr(harm, name, getattr(found, name))
    monkeypatch.setattr(harm, "take_sample", found.take)
    return found


def make(made: Made, clients: Sequence[ClientSpec], flow: Flow | None = None, topology: Topology = TOPOLOGY) -> HarmTable:
    progress: Any = SimpleNamespace(step=made.steps.append)
    return harm_table(topology, clients, [GET, PUT], samples=2, seed=5, progress=progress, flow=flow)


def test_the_bystander_is_alone_first_and_then_next_to_each_client_that_can(made: Made, clients: list[ClientSpec]) -> None:
    found = make(made, clients)
    assert made.told[:4] == [
        ("open", 5, 3_000_000),
        ("pin", TOPOLOGY.congestion_control, 1500),
        ("shape", TOPOLOGY.in_virtual_time().link),
        ("flow", "None", "down", 5),
    ]
    assert made.slept_s == [SOLO_S]
    second = 1000 * MS  # a queue of a second may hold a client's last byte
    assert [each for each in made.told if each[0] in ("vary", "sample")] == [
        each
        for name, way in (("all", "get"), ("choosy", "put"))
        for index in range(2)
        for each in (("vary", derived_seed(5, index)), ("sample", name, way, index, second))
    ]
    assert made.told[-1] == ("close",)
    assert made.steps == [
        "plain: the bystander alone",
        *(f"plain: {name}, transfer {number} of 2" for name in ("all", "choosy") for number in (1, 2)),
    ]
    assert found.left_out == ("none: it knows nothing",)
    assert [echo.sent_ns for echo in found.solo] == [at * S // 2 for at in range(10)], "counted from its own beginning"
    assert (found.seed, found.course, found.flow) == (5, Course(0, round(SOLO_S * 1e9)), None)


def test_a_row_is_what_a_transfer_came_to(made: Made, clients: list[ClientSpec]) -> None:
    made.problem = "broke off"
    first, second = make(made, clients[:1]).rows
    assert (first.client, first.transfer, first.index, second.index, first.problem) == ("all", GET, 0, 1, "broke off")
    assert (first.wall_s, first.goodput_byte_s, first.share, first.flow) == (1.75, 1e6, 0.75, None)
    assert [echo.sent_ns for echo in first.echoes] == [0, S // 2, S, 3 * S // 2], "as long as the client ran"


def test_a_flow_is_alone_in_every_way_that_a_transfer_goes(made: Made, clients: list[ClientSpec]) -> None:
    flow = Flow("cbr", rate=ByteRate(500))
    found = make(made, clients, flow)
    assert made.slept_s == [FLOW_SOLO_S] * 2
    ways = [each[2] for each in made.told if each[0] == "flow"]
    assert ways == ["down", "up", "down", "down", "up", "up"]
    assert found.flow == flow
    assert found.flow_solo == {"down": FlowSeen(500.0), "up": FlowSeen(500.0)}
    assert [each.flow.byte_s if each.flow else None for each in found.rows] == pytest.approx([500.0] * 4)
    assert found.course == Course(0, round(FLOW_SOLO_S * 1e9))


def test_a_lab_is_closed_where_its_link_cannot_be_made(
    made: Made, clients: list[ClientSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise LabFault("no link")

    monkeypatch.setattr(harm, "shape", broken)
    with pytest.raises(LabFault, match="no link"):
        make(made, clients)
    assert made.told[-1] == ("close",)


CHANGING = Topology.model_validate(
    {
        "name": "changing",
        "description": "A test.",
        "link": LINK,
        "schedule": {"steps": [{"at": "10 s", "rate": "1 Mbit/s"}]},
    }
)


def test_a_link_that_changes_is_seen_alone_for_all_of_its_course(made: Made, clients: list[ClientSpec]) -> None:
    found = make(made, clients[:1], topology=CHANGING)
    assert made.told.count(("begin", "changing")) == 1
    assert made.slept_s == [10 + SOLO_S]
    assert (found.course, len(found.solo)) == (Course(10 * S, round(SOLO_S * 1e9)), 30)
    # A client of 1.75 s ends with a tail of 0.5 s, so its body moves from 0.25 s to 1.25 s: at best 8 Mbit/s.
    assert found.rows[0].share == pytest.approx(1e6 / (1448 / 1514 * 1e6))


def test_a_transfer_that_failed_on_a_link_that_changes_has_the_share_of_its_sample(made: Made, clients: list[ClientSpec]) -> None:
    made.problem = "broke off"
    assert make(made, clients[:1], topology=CHANGING).rows[0].share == 0.75


def test_the_share_counts_what_the_link_carried_while_the_body_moved() -> None:
    early = Topology.model_validate(
        {"name": "early", "description": "A test.", "link": LINK, "schedule": {"steps": [{"at": "1 s", "rate": "1 Mbit/s"}]}}
    )
    best = 1448 / 1514 * 1e6

    def share(**more: Any) -> float | None:
        return harm._share(early, GET, sample(**{"wall_s": 1.75, "tail_s": 0.5, "goodput_ratio": 0.5, **more}))

    assert share() == pytest.approx(1e6 / (best * (0.75 + 0.25 / 8)))
    assert share(tail_s=None) == pytest.approx(1e6 / (best * (0.25 + 0.75 / 8)))
    assert share(body_s=2.0) == pytest.approx(1e6 / (best * (1 + 0.25 / 8))), "nothing moves before the client begins"
    assert (share(body_s=None), share(problem="broke off")) == (0.5, 0.5)
