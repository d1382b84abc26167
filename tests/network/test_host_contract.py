"""Network namespaces, and this process's own machine, which stands in for hosts in tests, keep one contract."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts.host import Host
from lab.hosts.namespaces.network import NamespaceNetwork, open_network
from tests.support.host_contract import HostContract
from tests.support.local_host import LocalHost


@pytest.fixture(scope="module")
def shared() -> Iterator[NamespaceNetwork]:
    made = open_network()
    yield made
    made.close()


class TestNamespaceHost(HostContract):
    @pytest.fixture(params=["client", "server"])
    def contracted(self, shared: NamespaceNetwork, request: pytest.FixtureRequest) -> Host:
        host: Host = getattr(shared, request.param)
        return host


class TestLocalHost(HostContract):
    root_is_root = False

    @pytest.fixture
    def contracted(self, tmp_path: Path) -> Iterator[Host]:
        made = LocalHost("local", tmp_path / "work")
        yield made
        made.close()

    def test_it_is_the_callers_user(self, contracted: Host) -> None:
        assert contracted.run(["id", "-u"]).text == f"{os.geteuid()}\n"
