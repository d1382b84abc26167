"""Tests here bring real lab networks up. They need what `make setup` builds, and say so when it is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.assets.uml import find as find_uml
from lab.hosts.host import Network
from lab.hosts.namespaces.network import NamespaceNetwork, open_network
from lab.model.results import Calibration
from lab.model.topology import Link
from lab.net.pins import pin
from lab.run import lab as lab_module
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


@pytest.fixture(scope="module")
def good_looks() -> dict[str, Calibration]:
    """The good calibrations of this module's links."""
    return {}


@pytest.fixture
def calibrated_once(good_looks: dict[str, Calibration], monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of clients: their link is calibrated for the first of them and not again by each.

    The module's session looks at the link again after its last test, without this.
    """
    calibrate = lab_module.calibrate

    def look(network: Network, link: Link, *args: object, **more: object) -> Calibration:
        key = link.model_dump_json()
        found = good_looks.get(key) or calibrate(network, link, *args, **more)  # type: ignore[arg-type]
        if found.ok:
            good_looks[key] = found
        return found

    monkeypatch.setattr(lab_module, "calibrate", look)
