"""A path as one link: the least rate, all delays, and a ping's own time on each wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.link import theory
from lab.link.path import as_one_link, carrying
from lab.model.cell import Cell
from lab.model.topology import Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import BitRate

LINKS = st.fixed_dictionaries(
    {
        "rate": st.integers(1, 200).map(lambda mbit: f"{mbit} Mbit/s"),
        "rtt": st.integers(0, 200).map(lambda ms: f"{ms} ms"),
    }
)


def topology(judged: dict[str, Any], *others: dict[str, Any], place: int = 0) -> Topology:
    path: list[Any] = [{"name": f"n{index}", "link": link} for index, link in enumerate(others)]
    path.insert(place, "link")
    return Topology.model_validate({"name": "net", "description": "A test.", "link": judged, "path": path})


@given(LINKS, st.lists(LINKS, min_size=1, max_size=4), st.integers(0, 4))
def test_a_path_has_the_least_rate_and_all_round_trips(judged: Any, others: Any, place: int) -> None:
    made = topology(judged, *others, place=min(place, len(others)))
    links = [made.link, *(node.link for node in made.wiring.nodes if node.link)]
    one = as_one_link(made)
    for way in ("up", "down"):
        sides = [link.direction(way) for link in links]
        assert one.direction(way).rate == min((side.rate for side in sides if side.rate), key=lambda rate: rate.bit_s)
    assert theory.ideal_rtt_ms(one) == pytest.approx(sum(map(theory.ideal_rtt_ms, links)), abs=1e-5)


def test_the_queue_is_that_of_the_slowest() -> None:
    made = topology({"rate": "20 Mbit/s", "rtt": "60 ms"}, {"rate": "8 Mbit/s", "rtt": "10 ms", "queue": "50 packets"})
    assert str(as_one_link(made).direction("up").queue) == "50 packets"


def test_without_other_nodes_a_cells_link_carries_it() -> None:
    plain = Topology.model_validate({"name": "net", "description": "-", "link": {"rate": "20 Mbit/s", "loss": "1 %"}})
    for made in (plain, topology({"rate": "20 Mbit/s"}, {"rate": "8 Mbit/s"})):
        transfer = Transfer.model_validate({"protocol": "http1", "direction": "get", "size": "1 MB"})
        cell = Cell(client=ClientSpec(name="curl"), topology=made, transfer=transfer, expectation=Expectation(kind="none"))
        if made is plain:
            assert carrying(cell) == cell.link_direction
        else:
            assert str(carrying(cell).rate) == "8 Mbit/s"


def test_losses_behind_the_slowest_link_leave_less() -> None:
    slow, lossy = {"rate": "8 Mbit/s", "rtt": "10 ms"}, {"rate": "50 Mbit/s", "rtt": "4 ms", "loss": "10 %"}
    one = as_one_link(topology(slow, lossy, place=0))
    assert one.direction("up").rate == BitRate.parse("7.2 Mbit/s"), "the lossy link comes after the slow one"
    assert one.direction("down").rate == BitRate.parse("8 Mbit/s"), "and before it on the way back"
    assert one.direction("up").loss.value == pytest.approx(0.1)


def test_variations_of_the_delay_add_up() -> None:
    made = topology({"rtt": "20 ms", "jitter": "3 ms"}, {"rtt": "20 ms", "jitter": "2 ms"})
    assert as_one_link(made).direction("up").jitter.ms == 5
