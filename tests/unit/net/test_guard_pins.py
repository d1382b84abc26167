"""Before anything is measured: packets cannot bypass the link, and the hosts hold their settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import LabFault
from lab.net.guard import assert_no_bypass
from lab.net.pins import assert_pinned, pin, pin_host
from tests.support.noted_hosts import NotedNetwork


class Host:
    """Notes each call; `bypasses` names hosts that it reaches another way."""

    def __init__(self, name: str, log: list[tuple[Any, ...]]) -> None:
        self.name, self.log = name, log
        self.bypasses: set[str] = set()
        self.wrong: list[str] = []

    def bypass(self, other: Host) -> str:
        self.log.append((self.name, other.name))
        return f"{self.name} has another way to {other.name}" if other.name in self.bypasses else ""

    def pin(self, congestion_control: str, mtu: int) -> None:
        self.log.append((self.name, congestion_control, mtu))

    def unpinned(self, congestion_control: str) -> list[str]:
        self.log.append((self.name, congestion_control))
        return self.wrong


def network(*, prober: bool = False, router: str = "kernel") -> Any:
    log: list[tuple[Any, ...]] = []
    made = SimpleNamespace(
        log=log, client=Host("client", log), server=Host("server", log), router_facts=SimpleNamespace(kind=router)
    )
    made.prober = Host("prober", log) if prober else made.client
    noted = NotedNetwork()
    made.wire, made.wire_ports, made.notes = noted.wire, noted.wire_ports, noted.notes
    return made


def test_every_pair_of_hosts_is_looked_at_both_ways() -> None:
    made = network()
    assert_no_bypass(made)
    assert made.log == [("client", "server"), ("server", "client")]
    made = network(prober=True)
    assert_no_bypass(made)
    assert made.log[2:] == [("prober", "server")], "who measures the link uses it too"


@pytest.mark.parametrize(("who", "to"), [("client", "server"), ("server", "client"), ("prober", "server")])
def test_another_way_is_refused(who: str, to: str) -> None:
    made = network(prober=True)
    getattr(made, who).bypasses.add(to)
    with pytest.raises(LabFault, match=f"traffic can bypass the router: {who} has another way to {to}"):
        assert_no_bypass(made)


def test_settings_are_made_and_looked_at_on_every_host_and_the_routers_ports_merge_nothing() -> None:
    made = network(prober=True)
    pin(made, "cubic", 1400)
    hosts = ("client", "server", "prober")
    assert made.log == [each for name in hosts for each in ((name, "cubic", 1400), (name, "cubic"))]
    (note,) = made.notes
    assert note.words == ("/bin/sh", "-ec", "for p in to-client to-server; do ethtool -K $p gro off; done")
    made = network(router="none")
    pin(made, "cubic")
    assert (made.notes, made.log[0]) == ([], ("client", "cubic", 1500))
    assert len(made.log) == 4, "the client is its own prober"


@pytest.mark.parametrize("who", ["client", "server", "prober"])
def test_a_setting_that_does_not_hold_is_the_labs_fault(who: str) -> None:
    made = network(prober=True)
    assert_pinned(made, "bbr")
    assert made.log == [(name, "bbr") for name in ("client", "server", "prober")]
    getattr(made, who).wrong = ["gro is on", "tso is on"]
    for act in (lambda: assert_pinned(made, "bbr"), lambda: pin(made, "bbr"), lambda: pin_host(getattr(made, who), "bbr")):
        with pytest.raises(LabFault, match=f"{who} does not hold its settings: gro is on; tso is on"):
            act()
