"""Client and server on one host, in real time."""

from __future__ import annotations

import pytest

from lab.hosts import loopback
from lab.hosts.choose import open_network, open_same_host
from lab.model.errors import UsageProblem
from lab.model.load import load_topology
from lab.net.calibrate import calibrate
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.bundle import SAME_HOST, start_servers


def test_one_namespace_serves_itself_and_its_loopback_is_counted() -> None:
    network, topology = open_same_host("namespaces"), load_topology("same-host")
    try:
        pin(network, "cubic")
        assert_no_bypass(network)
        servers = start_servers(network, places=SAME_HOST)
        shape(network, topology.link)
        look = calibrate(network, topology.link, "cubic")
        names = ["localhost", "127.0.0.1"] + (["[::1]"] if loopback.has_ipv6(network.client) else [])
        codes = [
            network.client.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}/ready"]).text
            for name in names
        ]
        servers.stop()
    finally:
        network.close()
    assert look.ok, look.problems
    assert look.down.mean_packet_bytes > 1514, "segmentation offload stays on"
    assert look.down.ideal_bit_s is None
    assert codes == ["204"] * len(names)


@pytest.mark.parametrize("backend", ["compose", "vagrant"])
def test_hosts_that_are_always_apart_refuse(backend: str) -> None:
    with pytest.raises(UsageProblem, match="on hosts of their own"):
        open_same_host(backend)  # type: ignore[arg-type]


def test_the_other_network_is_as_before() -> None:
    network = open_network("namespaces")
    network.close()
    assert network.router_facts.kind != "none"
