"""Which commands put a link on a router, change it, and take its wires away; and what refuses a link."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.link.hops import hops_of, removal
from lab.link.layers import LayeredPlan, link_plan
from lab.link.plan import QdiscPlan
from lab.model.errors import LabFault, NotSupported, UsageProblem
from lab.model.link import Link
from lab.model.units import Duration
from lab.net import shape as module
from lab.net.qdiscs import read_qdiscs
from lab.net.shape import (
    Shaped,
    assert_shapable,
    change,
    differences,
    lift_hops,
    put_hops,
    read_back,
    refuse_in_real_time,
    router_port,
    shape,
    without_seed,
)
from tests.support.noted_hosts import NotedNetwork

PORTS = {"up": "to-server", "down": "to-client"}
LINE: dict[str, Any] = {"rate": "20 Mbit/s", "rtt": "30 ms"}
NETEM = [{"kind": "netem", "root": True}]


def link(**more: Any) -> Link:
    return Link.model_validate({**LINE, **more})


def plan(asked: Link, way: Any) -> QdiscPlan | LayeredPlan | None:
    return link_plan(asked.direction(way), asked.rtt, supports_seed=True, own_delay=Duration(0))


class Router(NotedNetwork):
    """Holds the qdiscs that it is given, by device."""

    def __init__(self, held: dict[str, list[dict[str, Any]]] | None = None, **more: Any) -> None:
        super().__init__(held=held or {}, **more)
        self.answers["tc"] = lambda words: self.tc() if words[-1] == "show" else b""

    def tc(self) -> bytes:
        return json.dumps([{"dev": device, **qdisc} for device, found in self.held.items() for qdisc in found]).encode()

    @property
    def told(self) -> list[tuple[str, ...]]:
        return [note.words for note in self.notes if note.what == "run" and note.words[-1] != "show"]


@pytest.fixture(autouse=True)
def _agreeing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router holds what it was given; `test_shape.py` and tests/virtual look at that."""
    monkeypatch.setattr(module, "compare", lambda *_: [])


def deleted(*ways: str) -> list[tuple[str, ...]]:
    return [("tc", "qdisc", "del", "dev", PORTS[way], "root") for way in ways]


def test_a_plain_link_is_one_qdisc_for_each_way() -> None:
    network: Any = Router()
    made = shape(network, link())
    commands = [command for way in ("up", "down") for command in _plain(link(), way, "add")]
    assert network.told == commands
    assert made == Shaped(link(), {way: plan(link(), way) for way in PORTS}, tuple(map(" ".join, commands)), ())


def _plain(asked: Link, way: str, verb: Any) -> list[tuple[str, ...]]:
    found = plan(asked, way)
    assert isinstance(found, QdiscPlan)
    return list(found.commands(PORTS[way], verb))


def test_shaping_begins_afresh_and_a_change_does_not() -> None:
    held = dict.fromkeys(PORTS.values(), NETEM)
    network: Any = Router(held)
    shape(network, link())
    assert network.told == [each for way in ("up", "down") for each in (*deleted(way), *_plain(link(), way, "add"))]
    network = Router(held)
    change(network, link())
    assert network.told == [each for way in ("up", "down") for each in _plain(link(), way, "change")]
    network = Router({PORTS["up"]: [{"kind": "fq_codel", "root": True}]})
    change(network, link())
    assert network.told == [each for way in ("up", "down") for each in _plain(link(), way, "add")], (
        "nothing of the lab's is there"
    )


def test_an_unshaped_link_takes_the_qdiscs_away() -> None:
    network: Any = Router({PORTS["down"]: NETEM})
    made = change(network, Link.model_validate({"rtt": "0 ms"}))
    assert network.told == deleted("down")
    assert (made.commands, made.plans) == ((), {"up": None, "down": None})


def test_layers_are_changed_in_place_where_they_are_the_same() -> None:
    layered = link(queue={"kind": "codel"})
    found = plan(layered, "up")
    assert isinstance(found, LayeredPlan)
    below = [{"kind": kind, "parent": "1:1"} for kind in found.below]
    network: Any = Router({port: [*NETEM, *below] for port in PORTS.values()})
    change(network, layered)
    assert network.told == [
        each
        for way in ("up", "down")
        for each in plan(layered, way).changes(PORTS[way], None)  # type: ignore[union-attr]
    ]
    network = Router(dict.fromkeys(PORTS.values(), NETEM))
    change(network, layered)
    assert network.told == [
        each
        for way in ("up", "down")
        for each in (*deleted(way), *plan(layered, way).setup(PORTS[way]))  # type: ignore[union-attr]
    ], "layers cannot grow below a netem"
    network = Router({port: [*NETEM, *below] for port in PORTS.values()})
    change(network, link())
    assert network.told == [each for way in ("up", "down") for each in (*deleted(way), *_plain(link(), way, "add"))]


@pytest.mark.parametrize(("kind", "seed", "kept"), [("virtual", True, True), ("virtual", False, False), ("real", True, True)])
def test_a_seed_is_left_out_where_virtual_times_tc_has_none(kind: Any, seed: bool, kept: bool) -> None:
    network: Any = Router(kind=kind, seed=seed)
    made = shape(network, link(seed=5, loss="1 %", down={"seed": 7}))
    assert any("seed" in command for command in made.commands) == (kept and seed)
    assert made.link.seed == 5, "the link is what was asked for"
    if kind == "real":
        with pytest.raises(UsageProblem, match="cannot repeat losses"):
            shape(Router(kind=kind, seed=False), link(seed=5))  # type: ignore[arg-type]
    plain = without_seed(link(seed=5, down={"seed": 7}, up={"loss": "1 %"}))
    assert (plain.seed, plain.down.seed if plain.down else 0, plain.up.seed if plain.up else 0) == (None, None, None)
    assert without_seed(link(seed=5)) == link()


HIDDEN: dict[str, Any] = {"hidden_mtu": 1400, "up": {"udp": {"policed": "8 Mbit/s", "burst": "100 kB"}}}


def wires(network: Any, asked: Link) -> list[tuple[str, ...]]:
    """The commands that make the wires of both ways."""
    found: list[tuple[str, ...]] = []
    for way, enters, address in (("up", "to-client", "10.77.2.2"), ("down", "to-server", "10.77.1.2")):
        for hop in hops_of(asked.direction(way), way, enters):  # type: ignore[arg-type]
            found += hop.setup(address)
    del network
    return found


def test_wires_are_made_behind_the_links_own_qdiscs() -> None:
    network: Any = Router()
    with pytest.raises(LabFault, match="does not hold the link it was given: mtu-up: tbf is not there"):
        shape(network, link(**HIDDEN))
    plain = [each for way in ("up", "down") for each in _plain(link(**HIDDEN), way, "add")]
    assert network.told == [*plain, *wires(network, link(**HIDDEN))]


def test_wires_are_taken_away_and_put_back() -> None:
    held = {"udp-up": NETEM, "mtu-down": NETEM, "eth9": NETEM}
    network: Any = Router(held)
    lift_hops(network)
    assert network.told == [*removal("mtu-down"), *removal("udp-up")]
    network = Router(held)
    put_hops(network, link(**HIDDEN))
    assert network.told == [*removal("mtu-down"), *removal("udp-up"), *wires(network, link(**HIDDEN))]


def test_a_change_leaves_wires_alone_that_are_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = link(hidden_mtu=1400)
    held = dict.fromkeys(PORTS.values(), NETEM) | {"mtu-up": [{"kind": "tbf"}], "mtu-down": [{"kind": "tbf"}]}
    problems: list[str] = []
    monkeypatch.setattr(
        module.Hop, "problems", lambda _, found: [] if found == [{"kind": "tbf", "dev": found[0]["dev"]}] else problems
    )
    network: Any = Router(held)
    change(network, asked)
    assert not any("link" in command for command in network.told)
    network = Router(held)
    shape(network, asked)
    assert [command for command in network.told if "del" in command[:4]][-1] == ("ip", "link", "del", "mtu-up"), "afresh"
    problems.append("wrong rate")
    network = Router({**held, "mtu-up": [{"kind": "tbf", "root": True}]})
    with pytest.raises(LabFault, match="wrong rate"):
        change(network, asked)
    assert ("ip", "link", "del", "mtu-up") in network.told


def test_what_the_router_holds_is_read_back_by_way_and_by_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "compare", lambda plan, found: [f"{plan} {[each['kind'] for each in found]}"])
    network: Any = Router({PORTS["up"]: NETEM, "udp-down": [{"kind": "tbf"}], "mtu-up": [{"kind": "tbf"}], "eth9": NETEM})
    shaped = Shaped(link(), {"up": "p", "down": "q"}, ())  # type: ignore[dict-item]
    problems, qdiscs = read_back(network, shaped)
    assert problems == [
        "up: p ['netem']",
        "down: q []",
        "mtu-up is there, which was not asked",
        "udp-down is there, which was not asked",
    ]
    assert sorted(qdiscs) == ["mtu-up", "to-client", "to-server", "udp-down"]
    assert differences(network, shaped) == problems
    assert read_qdiscs(network) == qdiscs


def test_a_tc_that_says_no_json_is_the_labs_fault() -> None:
    network: Any = NotedNetwork(answers={"tc": b"Usage: tc" + b"!" * 200})
    with pytest.raises(LabFault, match=r"something else than JSON: 'Usage: tc!{111}'$"):
        read_qdiscs(network)
    assert read_qdiscs(NotedNetwork()) == {"to-client": [], "to-server": []}  # type: ignore[arg-type]


def test_a_loopback_cannot_be_shaped_but_may_be_left_alone() -> None:
    network: Any = Router(router_kind="none")
    with pytest.raises(NotSupported, match="client and server are one host"):
        assert_shapable(network)
    with pytest.raises(NotSupported):
        shape(network, link())
    assert network.told == []
    shape(network, Link.model_validate({"rtt": "0 ms"}))
    assert_shapable(Router())  # type: ignore[arg-type]


def test_what_needs_the_labs_kernel_is_refused_in_real_time() -> None:
    asked = link(queue={"kind": "codel"})
    assert asked.virtual_only
    with pytest.raises(NotSupported, match=f"{asked.virtual_only} works in virtual time only"):
        refuse_in_real_time(Router(kind="real"), asked)  # type: ignore[arg-type]
    refuse_in_real_time(Router(), asked)  # type: ignore[arg-type]
    refuse_in_real_time(Router(kind="real"), link())  # type: ignore[arg-type]


def test_a_direction_is_shaped_where_it_leaves_the_router() -> None:
    network: Any = Router()
    assert [router_port(network, way) for way in ("up", "down")] == ["to-server", "to-client"]
