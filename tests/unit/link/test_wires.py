"""What a link does to UDP alone and to large packets: the router's own wires that do it, and what of them is read back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lab.link.hops import HOPS, Hop, hops_of, removal
from lab.link.theory import ideal_goodput_bit_s
from lab.model.link import Link

LINE = {"rate": "20 Mbit/s", "rtt": "30 ms"}
POLICED = {"policed": "8 Mbit/s", "burst": "100 kB"}


def tbf(rate: int) -> dict[str, Any]:
    return {"kind": "tbf", "root": True, "options": {"rate": rate, "burst": 100_000, "limit": 1514}}


def netem(loss: float) -> dict[str, Any]:
    options = {"limit": 1000, "loss-random": {"loss": loss, "correlation": 0}, "ecn": False, "gap": 0}
    return {"kind": "netem", "root": True, "options": options}


def hops(**link: Any) -> list[Hop]:
    return hops_of(Link.model_validate({**LINE, **link}).direction("up"), "up", "to-client")


def test_a_link_without_them_needs_no_wire() -> None:
    assert hops() == hops(udp="open") == []


@pytest.mark.parametrize(
    ("udp", "qdisc"),
    [("blocked", "netem limit 1000 loss 100%"), (POLICED, "tbf rate 8000000bit burst 100000 limit 1514")],
    ids=["blocked", "policed"],
)
def test_udp_alone_goes_over_a_wire_that_drops_it(udp: object, qdisc: str) -> None:
    (hop,) = hops(udp=udp)
    commands = [" ".join(command) for command in hop.setup("10.77.2.2")]
    assert commands[3] == f"tc qdisc add dev udp-up root {qdisc}"
    assert commands[-2:] == [
        "ip route add default dev udp-up table 102",
        "ip rule add pref 102 iif to-client ipproto udp lookup 102",
    ]


def test_all_packets_go_over_the_wire_that_tells_sizes_apart_and_udp_over_both() -> None:
    sizes, udp = hops(hidden_mtu=1380, udp=POLICED)
    assert sizes.setup("10.77.2.2")[-1][3:] == ("pref", "101", "iif", "to-client", "lookup", "101")
    assert "burst 1394" in " ".join(sizes.setup("10.77.2.2")[3])
    assert udp.port == sizes.end


def test_every_wire_can_be_taken_away_rule_first() -> None:
    for device in HOPS:
        rule, link = removal(device)
        assert (rule[:3], link) == (("ip", "rule", "del"), ("ip", "link", "del", device))
    assert len({removal(device)[0] for device in HOPS}) == len(HOPS), "each has a number of its own"


@pytest.mark.parametrize(
    ("udp", "held", "problem"),
    [
        ("blocked", [netem(1)], ""),
        ("blocked", [netem(0.5)], "udp-up: loss is 50 %"),
        ("blocked", [], "udp-up: netem is not there"),
        (POLICED, [tbf(1_000_000)], ""),
        (POLICED, [tbf(2_000_000)], "udp-up: rate of tbf is 2000000"),
        (POLICED, [], "udp-up: tbf is not there"),
    ],
)
def test_it_is_read_back(udp: object, held: list[dict[str, Any]], problem: str) -> None:
    (hop,) = hops(udp=udp)
    found = hop.problems(held)
    assert [each.startswith(problem) for each in found] == [True] * bool(problem)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ({"udp": {"policed": "19 Mbit/s", "burst": "100 kB"}}, "more than nine tenths"),
        ({"udp": {"policed": "8 Mbit/s", "burst": "1 kB"}}, "at least a full-sized frame"),
        ({"udp": "policed"}, "open"),
        ({"hidden_mtu": 1500}, "must be below the mtu"),
        ({"hidden_mtu": 1380, "udp": "blocked"}, "cannot be proven"),
    ],
)
def test_what_nothing_could_prove_is_refused(link: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Link.model_validate({**LINE, **link})


@pytest.mark.parametrize("link", [{"udp": "blocked"}, {"udp": POLICED}, {"hidden_mtu": 1380}, {"up": {"udp": "blocked"}}])
def test_they_need_virtual_time(link: dict[str, Any]) -> None:
    assert Link.model_validate({**LINE, **link}).virtual_only


def test_a_direction_may_differ_and_goodput_over_udp_is_the_policers() -> None:
    link = Link.model_validate({**LINE, "udp": "blocked", "down": {"udp": POLICED}})
    assert link.direction("up").udp == "blocked"
    down = link.direction("down")
    assert ideal_goodput_bit_s(down.for_udp()) == pytest.approx(8e6 * 1448 / 1514)
    assert ideal_goodput_bit_s(down) == pytest.approx(20e6 * 1448 / 1514)
