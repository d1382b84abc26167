"""A Linux machine over SSH is a host as any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.host import Host
from lab.hosts.ssh.connection import Connection
from lab.hosts.ssh.linux import open_host
from tests.support.host_contract import HostContract
from tests.vagrant.machine import Machine


class TestLinuxHost(HostContract):
    root_is_root = False

    @pytest.fixture
    def contracted(self, machine: Machine) -> Iterator[Host]:
        made = open_host(Connection(machine.target()), name="client", address="127.0.0.1")
        yield made
        made.close()
