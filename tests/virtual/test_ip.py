"""IPv6 and names in virtual time: packets of each family fare as the topology says, and everything is timed and counted right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.hosts.virtual import ipv6
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import LabFault
from lab.model.topology import Topology
from lab.model.wiring import Dns, SlowerIpv6, Wiring
from lab.net.guard import assert_no_bypass
from lab.net.pins import assert_pinned, pin
from tests.virtual.boots import cell_of, run

_CONNECT = """\
import socket, time
found = socket.getaddrinfo('server', 9, type=socket.SOCK_STREAM)
asked = time.monotonic()
for family, *_, place in found:
    s = socket.socket(family); s.settimeout(3)
    begun = time.monotonic()
    try: s.connect(place); word = 'open'
    except TimeoutError: word = 'silent'
    except ConnectionRefusedError: word = 'refused'
    except OSError: word = 'unreachable'
    print(4 if family == socket.AF_INET else 6, word, round(time.monotonic() - begun, 3))
"""
_ASK = """\
import socket, sys, time
begun = time.monotonic()
try: found = [each[4][0] for each in socket.getaddrinfo('server', 9, type=socket.SOCK_STREAM)]
except OSError: found = []
print(round(time.monotonic() - begun, 3), *found)
"""


@contextmanager
def wired(**how: Any) -> Iterator[VirtualNetwork]:
    network = open_network(seed=3, wiring=Wiring(**how))
    try:
        pin(network, "cubic")
        assert_no_bypass(network)
        yield network
    finally:
        network.close()


def said(network: VirtualNetwork, script: str) -> list[list[str]]:
    python = network.client.program("python3")
    return [line.split() for line in network.client.run([python, "-I", "-c", script], timeout_s=120).text.splitlines()]


@pytest.mark.parametrize(
    ("how", "fares"),
    [
        ({"ip": 6}, [["6", "refused"]]),
        ({"ip": "both"}, [["6", "refused"], ["4", "refused"]]),
        ({"ip": "both", "ipv6": "dead"}, [["6", "silent"], ["4", "refused"]]),
        ({"ip": "both", "ipv6": "unreachable"}, [["6", "unreachable"], ["4", "refused"]]),
    ],
    ids=["IPv6 alone", "both", "dead", "unreachable"],
)
def test_packets_of_each_family_fare_as_the_topology_says(how: dict[str, Any], fares: list[list[str]]) -> None:
    with wired(**how) as network:
        assert_pinned(network, "cubic")
        assert [line[:2] for line in said(network, _CONNECT)] == fares


def test_a_detour_is_as_long_as_it_says() -> None:
    with wired(ip="both", ipv6=SlowerIpv6.model_validate({"slower": "300 ms"})) as network:
        (_, _, six), (_, _, four) = said(network, _CONNECT)
        assert float(six) - float(four) == pytest.approx(0.3, abs=0.001)


@pytest.mark.parametrize("claimed", ["dead", "unreachable", "slower"])
def test_a_path_that_is_not_what_it_claims_is_the_labs_fault(claimed: Any) -> None:
    state = SlowerIpv6.model_validate({"slower": "300 ms"}) if claimed == "slower" else claimed
    with wired(ip="both") as network, pytest.raises(LabFault, match="IPv6 does not fare as the network says"):
        ipv6.prove(network.client, network.server, state)


def test_a_packet_that_goes_round_the_router_by_ipv6_alone_is_seen() -> None:
    with wired(ip="both") as network:
        away = "ip -6 address add 2001:db8:77:2::2/128 dev lo nodad"
        network.client.run(["/bin/sh", "-ec", away], root=True)
        with pytest.raises(LabFault, match="hop limit 1 got from client to server"):
            assert_no_bypass(network)


@pytest.mark.parametrize(
    ("dns", "takes_s", "addresses"),
    [
        ({"delay": "20 ms"}, 0.020, 2),
        ({"delay": "20 ms", "aaaa": {"delay": "2 s"}}, 2.0, 2),
        ({"delay": "20 ms", "aaaa": {"answer": "failure"}}, 0.040, 1),
    ],
    ids=["both soon", "one late", "one fails"],
)
def test_a_resolver_takes_its_time(dns: dict[str, Any], takes_s: float, addresses: int) -> None:
    with wired(ip="both", dns=Dns.model_validate(dns)) as network:
        ((took, *found),) = said(network, _ASK)
        # The system's resolver asks again after a failure.
        assert float(took) == pytest.approx(takes_s, abs=0.045)
        assert len(found) == addresses


def test_content_is_counted_the_same_over_both_families(tmp_path: Path) -> None:
    figures = {}
    for ip in (4, 6):
        link = {"rate": "20 Mbit/s", "rtt": "60 ms"}
        topology = Topology.model_validate({"name": f"ip{ip}", "description": "-", "link": link, "ip": ip})
        result, _ = run(cell_of("http1", topology, size="2 MiB", limit=None), 1, tmp_path / str(ip))
        figures[ip] = result.samples[0]
    six, four = figures[6], figures[4]
    assert six.ok, six.problem
    assert six.wire is not None
    assert four.wire is not None
    # 20 bytes more of header in each packet, and the same content.
    assert six.wire.payload_bytes == pytest.approx(four.wire.payload_bytes, rel=1e-3)
    assert six.goodput_ratio == pytest.approx(four.goodput_ratio, abs=2e-3)
