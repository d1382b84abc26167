"""Shipped topologies with impairments are brought up, certified, and do to packets what they say, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.link import counting
from lab.link.theory import bdp_packets, frame_bytes, serialisation
from lab.model.load import load_topology
from lab.model.units import Duration
from lab.net.counted import Flow, count
from lab.net.delivered import deliver
from lab.net.shape import DIRECTIONS, shape
from tests.virtual.test_links import take

CHANGING = ("3g", "4g-bad", "4g-good", "5g-driving", "starlink", "train", "wifi-roaming")
NAMES = ("cable", "dsl-bloated", "geo-satellite", "office-vpn", "transatlantic-lossy", *CHANGING)
PACKETS = 20_000
SLOT_NS, FRAME = 100_000_000, 1514
# Two handovers of starlink, and a complete repetition of most others.
MOST_SLOTS = 320
SETTLE_NS = 500_000_000


@pytest.fixture(scope="module")
def network() -> Iterator[VirtualNetwork]:
    made = open_network(seed=3)
    yield made
    made.close()


# Links that do not change; `rtt-*` are one link with another delay.
STEADY = ("coast-200", "dsl-20", "dsl-50", "far-200", "far-50", "far-500", "gigabit-far", "lan-20", "lan-50", "link-local")
CALIBRATED = (
    *NAMES,
    *STEADY,
    "ecn-20",
    "line-1000",
    "line-250",
    "lossy-wifi",
    "lte",
    "metro-200",
    "policed-20",
    "reordering-20",
    "rtt-600",
    "satellite",
    "transatlantic",
    "tunnel-1280",
)


@pytest.mark.parametrize("name", CALIBRATED)
def test_its_calibration_is_what_theory_says(name: str) -> None:
    found = take(load_topology(name))
    assert found.ok, found.problems


@pytest.mark.parametrize("name", NAMES)
def test_its_losses_and_delay_are_those_of_its_file(network: VirtualNetwork, name: str) -> None:
    topology = load_topology(name)
    shape(network, topology.link)
    for way in DIRECTIONS:
        direction = topology.link.direction(way)
        wire = serialisation(frame_bytes(500), direction.rate)
        # A tenth of the line: nothing queues. Nor does a packet wait for one before it that has drawn a longer delay.
        (found,) = count(network, way, [Flow(PACKETS, max(wire.ns * 10, 2 * direction.jitter.ns))])
        claim = counting.loss_claim(direction.loss, found)
        assert claim.kept, f"{way}: {claim}"
        # htb lets a lone packet pass at once, and makes the next one wait (ADR 0032).
        wanted = direction.delay.ns + (0 if direction.managed else wire.ns)
        jitter = direction.jitter.ns
        assert min(found.delays_ns) == pytest.approx(wanted - jitter, abs=20_000 + jitter / 50)
        assert max(found.delays_ns) == pytest.approx(wanted + jitter, abs=100_000 + jitter / 50)


@pytest.mark.parametrize("name", CHANGING)
def test_it_delivers_the_rates_and_outages_of_its_schedule(network: VirtualNetwork, name: str) -> None:
    topology = load_topology(name)
    schedule = topology.schedule
    assert schedule is not None
    assert schedule.repeat is not None
    slots = min(MOST_SLOTS, schedule.repeat.ns // SLOT_NS)
    found = deliver(network, topology, slots)
    states = schedule.states(topology.link)
    ends = [state.at_ns for state in states[1:]] + [schedule.repeat.ns]
    for way in DIRECTIONS:
        checked = 0
        for state, end_ns in zip(states, ends, strict=True):
            direction = state.link.direction(way)
            assert direction.rate is not None
            # What was queued before an outage still arrives in it.
            queue_ns = (
                bdp_packets(direction.rate, Duration(direction.queue_limit.amount), 1500)
                * serialisation(FRAME, direction.rate).ns
            )
            settle_ns = SETTLE_NS + (0 if state.passing else queue_ns)
            first, last = -(-(state.at_ns + settle_ns) // SLOT_NS), min(slots, end_ns // SLOT_NS)
            wanted = direction.rate.bit_s * SLOT_NS / 8e9 if state.passing else 0
            for slot in range(first, last):
                at = f"{way}, {slot / 10:g} s"
                assert found.slots[way][slot] == pytest.approx(wanted, abs=max(0.01 * wanted, 2.5 * FRAME) if wanted else 0), at
                checked += 1
        assert checked >= slots / 4


@pytest.mark.parametrize(("name", "least_ms", "most_ms"), [("dsl-bloated", 595, 605), ("cable", 3, 30)])
def test_its_queue_up_is_bloated_or_kept_short(network: VirtualNetwork, name: str, least_ms: float, most_ms: float) -> None:
    link = load_topology(name).link
    direction = link.direction("up")
    shape(network, link)
    wire = serialisation(frame_bytes(1500), direction.rate)
    (found,) = count(network, "up", [Flow(PACKETS, round(wire.ns / 1.1))], size=1500)
    settled = [each.got_ns - each.sent_ns - direction.delay.ns for each in found.intact if each.number > PACKETS / 2]
    assert least_ms <= sum(settled) / len(settled) / 1e6 <= most_ms


def test_no_packet_of_the_vpn_is_longer_than_its_mtu() -> None:
    found = take(load_topology("office-vpn"))
    assert found.up.mean_packet_bytes == pytest.approx(frame_bytes(1400), abs=1)
