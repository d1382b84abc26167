"""Both ends of a transfer watched at once, and what the router dropped meanwhile."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.net import watch as module
from lab.net.watch import Dropped, Watch, can_watch, dropped, is_policer
from tests.support.noted_hosts import NotedNetwork


def tc(*qdiscs: dict[str, Any]) -> bytes:
    return json.dumps(qdiscs).encode()


NETEM = {"kind": "netem", "root": True, "drops": 5, "options": {}}
POLICER = {"kind": "clsact", "drops": 3, "options": {}}
BELOW = {"kind": "fq_codel", "parent": "10:1", "drops": 2, "options": {}}


def test_what_the_router_dropped_is_counted_once() -> None:
    """A root counts what is dropped below it; a policer's hook is apart from the root."""
    for qdiscs, found in (
        ((NETEM, BELOW), Dropped(5, 0)),
        ((NETEM, BELOW, POLICER), Dropped(5, 3)),
        (({**NETEM, "drops": 1}, POLICER), Dropped(3, 3)),
        ((NETEM, NETEM), Dropped(10, 0)),
        (({"kind": "noqueue", "root": True},), Dropped(0, 0)),
        ((), Dropped(0, 0)),
    ):
        network: Any = NotedNetwork(answers={"tc": tc(*qdiscs)})
        assert dropped(network) == found
        assert network.notes[0].words == ("tc", "-s", "-j", "qdisc", "show")
    network = NotedNetwork(answers={"tc": b""})
    assert dropped(network) == Dropped(0, 0)


def test_a_tc_that_says_no_json_is_the_labs_fault() -> None:
    network: Any = NotedNetwork(answers={"tc": b"Usage: tc" + b"!" * 200})
    with pytest.raises(LabFault, match=r"something else than JSON: 'Usage: tc!{111}'$"):
        dropped(network)


def test_a_policer_is_a_hook_or_a_bucket_of_up_to_three_frames() -> None:
    assert all(is_policer({"kind": kind}) for kind in ("clsact", "ingress"))
    assert not is_policer({"kind": "tbf", "options": "x"})
    for limit, policer in ((6144, True), (6145, False)):
        assert is_policer({"kind": "tbf", "options": {"limit": limit}}) == policer
        # Older tc: the time in which the rate carries them, in microseconds.
        assert is_policer({"kind": "tbf", "options": {"lat": limit, "rate": 1_000_000}}) == policer
        assert is_policer({"kind": "tbf", "options": {"lat": 1_000_000, "rate": limit}}) == policer
    assert is_policer({"kind": "tbf"}), "without options there is no room"
    assert not is_policer({"kind": "netem", "options": {"limit": 1}})


class Recording:
    """Stands for the sockets or the tap of a host."""

    log: list[str]

    def __init__(self, what: str, host: Any, fails: str) -> None:
        self.what, self.fails = f"{what} {host.name}", fails

    def __enter__(self) -> Recording:
        if self.what == self.fails:
            raise LabFault("no Python there")
        self.log.append(f"+{self.what}")
        return self

    def __exit__(self, *_: object) -> None:
        self.log.append(f"-{self.what}")

    def between(self, start_ns: int, end_ns: int) -> list[str]:
        return [f"{self.what} {start_ns} {end_ns}"]


@pytest.fixture(name="log")
def recordings(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[str]:
    fails = getattr(request, "param", "")
    Recording.log = []

    def tap(_: object, host: Any, *, acks: bool) -> Recording:
        assert acks
        return Recording("tap", host, fails)

    monkeypatch.setattr(module, "Sockets", lambda _, host: Recording("sockets", host, fails))
    monkeypatch.setattr(module, "Tap", tap)
    return Recording.log


def test_a_watch_has_the_connections_and_the_packets_of_both_hosts(log: list[str]) -> None:
    network: Any = NotedNetwork(answers={"tc": tc(NETEM, POLICER)})
    assert Watch(network).dropped() == Dropped(5, 3), "before it begins: all so far"
    with Watch(network) as watch:
        found = watch.of(network.server, 5, 9)
        assert (found.looks, found.events) == (["sockets server 5 9"], ["tap server 5 9"])
        assert watch.of(network.client, 5, 9).looks == ["sockets client 5 9"]
        assert watch.dropped() == Dropped(0, 0), "since the watch began"
        network.answers["tc"] = tc({**NETEM, "drops": 12}, {**POLICER, "drops": 7})
        assert watch.dropped() == Dropped(7, 4)
        assert watch.dropped_at() == {"": 7}, "as of that look"
    assert log == [
        "+sockets client",
        "+tap client",
        "+sockets server",
        "+tap server",
        "-tap server",
        "-sockets server",
        "-tap client",
        "-sockets client",
    ]


@pytest.mark.parametrize("log", ["tap server"], indirect=True)
def test_what_was_started_is_stopped_where_the_rest_fails(log: list[str]) -> None:
    network: Any = NotedNetwork()
    with pytest.raises(LabFault, match="no Python"), Watch(network):
        pass
    assert log[3:] == ["-sockets server", "-tap client", "-sockets client"]


def test_looking_costs_nothing_in_virtual_time_where_there_is_a_link() -> None:
    good: dict[str, Any] = {"clock": "virtual", "router": "kernel", "client": "eth0", "server": "eth0"}

    def network(**other: str) -> Any:
        facts = {**good, **other}
        return SimpleNamespace(
            clock=SimpleNamespace(kind=facts["clock"]),
            router_facts=SimpleNamespace(kind=facts["router"]),
            client=SimpleNamespace(tap_port=facts["client"]),
            server=SimpleNamespace(tap_port=facts["server"]),
        )

    assert can_watch(network())
    for other in ({"clock": "real"}, {"router": "none"}, {"client": ""}, {"server": ""}):
        assert not can_watch(network(**other))


def test_what_was_dropped_is_known_by_device(log: list[str]) -> None:
    devices = ("to-client", "mtu-down", "lo")
    network: Any = NotedNetwork(answers={"tc": tc(*({**NETEM, "dev": device} for device in devices))})
    with Watch(network) as watch:
        network.answers["tc"] = tc(
            {**NETEM, "dev": "to-client", "drops": 8},
            {**BELOW, "dev": "to-client"},
            {**NETEM, "dev": "mtu-down", "drops": 19},
            {**NETEM, "dev": "lo"},
        )
        assert watch.dropped_at() == {"to-client": 3, "mtu-down": 14}
