"""Tests here bring real lab networks up. They need what `make setup` builds, and say so when it is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.assets.uml import find as find_uml
from lab.hosts.namespaces.network import NamespaceNetwork, open_network
from lab.net.pins import pin
from lab.servers.iperf3 import start as start_iperf3
from lab.servers.process import ServerProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/network" in str(item.path):
            item.add_marker(pytest.mark.network)


@pytest.fixture(scope="session", autouse=True)
def _uml_is_built() -> None:
    if find_uml() is None:
        pytest.fail("the User-Mode Linux router has not been built: run `make setup`")


@pytest.fixture
def network() -> Iterator[NamespaceNetwork]:
    """A fresh network for tests that sabotage it."""
    made = open_network()
    pin(made, "cubic")
    yield made
    made.close()


@pytest.fixture
def iperf3(network: NamespaceNetwork) -> ServerProcess:
    """Kept by the fixture, because a command without references is killed."""
    return start_iperf3(network.server)
