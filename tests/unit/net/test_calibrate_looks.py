"""A complete calibration on a simulated link: what it measures, which link it refuses and why, and an iperf3 that refuses."""

from __future__ import annotations

from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.results import Calibration
from lab.model.units import Duration
from lab.net.calibrate import Tolerance, calibrate, duplicates_received, wait_for_silence
from lab.servers import iperf3
from tests.support.simulated_link import SimulatedLink

RATE = 20e6
LINE: dict[str, Any] = {"rate": "20 Mbit/s", "rtt": "20 ms"}
IDEAL = RATE * 1448 / 1514
# 98 bytes of a ping's frame, each way.
IDEAL_RTT_MS = 20 + 2 * 98 * 8 / RATE * 1e3


def link(**more: Any) -> Link:
    return Link.model_validate({**LINE, **more})


def simulated(up: float = RATE, down: float = RATE, **more: Any) -> SimulatedLink:
    return SimulatedLink({"up": up, "down": down}, **{"rtt_ms": [IDEAL_RTT_MS], **more})


def taken(network: Any, asked: Link | None = None, **more: Any) -> Calibration:
    return calibrate(network, asked or link(), "cubic", **more)


def started(network: SimulatedLink) -> list[tuple[str, ...]]:
    return [command for command in network.commands if command[0] == "iperf3"]


@pytest.mark.parametrize("kind", ["real", "virtual"])
def test_a_link_that_is_as_asked_is_measured_as_that(kind: str) -> None:
    network = simulated(kind=kind)
    found = taken(network, attempt=3)
    assert (found.ok, found.problems, found.attempt, found.datagrams) == (True, [], 3, [])
    assert (found.rtt_asked_ms, found.rtt_ideal_ms) == (20, pytest.approx(IDEAL_RTT_MS))
    assert found.rtt_excess_ms == pytest.approx(0, abs=1e-3)
    for side in (found.up, found.down):
        assert side.ideal_bit_s == pytest.approx(IDEAL)
        assert side.goodput_bit_s == pytest.approx(IDEAL, rel=2e-3)
        assert side.goodput_error == pytest.approx(side.goodput_bit_s / IDEAL - 1)
        assert side.window_s == pytest.approx(0.75 if kind == "real" else 12.11, abs=0.02)
        assert side.wire_bytes == 1514 * side.wire_packets
        assert side.wire_packets == pytest.approx(RATE / 8 / 1514 * side.window_s, abs=2)
        assert side.mean_packet_bytes == 1514
        assert side.iperf3_bit_s == pytest.approx(RATE * 0.95)
        assert side.router_drops > 0
    assert (found.up.direction, found.down.direction) == ("up", "down")
    assert (found.up.retransmits > 0, found.down.retransmits) == (True, 0), "counted from the look's own beginning"
    up, down = started(network)
    assert up == ("iperf3", "-c", "10.77.2.2", "-p", "5201", "-t", "60", "-J", "-P", "4")
    assert down == (*up, "-R")
    assert len(found.rtt_ms) == 12, "a quarter of a second of pings"


@pytest.mark.parametrize(("rtt", "pings"), [("1 ms", 15), ("30 ms", 8), ("600 ms", 7)])
def test_there_are_enough_pings_for_a_median(rtt: str, pings: int) -> None:
    assert len(taken(simulated(), link(rtt=rtt)).rtt_ms) == pings


@pytest.mark.parametrize(("off", "problem"), [(-0.009, False), (-0.011, True), (0.009, False), (0.011, True)])
def test_a_percent_from_the_ideal_is_allowed(off: float, problem: bool) -> None:
    found = taken(simulated(up=RATE * (1 + off)))
    assert found.ok != problem
    if problem:
        (said,) = found.problems
        assert said.startswith("up: goodput ")
        assert said.endswith(f"{found.up.goodput_error:+.2%} from the ideal 19.13 (allowed 1.0%)")
        assert f"{found.up.goodput_bit_s / 1e6:.2f} Mbit/s" in said


def test_both_ways_are_looked_at_and_a_tolerance_is_the_callers() -> None:
    network = simulated(up=RATE * 0.97, down=RATE * 1.05)
    found = taken(network)
    assert [problem.split(":")[0] for problem in found.problems] == ["up", "down"]
    assert taken(simulated(up=RATE * 0.97, down=RATE * 1.05), tolerance=Tolerance(goodput=0.06)).ok


@pytest.mark.parametrize(("excess_ms", "jitter", "problem"), [(0.99, "0", ""), (1.01, "0", "+1.01"), (-1.01, "0", "-1.01")])
def test_the_idle_round_trip_is_the_median_of_the_pings(excess_ms: float, jitter: str, problem: str) -> None:
    times = [IDEAL_RTT_MS + excess_ms + other for other in (0, 90, -9, 0, 90, -9, 0)]
    found = taken(simulated(rtt_ms=times), link(jitter=jitter))
    assert found.rtt_excess_ms == pytest.approx(excess_ms, abs=1e-3)
    wanted = [f"idle RTT is {problem} ms from the ideal {IDEAL_RTT_MS:.2f} ms (allowed 1.00)"] if problem else []
    assert found.problems == wanted


def test_jitter_widens_what_the_round_trip_may_be() -> None:
    for excess_ms, ok in ((4.99, True), (5.01, False)):
        found = taken(simulated(rtt_ms=[IDEAL_RTT_MS + excess_ms]), link(jitter="2 ms"))
        assert found.ok == ok
        assert ok or found.problems[0].endswith("(allowed 5.00)")


def test_frames_larger_than_the_links_tell_of_offloads() -> None:
    found = taken(simulated(enters_bytes=1515))
    assert found.problems == [
        f"{way}: frames of 1515 bytes enter the router: segmentation offload is on" for way in ("up", "down")
    ]
    assert taken(simulated(enters_bytes=64_000, router_kind="none")).ok, "a loopback hands over what was sent"


def test_segments_that_came_twice_are_taken_off_the_goodput() -> None:
    whole = taken(simulated())
    found = taken(simulated(twice=100), tolerance=Tolerance(goodput=0.2))
    for side in ("up", "down"):
        packets_s = RATE / 8 / 1514
        ratio = getattr(found, side).goodput_bit_s / getattr(whole, side).goodput_bit_s
        assert ratio == pytest.approx(1 - 100 / packets_s, abs=0.005)


@pytest.mark.parametrize(
    ("says", "figure"),
    [
        ({"sum_received": {"bits_per_second": 5.0}}, 5.0),
        ({"sum": {"bits_per_second": 7.0}}, 7.0),
        ({"sum_received": {"bits_per_second": 0.0}, "sum": {"bits_per_second": 7.0}}, None),
        ({"sum_received": {"seconds": 1.0}}, None),
        ({"sum_received": "bits_per_second"}, None),
        ({"streams": []}, None),
    ],
)
def test_iperf3s_own_figure_is_what_its_receiver_reports(says: dict[str, Any], figure: float | None) -> None:
    """A client that was stopped says 0, and that does not count."""
    found = taken(simulated(says=says))
    assert (found.up.iperf3_bit_s, found.ok) == (figure, True)


def test_the_two_counters_of_segments_that_came_twice_are_added() -> None:
    network = simulated(twice=30)
    network.clock.sleep(9)
    host: Any = network.server
    assert duplicates_received(host) == 300


def test_a_link_that_loses_is_filled_by_udp() -> None:
    network = simulated(udp_bit_s={"up": RATE * 0.99, "down": RATE * 0.98})
    found = taken(network, link(loss="2 %"), tolerance=Tolerance(goodput=0.025))
    assert found.ok, found.problems
    assert found.up.goodput_bit_s == pytest.approx(RATE * 0.99 * 1448 / 1514, rel=2e-3)
    offered = str(round(1.1 * RATE / 0.98))
    assert [command[8:] for command in started(network)] == [
        ("-u", "-l", "1448", "-b", offered),
        ("-u", "-l", "1448", "-b", offered, "-R"),
    ]


def test_only_the_way_that_loses_is_filled_by_udp() -> None:
    network = simulated(udp_bit_s={"down": RATE})
    taken(network, link(down={"loss": "2 %"}))
    assert ["-u" in command for command in started(network)] == [False, True]


@pytest.mark.parametrize(("kind", "looks"), [("real", 2), ("virtual", 3)])
def test_in_virtual_time_what_tcp_did_not_fill_is_looked_at_again_by_udp(kind: str, looks: int) -> None:
    network = simulated(up=RATE * 0.9, kind=kind, udp_bit_s={"up": RATE})
    found = taken(network)
    assert len(started(network)) == looks
    assert found.ok == (kind == "virtual")
    assert ["-u" in command for command in started(network)] == ([False, True, False] if kind == "virtual" else [False] * 2)


def test_a_link_without_a_rate_is_looked_at_and_not_judged() -> None:
    asked = Link.model_validate({"rtt": "0 ms"})
    found = taken(simulated(up=900e6, down=800e6, rtt_ms=[40.0]), asked)
    assert found.ok
    assert found.up.ideal_bit_s is found.up.goodput_error is None
    assert found.up.goodput_bit_s == pytest.approx(900e6 * 1448 / 1514, rel=1e-2)
    assert found.down.goodput_bit_s == pytest.approx(800e6 * 1448 / 1514, rel=1e-2)
    assert found.up.window_s == pytest.approx(0.4, abs=0.02)


def test_in_virtual_time_a_link_without_a_rate_carries_a_fixed_number_of_bytes() -> None:
    network = simulated(up=900e6, down=800e6, kind="virtual", enters_bytes=1500)
    found = taken(network, Link.model_validate({"rtt": "0 ms"}))
    assert found.ok
    for side, rate in ((found.up, 900e6), (found.down, 800e6)):
        assert (side.goodput_bit_s, side.iperf3_bit_s, side.window_s) == (rate * 0.95, rate * 0.95, 1.5)
        assert side.wire_packets == pytest.approx((16 << 20) / 1514, rel=1e-3)
        assert (side.wire_bytes, side.mean_packet_bytes) == (side.wire_packets * 1514, 1500)
        assert (side.retransmits, side.router_drops, side.ideal_bit_s, side.goodput_error) == (0, 0, None, None)
    up, down = started(network)
    assert up == ("iperf3", "-c", "10.77.2.2", "-p", "5201", "-n", str(16 << 20), "-J")
    assert down == (*up, "-R")


def test_a_link_without_a_rate_that_carries_nothing_is_the_labs_fault() -> None:
    with pytest.raises(LabFault, match=r"could not use the link \(up\)"):
        taken(simulated(kind="virtual", refusals=["no route"], up=1e9), Link.model_validate({"rtt": "0 ms"}))


def test_another_congestion_control_than_the_pinned_is_the_labs_fault() -> None:
    with pytest.raises(LabFault, match="congestion control on client is bbr, not cubic"):
        taken(simulated(control="bbr"))


def test_a_host_that_does_not_hold_its_settings_is_not_measured() -> None:
    network = simulated(unpinned=["gro is on"])
    with pytest.raises(LabFault, match="client does not hold its settings: gro is on"):
        taken(network)
    assert network.commands == []


@pytest.mark.parametrize(
    "word", ["the server is busy running a test", "unable to connect to server", "unable to receive control message"]
)
def test_a_server_that_is_not_ready_yet_is_asked_again(word: str) -> None:
    network = simulated(refusals=[word, word])
    assert taken(network).ok
    assert len(started(network)) == 4


def test_another_error_may_happen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf3, "start", lambda *_, **__: pytest.fail("no other server is needed"))
    network = simulated(refusals=["control socket has closed unexpectedly"])
    assert taken(network).ok
    with pytest.raises(LabFault, match=r"could not fill the link \(up\): it is gone"):
        taken(simulated(refusals=["it has gone", "it is gone"]))


def test_after_three_refusals_another_server_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []
    stopped: list[int] = []

    class Server:
        def stop(self) -> None:
            stopped.append(1)

    def start(_: object, *, port: int) -> Server:
        ports.append(port)
        return Server()

    monkeypatch.setattr(iperf3, "start", start)
    network = simulated(refusals=["the server is busy running a test"] * 3)
    assert taken(network).ok
    assert (ports, stopped) == ([5202], [1])
    asked = [command[4] for command in started(network)]
    assert asked == ["5201", "5201", "5201", "5202", "5201"], "the next direction begins with the first server"
    with pytest.raises(LabFault, match="busy"):
        taken(simulated(refusals=["the server is busy running a test"] * 6))


def test_a_server_that_refuses_connections_is_not_joined_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iperf3, "start", lambda *_, **__: pytest.fail("its machine refuses this port too"))
    assert taken(simulated(refusals=["unable to connect to server: Connection refused"] * 5)).ok


def test_a_flow_that_ends_before_the_window_is_over_is_the_labs_fault() -> None:
    with pytest.raises(LabFault, match="could not fill the link"):
        taken(simulated(ends_after_s=1.0))


def test_a_link_that_never_fills_is_taken_as_it_is() -> None:
    """A link that carries half of what it claims must be measured too, and refused."""
    found = taken(simulated(up=RATE / 2))
    assert found.up.goodput_error == pytest.approx(-0.5, abs=0.01)
    assert not found.ok


def test_silence_is_two_looks_that_count_the_same() -> None:
    network = simulated(busy_looks=4)
    waiting: Any = network
    begun_ns = network.clock.now_ns
    wait_for_silence(waiting, Link(rtt=Duration.parse("100 ms")))
    assert network.looks == 5
    assert network.clock.now_ns - begun_ns == 4 * 120_000_000, "1.2 round trips between two looks"
    network = simulated()
    waiting = network
    begun_ns = network.clock.now_ns
    wait_for_silence(waiting, Link(rtt=Duration.parse("1 ms")))
    assert network.clock.now_ns - begun_ns == 20_000_000, "at least 20 ms"


def test_a_link_that_does_not_fall_silent_is_the_labs_fault() -> None:
    for busy in (10**6, -1):
        network = simulated(busy_looks=busy)
        waiting: Any = network
        begun_ns = network.clock.now_ns
        with pytest.raises(LabFault, match="does not fall silent"):
            wait_for_silence(waiting, Link(rtt=Duration.parse("1 s")))
        assert 15 <= (network.clock.now_ns - begun_ns) / 1e9 <= 16.2
