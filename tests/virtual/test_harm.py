"""`lab harm` in virtual time: a bystander's figures where they are known in advance, and what ferry does to one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.cli.main import app, register
from lab.hosts.virtual.network import VirtualNetwork
from lab.link.theory import ideal_goodput_bit_s, ideal_rtt_ms
from lab.model.link import DirectionName
from lab.model.load import load_topology
from lab.net.bystander import bystander
from lab.net.flow import Flow, flowing
from lab.net.pins import pin
from lab.net.shape import shape

register(["harm"])

BLOATED = load_topology("dsl-bloated")
MOST_ADDED_MS = 5.0
LEAST_SHARE = 0.90
LEAST_SATELLITE_SHARE = 0.80
"""Learning the path and three handovers are in it; 0.86 in the mean of three."""


def harm(folder: Path, *words: str) -> dict[str, Any]:
    saved = folder / "harm.json"
    done = CliRunner().invoke(app, ["harm", *words, "--save", str(saved)])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(saved.read_text(encoding="utf-8"))["tables"]
    assert isinstance(table, dict)
    return table


def test_alone_every_round_trip_is_the_links(network: VirtualNetwork) -> None:
    pin(network, "cubic", BLOATED.link.mtu)
    shape(network, BLOATED.link)
    with bystander(network) as other:
        begin = network.clock.monotonic_ns()
        network.clock.sleep(2.0)
        end = network.clock.monotonic_ns()
    found = [echo.rtt_ms for echo in other.between(begin, end)]
    assert 99 <= len(found) <= 101
    # The link's ideal is that of a ping, and these packets are smaller.
    ideal = ideal_rtt_ms(BLOATED.link)
    assert all(rtt is not None and abs(rtt - ideal) < 0.6 for rtt in found), (found[:3], ideal)


def test_what_the_router_drops_is_lost_to_the_bystander(network: VirtualNetwork) -> None:
    shape(network, BLOATED.link)
    with bystander(network) as other:
        begin = network.clock.monotonic_ns()
        port = network.router_ports.client
        network.router.run(["tc", "qdisc", "replace", "dev", port, "root", "netem", "loss", "100%"], root=True)
        network.clock.sleep(1.0)
        end = network.clock.monotonic_ns()
        network.router.run(["tc", "qdisc", "del", "dev", port, "root"], root=True)
    lost = [echo.rtt_ms is None for echo in other.between(begin, end)]
    assert sum(lost) >= len(lost) - 2 > 40


@pytest.mark.parametrize("transfer", ["http1-get", "sftp-get"])
def test_ferry_in_the_background_leaves_the_bloated_queue_to_others(tmp_path: Path, transfer: str) -> None:
    table = harm(tmp_path, "ferry", "ferry-background", "--topology", BLOATED.name, "--transfer", transfer, "-n", "1")
    clients, solo = table["clients"], table["solo"]["p95_ms"]
    # The queue holds 600 ms, and a transfer that takes what it can fills it.
    assert clients["ferry"]["delay"]["p95_ms"] - solo > 500
    assert clients["ferry"]["harm_of_delay_p95"] > 0.9
    assert clients["ferry-background"]["delay"]["p95_ms"] - solo <= MOST_ADDED_MS
    (sample,) = clients["ferry-background"]["samples"]
    assert sample["share"] >= LEAST_SHARE
    assert len(sample["rtt_ms"]) == pytest.approx(sample["wall_s"] / 0.02, abs=3)


def test_ferry_in_the_background_follows_a_satellite_and_takes_its_jitter_for_no_queue(tmp_path: Path) -> None:
    """By one sample, which scatters from seed to seed (ADR 0035), so it is compared with what the client adds otherwise."""
    words = ("ferry", "ferry-background", "--topology", "starlink", "--transfer", "http1-put", "-n", "1")
    clients = harm(tmp_path, *words)["clients"]
    assert clients["ferry-background"]["added_p95_ms"] <= clients["ferry"]["added_p95_ms"] / 10
    (sample,) = clients["ferry-background"]["samples"]
    assert sample["share"] >= LEAST_SATELLITE_SHARE


def test_the_same_seed_gives_the_same_round_trips(tmp_path: Path) -> None:
    words = ("ferry-background", "--topology", BLOATED.name, "-n", "1", "--size", "2MB", "--seed", "7")
    assert harm(tmp_path, *words) == harm(tmp_path, *words)


def test_a_client_that_cannot_is_left_out_with_its_reason(tmp_path: Path) -> None:
    table = harm(tmp_path, "openssh", "--topology", BLOATED.name, "--transfer", "http1-get", "-n", "1", "--size", "100kB")
    assert not table["clients"]
    assert "openssh" in table["left_out"][0]


@pytest.mark.parametrize(("text", "direction"), [("bulk:cubic", "down"), ("bulk:bbr", "down"), ("bulk:reno", "up")])
def test_a_bulk_flow_alone_has_the_line(network: VirtualNetwork, text: str, direction: DirectionName) -> None:
    shape(network, BLOATED.link)
    ideal = ideal_goodput_bit_s(BLOATED.link.direction(direction))
    assert ideal is not None
    # Less than all: of what slow start loses in the full queue, and of BBR's probes for the round trip.
    assert 0.9 < alone(network, text, direction, 10.0) * 8 / ideal <= 1.001


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_constant_rate_is_kept(network: VirtualNetwork, direction: DirectionName) -> None:
    shape(network, BLOATED.link)
    assert alone(network, "cbr:120kB/s", direction, 4.0) == pytest.approx(120_000, rel=0.02)


def test_web_pages_take_their_round_trips(network: VirtualNetwork) -> None:
    shape(network, BLOATED.link)
    with flowing(network, Flow.parse("web"), "down", 3) as flow:
        begin = network.clock.monotonic_ns()
        network.clock.sleep(20.0)
        end = network.clock.monotonic_ns()
    pages = flow.page_s(begin, end)
    assert 8 < len(pages) < 40
    # Three connections, each of two round trips and more for an object beyond the first window.
    assert all(3 * 2 * 0.030 < page < 1.0 for page in pages)


def alone(network: VirtualNetwork, text: str, direction: DirectionName, seconds: float) -> float:
    with flowing(network, Flow.parse(text), direction, 1) as flow:
        begin = network.clock.monotonic_ns()
        network.clock.sleep(seconds)
        end = network.clock.monotonic_ns()
    return flow.byte_s(begin, end)


def test_in_the_background_a_competing_flow_keeps_what_it_had(tmp_path: Path) -> None:
    words = ("ferry", "ferry-background", "--topology", BLOATED.name, "-n", "1", "--size", "10MB", "--flow", "web")
    clients = harm(tmp_path, *words)["clients"]
    assert clients["ferry"]["flow"]["harm"] > 0.5
    assert clients["ferry-background"]["flow"]["harm"] < 0.3
