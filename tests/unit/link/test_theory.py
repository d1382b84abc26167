"""What a link can carry at best, against figures worked out by hand and measured elsewhere."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link import theory
from lab.model.link import Link, LinkDirection, LinkOverride
from lab.model.units import BitRate, Duration


def rate(text: str) -> BitRate:
    return BitRate.parse(text)


def time(text: str) -> Duration:
    return Duration.parse(text)


def test_a_full_sized_segment_at_mtu_1500() -> None:
    assert theory.frame_bytes(1500) == 1514
    assert theory.payload_per_segment(1500) == 1448
    assert theory.PING_FRAME_BYTES == 98


@pytest.mark.parametrize(("asked", "ideal_mbit_s"), [("20 Mbit/s", 19.13), ("50 Mbit/s", 47.82), ("500 Mbit/s", 478.2)])
def test_ideal_goodput_is_what_hand_measurements_reached(asked: str, ideal_mbit_s: float) -> None:
    ideal = theory.ideal_goodput_bit_s(LinkDirection(rate=rate(asked)))
    assert ideal is not None
    assert ideal / 1e6 == pytest.approx(ideal_mbit_s, rel=3e-4)
    assert ideal / rate(asked).bit_s == pytest.approx(0.9564, abs=5e-5)


def test_a_smaller_mtu_carries_less_and_no_rate_has_no_ideal() -> None:
    small = theory.ideal_goodput_bit_s(LinkDirection(rate=rate("50 Mbit/s"), mtu=576))
    assert small == pytest.approx(50e6 * 524 / 590)
    assert theory.ideal_goodput_bit_s(LinkDirection(delay=time("5 ms"))) is None


@given(st.integers(1, 10**6), st.integers(576, 9000))
def test_payload_of_full_frames_is_what_their_segments_carry(frames: int, mtu: int) -> None:
    assert theory.payload_bytes(frames * theory.frame_bytes(mtu), frames) == frames * theory.payload_per_segment(mtu)


def test_bandwidth_delay_products_by_hand() -> None:
    assert theory.bdp_packets(rate("20 Mbit/s"), time("30 ms"), 1500) == 50
    assert theory.bdp_packets(rate("50 Mbit/s"), time("25 ms"), 1500) == 104
    assert theory.bdp_packets(rate("1 Gbit/s"), time("50 ms"), 1500) == 4129
    assert theory.bdp_packets(rate("1 Gbit/s"), time("0 ms"), 1500) == 0


@given(st.integers(1, 10**11), st.integers(0, 6 * 10**10), st.integers(576, 9000))
def test_bdps_are_rounded_up_exactly(bit_s: int, ns: int, mtu: int) -> None:
    exact = Fraction(bit_s * ns, 8 * 10**9)
    assert theory.bdp_packets(BitRate(bit_s), Duration(ns), mtu) == math.ceil(exact / (mtu + 14))


def test_the_ideal_round_trip_includes_the_probes_own_serialisation_both_ways() -> None:
    # 98 bytes at 1 Mbit/s are 0.784 ms, at 10 Mbit/s 0.0784 ms.
    link = Link(rate=rate("10 Mbit/s"), rtt=time("30 ms"), up=LinkOverride(rate=rate("1 Mbit/s")))
    assert theory.ideal_rtt_ms(link) == pytest.approx(30.8624)
    assert theory.ideal_rtt_ms(Link(rtt=time("30 ms"))) == pytest.approx(30.0)
    skewed = Link(rtt=time("30 ms"), up=LinkOverride(delay=time("25 ms")))
    assert theory.ideal_rtt_ms(skewed) == pytest.approx(30.0)
