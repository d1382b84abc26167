"""Addresses and names of a topology: which go together, and what follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lab.link import theory
from lab.model.base import first_problem
from lab.model.topology import Topology
from lab.model.units import Duration

NODE = {"name": "wifi", "link": {"rate": "50 Mbit/s", "rtt": "4 ms"}}
LINE = {"rate": "20 Mbit/s", "rtt": "60 ms"}


def topology(**settings: Any) -> Topology:
    return Topology.model_validate({"name": "net", "description": "A test.", "link": LINE, **settings})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ip": 6, "ipv6": "dead"}, "dead needs another way to the server (set ip: both)"),
        ({"ipv6": {"slower": "300 ms"}}, "slower by 300 ms needs another way to the server (set ip: both)"),
        ({"ip": 6, "link": {**LINE, "mtu": 1200}}, "IPv6 needs an MTU of 1280 bytes on every link (link.mtu)"),
        ({"ip": 6, "link": {**LINE, "udp": "blocked"}}, "hidden_mtu and udp choose packets of IPv4 (leave them out, or `ip`)"),
        ({"ip": 6, "link": {**LINE, "hidden_mtu": 1300}}, "hidden_mtu and udp choose packets of IPv4 (leave them out, or `ip`)"),
        ({"ip": 6, "endpoint": "vsftpd"}, "an endpoint is reached over IPv4 (leave `ip` or `endpoint` out)"),
        (
            {"link": {}, "same_host": True, "dns": {}},
            "same_host is reached as localhost, without a resolver (leave `ip` and `dns` out)",
        ),
        ({"path": []}, "`link`, the judged one, is on a path exactly once"),
        ({"path": ["link", "link"]}, "`link`, the judged one, is on a path exactly once"),
        ({"path": ["link", NODE, NODE]}, "wifi is the name of another node or host"),
        ({"path": ["link", {**NODE, "name": "server"}]}, "server is the name of another node or host"),
        (
            {"path": ["link", *({**NODE, "name": f"n{index}"} for index in range(8))]},
            "a path has at most 7 nodes besides",
        ),
        ({"path": ["link", {"name": "wifi"}]}, "node wifi is either a link or a nat (write one of them)"),
        ({"path": ["link", {**NODE, "nat": {}}]}, "node wifi is either a link or a nat (write one of them)"),
        ({"path": ["link", {"name": "wifi", "link": {}}]}, "the link of node wifi asks for nothing (set rate or rtt)"),
        (
            {"path": ["link", {"name": "wifi", "link": {**LINE, "mtu": 1400}}]},
            "the link of node wifi cannot have an mtu, hidden_mtu, udp or duplicate (leave them out)",
        ),
        (
            {"path": ["link", {**NODE, "name": "My Wifi"}]},
            "'My Wifi' is not a name for a node (32 small letters, digits, single - . _ at most)",
        ),
        ({"path": ["link", NODE], "link": {**LINE, "duplicate": "1 %"}}, "a path takes all frames of 1500 bytes alike"),
        ({"path": ["link", NODE], "ip": 6}, "the nodes of a path know IPv4 alone (leave `path` or `ip` out)"),
        (
            {"path": ["link", NODE], "link": {**LINE, "mtu": 1400}},
            "a path takes all frames of 1500 bytes alike (leave mtu, hidden_mtu, udp and duplicate out, or `path`)",
        ),
        ({"path": ["link", NODE], "link": {}, "same_host": True}, "same_host has no path (leave `path` out)"),
        (
            {"path": ["link", {"name": "home", "nat": {"tcp_idle": "1500 ms"}}]},
            "1500 ms is out of range: a NAT counts full seconds (1 s to 3600 s)",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as problem:
        topology(**settings)
    assert said in first_problem(problem.value)


def test_a_detour_takes_time() -> None:
    with pytest.raises(ValidationError):
        topology(ip="both", ipv6={"slower": "0 ms"})


def test_one_kind_of_question_may_differ() -> None:
    dns = topology(dns={"delay": "20 ms", "aaaa": {"delay": "2 s"}, "a": {"answer": "failure"}}).dns
    assert dns is not None
    assert dns.lookup("aaaa") == (Duration.parse("2 s"), "address")
    assert dns.lookup("a") == (Duration.parse("20 ms"), "failure")


def test_a_segment_of_ipv6_has_20_bytes_less_content() -> None:
    side = topology().link.direction("down")
    ipv4, ipv6 = (theory.ideal_goodput_bit_s(side, ipv6=each) for each in (False, True))
    assert ipv4 is not None
    assert ipv6 is not None
    assert (ipv4, ipv6) == (20e6 * 1448 / 1514, 20e6 * 1428 / 1514)
