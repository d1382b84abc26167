"""A network of a test's own: client, server and router are this machine, in namespaces where the loopback is the test's alone.

Packets of other programs are not there, and what needs rights on a network has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lab.hosts.command_host import Command
from lab.hosts.local import LocalProcess
from tests.support.local_host import LocalHost, LocalNetwork
from tests.support.own_machine import OwnMachine


class OwnHost(LocalHost):
    """`machine` is where its commands run."""

    machine: OwnMachine

    @property
    def tap_port(self) -> str:
        return "lo"

    def _spawn(self, command: Command) -> LocalProcess:
        return super()._spawn(replace(command, argv=tuple(self.machine.command_with_rights(*command.argv))))


@contextmanager
def own_loopback(folder: Path) -> Iterator[LocalNetwork]:
    network = LocalNetwork(folder)
    with OwnMachine(folder / "tmp") as machine:
        for name in ("client", "server", "wire"):
            host = OwnHost(name, folder / name)
            host.machine = machine
            setattr(network, name, host)
        network.prober = network.client
        try:
            yield network
        finally:
            network.close()
