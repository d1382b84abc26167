"""What a link that nothing shapes is in virtual time."""

from __future__ import annotations

import pytest

from lab.link.plan import plan
from lab.spec.load import load_topology
from lab.spec.models import Cell, ClientSpec, Expectation, Transfer
from lab.spec.units import ByteRate, Size
from lab.spec.wire import WIRE, on_a_wire, with_wire


def test_a_link_that_nothing_shapes_is_a_wire() -> None:
    cell = Cell(
        client=ClientSpec(name="curl"),
        topology=load_topology("link-local"),
        transfer=Transfer(protocol="http1", direction="get", size=Size.parse("1 MB"), limit=ByteRate.parse("1 MB/s")),
        expectation=Expectation(),
    )
    found = on_a_wire(cell)
    assert found.id == cell.id
    assert str(WIRE) in found.topology.description
    for way in ("up", "down"):
        held = plan(found.topology.link.direction(way), found.topology.link.rtt, supports_seed=True)
        assert held
        assert (held.rate, held.delay.ns, held.limit_packets) == (WIRE, 0, 1000)
    assert on_a_wire(found) == found
    assert cell.topology.link.rate is None


@pytest.mark.parametrize("name", ["dsl-20", "dsl-50"])
def test_a_link_that_is_shaped_stays_as_it_is(name: str) -> None:
    assert with_wire(load_topology(name)) == load_topology(name)
