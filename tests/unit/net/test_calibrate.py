"""The calibration's arithmetic in virtual time: when a link counts as full, and what is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.calibrate import Reading, Schedule, cut_window, first_data_ns, full_ns, goodput_bit_s, schedule

SLOT_NS = 10_000_000
PLAN = Schedule(least_warm_s=0.3, most_warm_s=2.0, window_s=0.5)
RATE = 50_000_000


def readings(slots: list[int], *, start_ns: int = 7_000_000_000) -> list[Reading]:
    """One reading per 10 ms; each number is how many full frames left in that slot."""
    found, packets = [Reading(start_ns, 0, 0, 0, 0)], 0
    for number, count in enumerate(slots, 1):
        packets += count
        found.append(Reading(start_ns + number * SLOT_NS, packets * 1514, packets, packets * 1514, packets))
    return found


def steady(seconds: float, *, packets: int = 41) -> list[int]:
    return [packets] * round(seconds * 100)


def test_nothing_is_full_before_data_flows() -> None:
    assert first_data_ns(readings([0, 1, 0, 2])) is None
    assert full_ns(readings([0] * 500), PLAN, RATE, 0.02) is None


def test_a_slow_link_shows_that_data_flows_over_several_slots() -> None:
    """At 1 Mbit/s a frame takes 12 ms: no slot of 10 ms ever has three."""
    found = readings([0, 1, 1, 1, 0, 1])
    assert first_data_ns(found) is None
    assert first_data_ns(found, 1e6) == found[4].t_ns
    assert first_data_ns(readings([1, 0, 0, 0, 0, 1] * 20), 1e6) is None


def test_a_full_link_counts_as_full_after_the_least_warm_up_and_not_before() -> None:
    rate = 41 * 1514 * 8 * 100
    assert full_ns(readings(steady(0.25)), PLAN, rate, 0.02) is None
    done = readings(steady(0.4))
    assert full_ns(done, PLAN, rate, 0.02) == done[-1].t_ns


def test_the_last_round_trip_is_counted_from_the_reading_before_it() -> None:
    """Readings need not be a round trip apart: the last of them that is far enough back counts."""
    rate = 41 * 1514 * 8 * 100
    found = readings([0] * 20 + [41] * 40)
    late = [*found[:-21], *found[-19:]]
    assert full_ns(late, PLAN, rate, 0.2) == late[-1].t_ns
    burst = readings([41] * 40 + [0] * 21 + [41] * 19)
    assert full_ns(burst, PLAN, rate, 0.2) is None, "it has not carried its rate over all of it"


def test_a_half_filled_link_is_waited_for_and_then_taken_as_it_is() -> None:
    rate = 41 * 1514 * 8 * 100
    assert full_ns(readings(steady(1.9, packets=20)), PLAN, rate, 0.02) is None
    done = readings(steady(2.1, packets=20))
    assert full_ns(done, PLAN, rate, 0.02) == done[-1].t_ns


def test_a_link_without_a_rate_waits_for_the_time_alone() -> None:
    plan = Schedule(least_warm_s=0.3, most_warm_s=0.3, window_s=0.5)
    assert full_ns(readings(steady(0.2)), plan, None, 0.0) is None
    assert full_ns(readings(steady(0.4)), plan, None, 0.0) is not None


@given(st.integers(min_value=3, max_value=900), st.integers(min_value=20, max_value=80))
def test_the_window_counts_what_left_in_it(packets: int, slots: int) -> None:
    found = readings([packets] * (slots + 30))
    window = cut_window(found, found[10].t_ns, slots / 100)
    assert window
    assert window.seconds == pytest.approx(slots / 100)
    assert window.out_packets == packets * slots
    expected = packets * 1448 * 8 * 100
    assert goodput_bit_s(window, udp=False, mtu=1500, duplicate_share=0.0) == pytest.approx(expected)
    assert goodput_bit_s(window, udp=False, mtu=1500, duplicate_share=0.25) == pytest.approx(0.75 * expected)
    assert goodput_bit_s(window, udp=True, mtu=1500, duplicate_share=0.0) == pytest.approx(expected)


@given(st.integers(min_value=5, max_value=90), st.integers(min_value=0, max_value=89), st.integers(min_value=10, max_value=40))
def test_between_the_packets_of_a_slow_link_none_is_counted_in_part(slots: int, phase: int, packets: int) -> None:
    """A packet leaves every few readings; a window that began and ended between packets would be off by one of few."""
    moves = [1 if (slot + phase) % slots == 0 else 0 for slot in range(slots * (packets + 4))]
    found = readings(moves)
    window = cut_window(found, found[slots].t_ns, slots * packets / 100, slow=True)
    assert window
    assert goodput_bit_s(window, udp=False, mtu=1500, duplicate_share=0.0) == pytest.approx(1448 * 8 * 100 / slots)


def test_a_slow_link_gets_time_for_its_frames() -> None:
    link = Link.model_validate({"rate": "20 kbit/s", "rtt": "1 s"})
    frame_s = 1514 * 8 / 20_000
    plan = schedule(link, "up", "virtual")
    assert plan.slow
    assert plan.window_s == pytest.approx(100 * frame_s)
    assert plan.handshake_s == pytest.approx(5 + 10 * (1 + 2 * frame_s))
    assert plan.margin_ns > frame_s * 1e9
    assert plan.longest_s > plan.window_s + plan.most_warm_s + plan.handshake_s
    assert not schedule(Link.model_validate({"rate": "750 kbit/s"}), "up", "virtual").slow


def test_data_that_stops_early_gives_no_window() -> None:
    found = readings(steady(0.4) + [0] * 100)
    assert cut_window(found, found[10].t_ns, 0.5) is None
    assert cut_window(found, found[10].t_ns, 0.2) is not None


def test_a_late_reading_changes_the_window_not_the_rate() -> None:
    """Both ends are real readings: the sampler may be late, the distance between two of them is true."""
    on_time = readings(steady(1.0))
    late = [reading for number, reading in enumerate(on_time) if number % 7]
    for found in (on_time, late):
        window = cut_window(found, on_time[11].t_ns, 0.5)
        assert window
        rate = goodput_bit_s(window, udp=False, mtu=1500, duplicate_share=0.0)
        assert rate == pytest.approx(41 * 1448 * 8 * 100)


def test_slow_links_are_counted_longer() -> None:
    def seconds(rate: str) -> float:
        return schedule(Link(rate=BitRate.parse(rate), rtt=Duration.parse("20 ms")), "down").window_s

    assert seconds("50 Mbit/s") == 0.75
    assert seconds("2 Mbit/s") == pytest.approx(600 * 1514 * 8 / 2e6)
    assert seconds("200 kbit/s") == 10.0
    assert seconds("100 kbit/s") == pytest.approx(100 * 1514 * 8 / 1e5), "100 packets, however long they take"
