"""Paths of several nodes in virtual time: slow links are found, NATs forget in time, and nothing goes round."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.assets.userlands import get as get_userland
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.hosts.virtual.path import memory_script, prove_order
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.results import PathCertificate
from lab.model.topology import Topology
from lab.model.wiring import Nat, Wiring
from lab.net import path as paths
from lab.net.calibrate import Tolerance
from lab.net.guard import assert_no_bypass
from lab.net.path import at_node, certify_path, shape_nodes
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.userlands import nodes_userlands
from lab.servers.iperf3 import launch
from lab.servers.process import wait_ready
from tests.virtual.boots import cell_of, run

LINE = {"rate": "20 Mbit/s", "rtt": "30 ms"}
DRAWS = 10 if os.environ.get("ROUGHWATER_NIGHTLY") else 2


def topology(*path: Any, **link: Any) -> Topology:
    return Topology.model_validate({"name": "net", "description": "-", "link": {**LINE, **link}, "path": path})


@contextmanager
def opened(made: Topology) -> Iterator[VirtualNetwork]:
    network = open_network(seed=3, wiring=made.wiring, userlands=nodes_userlands(made.wiring, lambda _: None))
    try:
        pin(network, "cubic")
        assert_no_bypass(network)
        shape(network, made.link)
        shape_nodes(network, made)
        yield network
    finally:
        network.close()


def certificate(network: VirtualNetwork, made: Topology) -> PathCertificate:
    wait_ready([launch(network.server)])
    return certify_path(network, made, {}, tolerance=Tolerance())


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_slow_link_is_found_behind_the_judged_one_and_its_honest_twin_passes(way: str, seed: int) -> None:
    draw = random.Random(f"{way} {seed}")
    claimed = {"rate": f"{draw.randrange(21, 90)} Mbit/s", "rtt": f"{draw.randrange(2, 40)} ms"}
    slow = Link.model_validate({**claimed, way: {"rate": f"{draw.randrange(4, 19)} Mbit/s"}})
    path: list[Any] = [{"name": "other", "link": claimed}]
    path.insert(draw.randrange(2), "link")
    made = topology(*path)
    with opened(made) as network:
        honest = certificate(network, made)
        assert not honest.problems
        shape(at_node(network, network.nodes["other"]), slow)
        found = certificate(network, made).problems
    assert found
    assert all(problem.startswith(f"path: {way}") for problem in found), found


def test_a_round_trip_that_is_not_claimed_is_found() -> None:
    made = topology({"name": "other", "link": {"rate": "50 Mbit/s", "rtt": "4 ms"}}, "link")
    with opened(made) as network:
        shape(at_node(network, network.nodes["other"]), Link.model_validate({"rate": "50 Mbit/s", "rtt": "9 ms"}))
        assert ["idle RTT" in problem for problem in certificate(network, made).problems] == [True]


def test_a_nat_hides_its_client_and_forgets_in_time() -> None:
    made = topology({"name": "home", "nat": {"tcp_idle": "9 s", "udp_idle": "6 s"}}, "link")
    with opened(made) as network:
        (proof,) = certificate(network, made).nats.values()
        assert (proof.arrived, proof.problems) == ([True, False, True, False], [])


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"tcp_idle": "7 s", "udp_idle": "6 s"}, "a word over TCP after 8.1 s of silence was dropped"),
        ({"tcp_idle": "9 s", "udp_idle": "8 s"}, "a word over UDP after 6.6 s of silence arrived"),
    ],
    ids=["forgets too soon", "forgets too late"],
)
def test_a_nat_that_forgets_at_another_time_is_found(monkeypatch: pytest.MonkeyPatch, kept: dict[str, str], said: str) -> None:
    made = topology({"name": "home", "nat": {"tcp_idle": "9 s", "udp_idle": "6 s"}}, "link")
    other = Nat.model_validate(kept)
    monkeypatch.setattr(paths, "memory_script", lambda nat: memory_script(nat if nat is paths._PATIENT else other))
    with opened(made) as network:
        assert certificate(network, made).problems == [f"home: {said}"]


def test_two_nats_and_a_long_line_behind_them_are_proven_each() -> None:
    nats = [{"name": name, "nat": {"tcp_idle": idle, "udp_idle": idle}} for name, idle in (("home", "9 s"), ("isp", "5 s"))]
    made = topology(nats[0], "link", nats[1], rtt="600 ms")
    with opened(made) as network:
        assert not certificate(network, made).problems


def test_a_node_that_is_not_claimed_is_found() -> None:
    first, second = ({"name": name, "link": {"rate": "50 Mbit/s"}} for name in ("a", "b"))
    made = topology(first, "link", second)
    with opened(made) as network:
        prove_order(network.client, network.server, made.wiring)
        shorter = Wiring(path=made.path[1:])
        with pytest.raises(LabFault, match="path"):
            prove_order(network.client, network.server, shorter)


def test_a_cell_over_a_path_is_the_same_in_each_boot(tmp_path: Path) -> None:
    made = topology({"name": "wifi", "link": {"rate": "8 Mbit/s", "rtt": "10 ms"}}, "link")
    cell = cell_of("http1", made, size="1 MiB", limit=None)
    (result, first), (_, second) = (run(cell, 1, tmp_path / str(index)) for index in range(2))
    assert first == second
    assert result.certificate is not None
    assert result.certificate.path is not None
    assert not result.certificate.path.problems
    assert any(command.startswith("wifi: tc ") for command in result.certificate.qdisc_commands)
    assert {"wifi to-client", "wifi to-server"} <= result.certificate.qdisc_readback.keys()
    (ratio,) = {round(sample.goodput_ratio or 0, 3) for sample in result.samples}
    assert 0.85 < ratio < 1


def test_the_userland_of_nats_has_nft() -> None:
    found = nodes_userlands(topology({"name": "home", "nat": {}}, "link").wiring, lambda _: None)
    assert {host: "nftables" in each.facts.packages for host, each in found.items()} == {"node-home": True}
    assert get_userland("debian:13+nftables", lambda _: None).root == found["node-home"].root


def test_losses_on_a_path_are_part_of_what_it_is_held_to() -> None:
    lossy = {"rate": "50 Mbit/s", "rtt": "4 ms", "loss": "5 %"}
    made = topology("link", {"name": "home", "nat": {"tcp_idle": "9 s", "udp_idle": "6 s"}}, {"name": "wifi", "link": lossy})
    with opened(made) as network:
        found = certificate(network, made)
    assert not found.problems
