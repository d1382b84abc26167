"""A link that follows a trace: its qdiscs, when its gates open, and what it should carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link.schedule import fastest_bit_s, slowest_goodput_bit_s
from lab.link.trace import delay_change, gate_packets, opening_bytes, period_ns, planned_bytes, setup
from lab.model.link import Link
from lab.model.topology import LinkState, Schedule
from lab.model.trace import Trace, TraceDirection, packed
from lab.model.units import BitRate, Duration

FRAME = 1514
LINK = Link(rate=BitRate.parse("10 Mbit/s"), rtt=Duration.parse("40 ms"), seed=4)


def trace(*counts: int) -> Trace:
    side = TraceDirection(file="x", sha256="", frames=packed(counts))
    return Trace(down=side, up=side)


def test_its_qdiscs_keep_delay_and_loss_apart_from_the_gate() -> None:
    lines = [" ".join(command[5:]) for command in setup(trace(1, 0, 50), LinkState(0, LINK), "down", "eth0")]
    # Room for a gigabit's BDP, for the host's bursts, for the queue that was asked for and for the gate's.
    limit = 1000 + 1652 + 34 + 100
    assert lines == [
        "root handle 1: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1",
        f"parent 1:1 handle 10: netem limit {limit} delay 20000us rate 100000000000bit seed 4",
        "parent 10:1 handle 20: netem limit 100 slot 3600s 3600s bytes 1",
        "parent 1:2 handle 30: blackhole",
    ]


def test_a_queue_holds_two_of_the_largest_openings() -> None:
    assert gate_packets(trace(1, 0, 5), LINK, "down") == 34
    assert gate_packets(trace(1, 0, 50), LINK, "down") == 100


def test_a_round_trip_changes_the_delay_alone_and_takes_another_seed() -> None:
    later = LinkState(1, Link.model_validate({**dict(LINK), "rtt": Duration.parse("60 ms")}))
    words = " ".join(delay_change(trace(1), later, "down", 3, "eth0"))
    assert words.startswith("tc qdisc change dev eth0 parent 1:1 handle 10: netem")
    assert "delay 30000us" in words
    assert words.endswith("seed 10")


def test_gates_open_for_full_frames_where_something_passes() -> None:
    assert opening_bytes(trace(2, 0, 1), LINK, "up") == [(0, 2 * FRAME), (2_000_000, FRAME)]
    assert period_ns(trace(2, 0, 1), "up") == 3_000_000


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any), st.integers(1, 30), st.integers(1, 50))
def test_a_plan_repeats_the_trace(counts: list[int], slots: int, slot_ms: int) -> None:
    found = planned_bytes(trace(*counts), LINK, "down", slots, slot_ms)
    again = counts * (slots * slot_ms // len(counts) + 1)
    assert found == [FRAME * sum(again[slot * slot_ms : (slot + 1) * slot_ms]) for slot in range(slots)]


def test_its_worst_and_best_moments() -> None:
    halves = Schedule(trace=trace(*[2] * 150, *[0] * 50, *[1] * 300))
    # 50 ms of nothing and 50 ms of one frame each, or of two, which come before it.
    assert slowest_goodput_bit_s(LINK, halves, "down") == pytest.approx(50 * 1448 * 8 / 0.1)
    assert fastest_bit_s(LINK, halves, "down") == pytest.approx(4 * FRAME * 8 / 0.002)
