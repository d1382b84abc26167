"""A link that treats UDP or large packets unlike the rest does just that, and to nothing else, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.clients.ferry import find_ferry
from lab.hosts.virtual.network import VirtualNetwork
from lab.model.errors import EXIT_PASS
from lab.model.link import Link
from lab.model.load import load_topology
from lab.net.counted import Flow, count
from lab.net.hops import count_datagrams, count_problems
from lab.net.qdiscs import read_qdiscs
from lab.net.shape import change, differences, shape
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab
from tests.virtual.test_links import take

LINE = {"rate": "20 Mbit/s", "rtt": "30 ms"}
POLICED = {"policed": "8 Mbit/s", "burst": "100 kB"}
BLOCKED_UP = Link.model_validate({**LINE, "up": {"udp": "blocked"}})


@pytest.mark.parametrize("name", ["udp-blocked-20", "udp-policed-20", "black-hole-20"])
def test_its_certificate_counts_datagrams_and_measures_the_line_by_tcp(name: str) -> None:
    found = take(load_topology(name))
    assert found.ok, found.problems
    assert {each.direction for each in found.datagrams} == {"up", "down"}
    for line in (found.up, found.down):
        assert line.goodput_error is not None
        assert abs(line.goodput_error) < 0.001


def test_one_direction_may_be_blocked_and_the_count_sees_a_link_that_is_not(network: VirtualNetwork) -> None:
    shape(network, BLOCKED_UP)
    (up,), (down,) = (count(network, way, [Flow(100, 1_000_000)]) for way in ("up", "down"))  # type: ignore[arg-type]
    assert (len(up.intact), len(down.intact)) == (0, 100)
    shape(network, Link.model_validate(LINE))
    assert count_problems(count_datagrams(network, BLOCKED_UP, "up", 0.01)) != []


@pytest.mark.parametrize("size", [600, 1380, 1499])
def test_a_hidden_mtu_is_exact_to_a_byte_also_with_policed_udp(network: VirtualNetwork, size: int) -> None:
    link = Link.model_validate({**LINE, "hidden_mtu": size, "udp": POLICED})
    shape(network, link)
    found = count_datagrams(network, link, "up", 0.01)
    assert [(each.packet_bytes, each.arrived) for each in found[:2]] == [(size, 200), (size + 1, 0)]
    assert count_problems(found) == []


def test_it_appears_with_the_link_changes_with_it_and_goes_with_it(network: VirtualNetwork) -> None:
    steps: tuple[dict[str, Any], ...] = ({"udp": POLICED}, {"udp": "blocked"}, {"hidden_mtu": 1280}, {})
    for step in steps:
        link = Link.model_validate({**LINE, **step})
        assert differences(network, change(network, link)) == []
    assert sorted(read_qdiscs(network)) == ["to-client", "to-server"]
    (found,) = count(network, "up", [Flow(100, 1_000_000)], size=1500)
    assert not found.missing


def test_ferry_says_in_one_line_that_udp_gets_no_answer_and_gives_up_after_its_time_out(network: VirtualNetwork) -> None:
    shape(network, load_topology("udp-blocked-20").link)
    client = network.client
    program = client.workdir / "ferry"
    client.copy(find_ferry(), program, mode=0o755)
    words = [
        "get",
        "--http3",
        "--timeout-connect",
        "4s",
        "-o",
        str(client.workdir / "got"),
        f"https://{network.server.address}/x",
    ]
    done = client.run([str(program), *words], timeout_s=60, check=False)
    assert done.returncode
    assert done.wall_s < 5
    (line,) = done.stderr.decode().splitlines()
    assert network.server.address in line


def test_a_client_that_falls_back_gets_its_file_over_tcp(tmp_path: Path) -> None:
    name = "ferry-fallback--udp-blocked-20--h2-get-1MB"
    done = lab("run", name, "--max-samples", "5", "--json", env={"ROUGHWATER_RESULTS": str(tmp_path)})
    assert done.returncode == EXIT_PASS, done.stderr
    cell = read_cell(RunDir(tmp_path / json.loads(done.stdout)["run"]).cell_path(name))
    # It asks by UDP first: a quarter of the ten seconds that a connection may take.
    assert {sample.ok and sample.wall_s > 2.5 for sample in cell.samples} == {True}
    assert {sample.client.http_version for sample in cell.samples if sample.client} == {"2"}
