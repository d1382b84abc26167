"""Generated wires, as the torment judges a hundred thousand of them, and what the lab reads from them."""

from __future__ import annotations

import random
from itertools import product

import pytest

from lab.net.ports import PortSampler
from tests.support.liars import DIRECTIONS, PROTOCOLS, limited
from tests.torment.planted import Truth
from tests.torment.planted_wires import CLIENT, SPOIL, Planted, Score, upper_bound
from tests.torment.wires import WireNetwork

FACTORS = (0.9, 0.97, 1.0, 1.04, 1.12)


@pytest.mark.parametrize(("protocol", "direction"), [*product(PROTOCOLS, DIRECTIONS)])
@pytest.mark.parametrize("spoil", [0.0, SPOIL])
def test_the_lab_reads_the_rate_of_a_wire(protocol: str, direction: str, spoil: float) -> None:
    cell = limited(CLIENT, protocol, direction, "300 kB", "2 MB/s")
    network = WireNetwork(random.Random(19))
    with PortSampler(network.network) as ports:
        samples = Planted(0, cell, Truth(1.0, 0.0), FACTORS, spoil).measure(network, ports)
    assert [sample.problem for sample in samples] == [""] * len(FACTORS)
    assert [sample.body_clock for sample in samples] == ["wire"] * len(FACTORS)
    assert [sample.deviation for sample in samples] == pytest.approx([factor - 1 for factor in FACTORS], abs=5e-4)


def test_a_verdict_that_only_the_reading_made_false_is_counted_apart() -> None:
    """The judge would be right on the planted rates; what the lab has measured is 8 % less."""
    cell = limited(CLIENT, "http1", "put", "300 kB", "2 MB/s")
    network, score = WireNetwork(random.Random(19)), Score(seed=1)
    with PortSampler(network.network) as ports:
        planted = Planted(0, cell, Truth(1.0, 0.0), FACTORS[2:3] * 5, 0.0)
        samples = planted.measure(network, ports)
    score.count(planted, samples)
    assert score.beyond == []
    score.count(planted, [sample.model_copy(update={"deviation": -0.08}) for sample in samples])
    assert len(score.beyond) == 1
    assert (score.misread, score.unsaid) == (5, 5)


def test_no_error_in_a_hundred_thousand_cells_bounds_its_probability() -> None:
    assert upper_bound(0, 100_000) == pytest.approx(3.0e-5, rel=0.01)
    assert upper_bound(1, 100_000) == pytest.approx(4.74e-5, rel=0.01)
