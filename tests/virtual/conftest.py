"""A machine that tests share, where they leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.virtual.network import VirtualNetwork, open_network


@pytest.fixture(scope="module")
def network() -> Iterator[VirtualNetwork]:
    made = open_network(seed=1)
    yield made
    made.close()


@pytest.fixture
def own() -> Iterator[VirtualNetwork]:
    """A machine of the test's own, to be broken."""
    made = open_network(seed=2)
    yield made
    made.close()
