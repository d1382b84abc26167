"""Topologies in virtual time."""

from __future__ import annotations

import pytest

from lab.link.plan import plan
from lab.model.cell import Cell
from lab.model.load import load_topology
from lab.model.topology import UNSHAPED_RATE, Topology
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import ByteRate, Size


def test_an_unshaped_link_gets_a_rate() -> None:
    cell = Cell(
        client=ClientSpec(name="curl"),
        topology=load_topology("link-local"),
        transfer=Transfer(protocol="http1", direction="get", size=Size.parse("1 MB"), limit=ByteRate.parse("1 MB/s")),
        expectation=Expectation(),
    )
    found = cell.in_virtual_time()
    assert found.id == cell.id
    assert str(UNSHAPED_RATE) in found.topology.description
    for way in ("up", "down"):
        held = plan(found.topology.link.direction(way), found.topology.link.rtt, supports_seed=True)
        assert held
        assert (held.rate, held.delay.ns, held.limit_packets) == (UNSHAPED_RATE, 0, 1000)
    assert found.in_virtual_time() == found
    assert cell.topology.link.rate is None


@pytest.mark.parametrize("name", ["dsl-20", "dsl-50", "same-host"])
def test_a_shaped_link_and_a_loopback_stay_as_they_are(name: str) -> None:
    assert load_topology(name).in_virtual_time() == load_topology(name)


def test_an_unshaped_link_keeps_its_own_queue() -> None:
    topology = Topology.model_validate({"name": "net", "description": "A test.", "link": {"queue": "10 packets"}})
    link = topology.in_virtual_time().link
    assert (link.rate, str(link.queue)) == (UNSHAPED_RATE, "10 packets")
