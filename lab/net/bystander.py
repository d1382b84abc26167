"""A bystander: small datagrams at regular times through the queues that a transfer uses, and back (ADR 0035)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.hosts.host import Network, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault
from lab.model.units import Duration
from lab.net.bystander_script import RECORD

INTERVAL = Duration.parse("20 ms")
PACKET_BYTES = 64
_PORT = 4747
_RECORD = struct.Struct(RECORD)
_READY = b"ready\n"
# Their Pythons are up by then.
_START_S = 0.5
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Echo:
    """One datagram: when it was sent (CLOCK_MONOTONIC of the client's host) and its round trip, None if it was lost."""

    sent_ns: int
    rtt_ms: float | None


class Bystander:
    """One that is running. `echoes` is empty until it has been stopped."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.echoes: list[Echo] = []

    def between(self, from_ns: int, to_ns: int) -> list[Echo]:
        """The echoes of the datagrams that were sent in that time."""
        return [echo for echo in self.echoes if from_ns <= echo.sent_ns < to_ns]

    def _stop(self) -> None:
        done = self._process.stop(grace_s=_PATIENCE_S)
        if not done.stdout.startswith(_READY):
            raise LabFault(f"the bystander said nothing: {done.error_text}")
        self.echoes = [Echo(at, took / 1e6 if took else None) for at, took in _RECORD.iter_unpack(done.stdout[len(_READY) :])]


@contextmanager
def bystander(network: Network, *, interval: Duration = INTERVAL) -> Iterator[Bystander]:
    """Someone who shares the link while the block runs. Raises LabFault where nothing could be measured."""
    client, server = network.client, network.server
    echo = server.start(script_command(server, Path(__file__).with_name("echo_script.py"), f"{_PORT}"))
    try:
        network.clock.sleep(_START_S)
        words = (server.address, f"{_PORT}", f"{interval.ns}", f"{PACKET_BYTES}")
        running = Bystander(client.start(script_command(client, Path(__file__).with_name("bystander_script.py"), *words)))
        try:
            network.clock.sleep(_START_S)
            yield running
        except BaseException:
            running._process.stop(0.0)
            raise
        running._stop()
    finally:
        echo.stop(0.0)
