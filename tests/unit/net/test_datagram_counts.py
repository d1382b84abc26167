"""The datagrams that prove what a link does to UDP alone and to large packets: how many are sent, and how many may arrive."""

from __future__ import annotations

from typing import Any

import pytest

from lab.model.link import Link, LinkDirection
from lab.model.results import DatagramCount
from lab.net.hops import Probe, allowed, count_problems, probes

LINE = {"rate": "20 Mbit/s", "rtt": "30 ms"}
POLICED = {"policed": "8 Mbit/s", "burst": "100 kB"}


def side(**link: Any) -> LinkDirection:
    return Link.model_validate({**LINE, **link}).direction("up")


def test_a_plain_link_is_not_probed() -> None:
    assert probes(side()) == []


def test_nothing_may_pass_where_udp_is_blocked() -> None:
    (probe,) = probes(side(udp="blocked"))
    assert allowed(side(udp="blocked"), probe, 1.0, 0.01) == (0, 0)


def test_one_byte_decides_over_a_hidden_mtu() -> None:
    hidden = side(hidden_mtu=1380)
    fits, too_large = probes(hidden)
    assert (fits.size, too_large.size) == (1380, 1381)
    assert allowed(hidden, fits, 1.0, 0.01) == (fits.packets, fits.packets)
    assert allowed(hidden, too_large, 1.0, 0.01) == (0, 0)


def test_a_policer_passes_its_bucket_and_its_rate() -> None:
    policed = side(udp=POLICED)
    (probe,) = probes(policed)
    # Less than the line carries, so that its queue drops nothing.
    offered = 1514 * 8e9 / probe.interval_ns
    assert 8e6 < offered < 20e6
    # The bucket is filled while it empties; then 1000 packets pass.
    passing = 100_000 / 1514 * offered / (offered - 8e6) + 1000
    least, most = allowed(policed, probe, probe.packets * probe.interval_ns / 1e9, 0.01)
    assert least < passing < most < 1.02 * least + 10
    assert most < probe.packets / 2


def test_a_bucket_that_never_empties_passes_everything() -> None:
    assert allowed(side(udp=POLICED), Probe(10, 1500, 1_000_000, passes=True), 0.01, 0.01) == (10, 10)


def test_random_losses_widen_what_may_arrive() -> None:
    lossy = side(udp=POLICED, loss="10 %")
    (probe,) = probes(lossy)
    sending_s = probe.packets * probe.interval_ns / 1e9
    least, most = allowed(lossy, probe, sending_s, 0.01)
    plain = allowed(side(udp=POLICED), probe, sending_s, 0.01)
    assert least < 0.9 * plain[0]
    assert 0.9 * plain[1] < most < plain[1]


@pytest.mark.parametrize(("arrived", "words"), [(0, ""), (3, "up: 3 of 200 UDP packets of 500 bytes arrived, not 0")])
def test_a_count_beyond_what_is_allowed_is_a_problem(arrived: int, words: str) -> None:
    found = count_problems([DatagramCount(direction="up", packet_bytes=500, sent=200, arrived=arrived, least=0, most=0)])
    assert found == ([words] if words else [])
