"""The client, the server and the router of a machine in virtual time are hosts as any other."""

from __future__ import annotations

import pytest

from lab.hosts.host import Host
from lab.hosts.virtual.network import VirtualNetwork
from tests.support.host_contract import HostContract


class TestVirtualHost(HostContract):
    @pytest.fixture(params=["client", "server"])
    def contracted(self, network: VirtualNetwork, request: pytest.FixtureRequest) -> Host:
        host: Host = getattr(network, request.param)
        return host
