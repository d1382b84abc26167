"""netem does to packets what it is asked: seen in packets and in the router's counters."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from lab.hosts.namespaces.network import SERVER_ADDRESS, NamespaceNetwork, open_network
from lab.link.readback import drops
from lab.model.link import Link
from lab.model.units import BitRate, Duration, Queue, Ratio
from lab.net.pins import pin
from lab.net.ports import PortSampler
from lab.net.qdiscs import read_qdiscs
from lab.net.shape import change, router_port, shape
from lab.servers.bundle import start_servers
from lab.servers.payload import payload_name


@pytest.fixture(scope="module")
def network() -> Iterator[NamespaceNetwork]:
    """One network for all tests: each puts a link of its own on it."""
    made = open_network()
    pin(made, "cubic")
    yield made
    made.close()


def link(**more: object) -> Link:
    return Link(rate=BitRate.parse("20 Mbit/s"), rtt=Duration.parse("4 ms"), **more)  # type: ignore[arg-type]


def test_one_percent_loss_is_about_one_percent_of_the_routers_count(network: NamespaceNetwork) -> None:
    shape(network, link(loss=Ratio.parse("1%"), seed=7, queue=Queue.parse("1000 packets")))
    argv = ["ping", "-n", "-q", "-f", "-l", "100", "-c", "8000", SERVER_ADDRESS]
    network.client.run(argv, root=True, check=False, timeout_s=60)
    found = drops(read_qdiscs(network)[router_port(network, "up")])
    # Binomial, n = 8000, p = 0.01: mean 80, standard deviation 8.9; five of them either way.
    assert 80 - 45 <= found <= 80 + 45


def _lost(network: NamespaceNetwork, seed: int) -> set[int]:
    """Which of 400 pings got no answer on a fresh link with 10 % loss."""
    shape(network, link(loss=Ratio.parse("10%"), seed=seed))
    argv = ["ping", "-n", "-c", "400", "-i", "0.002", "-W", "1", SERVER_ADDRESS]
    text = network.client.run(argv, root=True, check=False, timeout_s=30).text
    return set(range(1, 401)) - {int(number) for number in re.findall(r"icmp_seq=(\d+)", text)}


def test_the_same_seed_drops_the_same_packets_and_another_seed_others(network: NamespaceNetwork) -> None:
    if not network.router_facts.supports_seed:
        pytest.skip(f"netem's seed needs kernel and iproute2 6.6; this router has {network.router_facts.iproute2}")
    network.client.run(["ping", "-n", "-c", "2", "-i", "0.01", SERVER_ADDRESS], root=True)
    first, again, other = _lost(network, 42), _lost(network, 42), _lost(network, 43)
    assert 30 < len(first) < 130
    assert first == again
    assert first != other


def test_a_link_changed_mid_transfer_keeps_the_flow_alive_and_shows_in_the_series(network: NamespaceNetwork) -> None:
    slow = Link(rate=BitRate.parse("10 Mbit/s"), rtt=Duration.parse("10 ms"))
    fast = slow.model_copy(update={"rate": BitRate.parse("40 Mbit/s")})
    shape(network, slow)
    servers = start_servers(network)
    with PortSampler(network) as sampler:
        url = f"http://server/files/{payload_name(5 << 20)}"
        process = network.client.start(["curl", "-q", "-sS", "-o", "/dev/null", url])
        time.sleep(1.5)
        changed_ns = time.monotonic_ns()
        change(network, fast)
        done = process.wait(20)
        rows = sampler.rows()
    servers.stop()
    assert done.returncode == 0, done.error_text
    port = network.wire_ports.client

    def mbit_s(start_ns: int, end_ns: int) -> float:
        inside = [row for row in rows if start_ns <= row.t_ns <= end_ns]
        return (inside[-1][port].tx_bytes - inside[0][port].tx_bytes) * 8e3 / (inside[-1].t_ns - inside[0].t_ns)

    assert 8 < mbit_s(changed_ns - 700_000_000, changed_ns) < 11
    assert mbit_s(changed_ns + 300_000_000, changed_ns + 600_000_000) > 25
