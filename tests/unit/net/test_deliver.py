"""A link kept full in both directions while it changes, and what left it in each tenth of a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lab.link.trace import planned_bytes
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.topology import Schedule, Topology
from lab.model.trace import Trace, TraceDirection, packed
from lab.net import delivered
from lab.net.delivered import Delivered, certify_trace, compare, deliver
from tests.support.noted_hosts import NotedNetwork

MS = 1_000_000
FRAME = 1514
LINK = Link.model_validate({"rate": "10 Mbit/s", "rtt": "40 ms", "down": {"loss": "50 %"}})


def topology(up: tuple[int, ...], down: tuple[int, ...]) -> Topology:
    sides = {name: TraceDirection(file="x", sha256="", frames=packed(counts)) for name, counts in (("up", up), ("down", down))}
    return Topology(name="t", description="-", link=LINK, schedule=Schedule(trace=Trace(**sides)))


class Carrying(NotedNetwork):
    """The ports count `up` and `down` bytes at each full ms from the schedule's beginning on, and 7 bytes before it."""

    up, down = 1000, 3000
    started_ns = 0

    @contextmanager
    def scheduled(self, network: object, asked: Topology) -> Iterator[Any]:
        assert network is self
        self.note("schedule", "put", (asked.name,))
        outer = self

        class Running:
            base_ns = 0

            def start(self) -> None:
                outer.note("schedule", "start", ())
                self.base_ns = outer.started_ns = outer.clock.now_ns

        yield Running()
        self.note("schedule", "taken off", ())

    def sent(self, way: str, at_ns: int) -> int:
        openings = (at_ns - self.started_ns) // MS + 1 if self.started_ns and at_ns >= self.started_ns else 0
        return openings * (self.up if way == "up" else self.down) + 7


class Sampler:
    """Readings each 0.5 ms, as the wire has them."""

    def __init__(self, network: Any, *, interval_ms: float) -> None:
        assert interval_ms == 0.5
        self.network = network

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def between(self, start_ns: int, end_ns: int) -> list[Any]:
        rows = []
        for at_ns in range(start_ns - MS, end_ns + MS, MS // 2):
            sent = {"to-server": self.network.sent("up", at_ns), "to-client": self.network.sent("down", at_ns)}
            rows.append(_Row(at_ns, {port: SimpleNamespace(tx_bytes=count) for port, count in sent.items()}))
        return rows


class _Row:
    def __init__(self, t_ns: int, counters: dict[str, Any]) -> None:
        self.t_ns, self.counters = t_ns, counters

    def __getitem__(self, port: str) -> Any:
        return self.counters[port]


@pytest.fixture(name="network")
def carrying(monkeypatch: pytest.MonkeyPatch) -> Carrying:
    made = Carrying()
    monkeypatch.setattr(delivered, "PortSampler", Sampler)
    monkeypatch.setattr(delivered, "scheduled", made.scheduled)
    return made


def test_each_slot_has_what_left_the_router_in_it(network: Any) -> None:
    found = deliver(network, topology((2, 0), (3, 1)), 4)
    assert found == Delivered({"up": (100_000,) * 4, "down": (300_000,) * 4})


def test_both_ways_are_flooded_with_more_than_they_carry_and_lose(network: Any) -> None:
    deliver(network, topology((2, 0), (3, 1)), 25)
    peak = {"up": 1.0 * FRAME * 8e3, "down": 2.0 * FRAME * 8e3}
    words = [(note.host, note.words) for note in network.notes if note.what == "start" and note.words]
    assert words == [
        ("client", ("flood_script",)),
        ("server", ("flood_script",)),
        ("client", ("flood_script", "10.77.2.2", str(round(1.2 * peak["up"])), "1500")),
        ("server", ("flood_script", "10.77.1.2", str(round(1.2 * peak["down"] / 0.5)), "1500")),
    ]
    by_what = {note.what: note.at_s for note in network.notes if note.host == "schedule"}
    assert by_what["start"] == pytest.approx(0.34), "the senders have started, and what they sent has come through the delay"
    stops = [note for note in network.notes if note.what == "stop"]
    assert [note.words for note in stops] == [("flood_script", "0")] * 4
    assert {note.at_s for note in stops} == {by_what["start"] + 2.5}


def test_a_flood_that_has_ended_is_the_labs_fault(network: Any) -> None:
    network.ended.add("flood_script")
    network.answers["flood_script"] = b"Network is unreachable"
    with pytest.raises(LabFault, match="was not kept full: Network is unreachable"):
        deliver(network, topology((2, 0), (3, 1)), 1)


@pytest.mark.parametrize(("length", "most", "slots"), [(200, 300, 2), (201, 300, 3), (500, 3, 3)])
def test_a_trace_is_certified_over_its_longer_way(monkeypatch: pytest.MonkeyPatch, length: int, most: int, slots: int) -> None:
    asked = topology((1,) * length, (2,) * 100)
    trace: Any = asked.schedule.trace if asked.schedule else None

    def delivers(_: object, still: Topology, count: int) -> Delivered:
        assert count == slots
        assert still.schedule
        planned = {way: tuple(planned_bytes(trace, LINK, way, slots, 100)) for way in ("up", "down")}  # type: ignore[arg-type]
        planned["down"] = tuple(each - 2 * FRAME for each in planned["down"])
        return Delivered(planned)  # type: ignore[arg-type]

    monkeypatch.setattr(delivered, "deliver", delivers)
    network: Any = object()
    found = certify_trace(network, asked, most_slots=most)
    assert (found.slot_ms, found.up.problems, found.up.worst_slot_frames) == (100, [], 0)
    assert found.down.worst_slot_frames == -2
    assert len(found.down.problems) == 1, "a percent of 200 frames is two; the mean may be 0.1 % off"


def test_the_slot_that_is_furthest_off_is_the_worst() -> None:
    found = compare([FRAME * 10, FRAME * 5, FRAME * 14], [FRAME * 10, FRAME * 10, FRAME * 10], FRAME)
    assert found.worst_slot_frames == -5
    assert found.mean_error == pytest.approx(-1 / 30)
    assert found.problems == [
        "2 slots of 100 ms differ from the trace by more than 1% and a frame, the first after 0.1 s by -5.0 frames"
    ]
    assert compare([FRAME, FRAME], [0, 0], FRAME).mean_error == 0, "of nothing there is no mean"


def test_the_end_may_cut_a_frame() -> None:
    assert compare([FRAME * 10, FRAME * 9], [FRAME * 10, FRAME * 10], FRAME).problems == []
    assert compare([FRAME * 10 - 1, FRAME * 9], [FRAME * 10, FRAME * 10], FRAME).problems == [
        "the mean is -5.003% from the trace (allowed 0.1%)"
    ]
