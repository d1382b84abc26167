"""A container is a host as any other."""

from __future__ import annotations

import pytest

from lab.hosts.compose.network import ComposeNetwork
from lab.hosts.host import Host
from tests.support.host_contract import HostContract


class TestContainerHost(HostContract):
    # `root` has the capabilities, and keeps the user id.
    root_is_root = False

    @pytest.fixture(params=["client", "server"])
    def contracted(self, shared: ComposeNetwork, request: pytest.FixtureRequest) -> Host:
        host: Host = getattr(shared, request.param)
        return host
