"""The datagrams that are sent to prove a link's treatment of UDP and of large packets: how many, how large, how fast."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lab.link.counting import Arrival, Counted
from lab.model.link import Link, LinkDirection
from lab.model.results import DatagramCount
from lab.net import hops
from lab.net.counted import Flow
from lab.net.hops import Probe, allowed, count_datagrams, count_problems, probes

LINE = {"rate": "20 Mbit/s", "rtt": "30 ms"}
POLICED = {"policed": "8 Mbit/s", "burst": "100 kB"}


def link(**more: Any) -> Link:
    return Link.model_validate({**LINE, **more})


def side(**more: Any) -> LinkDirection:
    return link(**more).direction("up")


def interval_ns(size: int, bit_s: float) -> int:
    """The time of a frame, Ethernet's header included."""
    return math.ceil((size + 14) * 8e9 / bit_s)


def test_a_blocked_way_is_probed_gently_and_nothing_passes() -> None:
    assert probes(side(udp="blocked")) == [Probe(200, 500, interval_ns(500, 8e6), passes=False)]


def test_a_hidden_mtu_is_probed_with_what_fits_and_one_byte_more() -> None:
    assert probes(side(hidden_mtu=1400)) == [
        Probe(200, 1400, interval_ns(1400, 8e6), passes=True),
        Probe(200, 1401, interval_ns(1401, 8e6), passes=False),
    ]


def test_without_a_rate_100_mbit_are_taken() -> None:
    unlimited = Link.model_validate({"rtt": "30 ms", "hidden_mtu": 1400}).direction("up")
    assert probes(unlimited)[0].interval_ns == interval_ns(1400, 40e6)


def test_a_policer_is_offered_what_the_line_carries_until_a_thousand_have_passed_its_empty_bucket() -> None:
    (found,) = probes(side(udp=POLICED))
    offered = 0.98 * 20e6
    seconds = 8 * 100_000 / (offered - 8e6) + 1000 * 1514 * 8 / 8e6
    assert found == Probe(round(seconds * offered / 8 / 1514), 1500, interval_ns(1500, offered), passes=True)
    (found,) = probes(Link.model_validate({"rtt": "30 ms", "udp": POLICED}).direction("up"))
    assert found.interval_ns == interval_ns(1500, 0.98 * 16e6), "twice the policer's rate where the line has none"
    large = probes(side(udp=POLICED, hidden_mtu=1400))
    assert [each.size for each in large] == [1400, 1401, 1400], "the policer is asked with what fits"


def test_a_policer_passes_its_burst_and_its_rate_and_a_percent_and_two_frames() -> None:
    probe = Probe(10_000, 1500, 1, passes=True)
    bucket = (100_000 + 8e6 / 8 * 3.0) / 1514
    assert allowed(side(udp=POLICED), probe, 3.0, 0.01) == (
        math.floor(bucket - 0.01 * bucket - 2),
        math.ceil(bucket + 0.01 * bucket + 2),
    )
    few = probe._replace(packets=math.floor(bucket))
    assert allowed(side(udp=POLICED), few, 3.0, 0.01) == (few.packets, few.packets), "fewer than the bucket has: all of them"


def test_random_losses_widen_by_four_sigma() -> None:
    lossy, probe = side(loss="10 %", hidden_mtu=1400), Probe(200, 1400, 1, passes=True)
    spread = 4 * math.sqrt(200 * 0.1 * 0.9)
    assert allowed(lossy, probe, 1.0, 0.01) == (math.floor(180 - spread), math.ceil(180 + spread))
    most = allowed(side(loss="1 %", hidden_mtu=1400), probe, 1.0, 0.01)[1]
    assert most == 200, "no more arrive than are sent"
    assert allowed(side(loss="90 %", hidden_mtu=1400), probe._replace(packets=5), 1.0, 0.01)[0] == 0


def arrivals(sent_ns: list[int]) -> Counted:
    return Counted(200, tuple(Arrival(number, at, at + 5, 0, intact=True) for number, at in enumerate(sent_ns)))


def test_what_arrives_is_counted_for_each_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    answers = [arrivals(list(range(200))), arrivals([7])]

    def count(network: object, way: str, flows: list[Flow], *, size: int, drain_s: float) -> list[Counted]:
        asked.append((network, way, flows, size, drain_s))
        return [answers.pop(0)]

    monkeypatch.setattr(hops, "count", count)
    network: Any = object()
    found = count_datagrams(network, link(hidden_mtu=1400), "down", 0.01)
    assert [(each.direction, each.packet_bytes, each.sent, each.arrived, each.least, each.most) for each in found] == [
        ("down", 1400, 200, 200, 200, 200),
        ("down", 1401, 200, 1, 0, 0),
    ]
    assert count_problems(found) == ["down: 1 of 200 UDP packets of 1401 bytes arrived, not 0"]
    assert asked == [(network, "down", [Flow(200, interval_ns(size, 8e6))], size, 1.03) for size in (1400, 1401)]


def test_a_policers_time_is_that_in_which_packets_were_really_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that was late fills the bucket meanwhile; where nothing arrived it is the time that was asked for."""
    monkeypatch.setattr(hops, "count", lambda *_, **__: [counted])
    network: Any = object()
    (probe,) = probes(side(udp=POLICED))
    for sent_ns, seconds in (([5_000_000_000, 1_000_000_000, 9_000_000_000], 8.0), ([], probe.packets * probe.interval_ns / 1e9)):
        counted = arrivals(sent_ns)
        (found,) = count_datagrams(network, link(udp=POLICED), "up", 0.01)
        assert (found.least, found.most) == allowed(side(udp=POLICED), probe, seconds, 0.01)


def test_a_range_is_said_as_a_range() -> None:
    network_says = count_problems_of(arrived=3, least=5, most=9)
    assert network_says == ["up: 3 of 10 UDP packets of 500 bytes arrived, not 5 to 9"]
    assert count_problems_of(arrived=5, least=5, most=9) == count_problems_of(arrived=9, least=5, most=9) == []
    assert count_problems_of(arrived=10, least=5, most=9)


def count_problems_of(arrived: int, least: int, most: int) -> list[str]:
    count = DatagramCount(direction="up", packet_bytes=500, sent=10, arrived=arrived, least=least, most=most)
    return count_problems([count])
