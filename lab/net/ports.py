"""The router's ports, read every 10 ms while something runs: starts `sampler`, reads its output, stops it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.datagrams import DatagramTap
from lab.net.printed import PrintedLines
from lab.net.tap import Tap

_SCRIPT = Path(__file__).with_name("sampler.py")
INTERVAL_MS = 10
_COLUMNS = 9


@dataclass(frozen=True)
class PortCounters:
    """Counts since the interface was made; bytes include the Ethernet header (14), not the FCS."""

    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int


@dataclass(frozen=True)
class PortReading:
    """Both ports at one instant; `reading["eth0"]` is a port's counters. `t_ns` is CLOCK_MONOTONIC of the wire host."""

    t_ns: int
    counters: Mapping[str, PortCounters]

    def __getitem__(self, port: str) -> PortCounters:
        return self.counters[port]


@dataclass(frozen=True)
class Grid:
    """When readings were due: base_ns + n * interval_ns."""

    base_ns: int
    interval_ns: int


class PortSampler:
    """Use as a context manager. It may outlive many samples: `rows` can be cut by the instants of a `Completed`."""

    def __init__(self, network: Network, *, interval_ms: float = INTERVAL_MS) -> None:
        self._network = network
        self._interval_ms = interval_ms
        self._printed = PrintedLines("the port counters", network.clock)
        self._rows: list[PortReading] = []
        self._taps: dict[str, Tap] = {}
        self._datagrams: dict[str, DatagramTap] = {}
        self.grid: Grid | None = None

    def __enter__(self) -> Self:
        ports = self._network.wire_ports
        try:
            self._printed.start(self._network.wire, _SCRIPT, ports.client, ports.server, f"{self._interval_ms}")
            self.wait_until(0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        while self._taps:
            self._taps.popitem()[1].__exit__(kind, value, trace)
        while self._datagrams:
            self._datagrams.popitem()[1].__exit__(kind, value, trace)
        self._printed.close()

    def tap(self, host: Host) -> Tap | None:
        """The tap on a host's port, started at its first use and stopped with this sampler; None for a host without one."""
        if not host.tap_port:
            return None
        if host.name not in self._taps:
            self._taps[host.name] = Tap(self._network, host).__enter__()
        return self._taps[host.name]

    def datagrams(self, host: Host, port: int) -> DatagramTap | None:
        """The counterpart of `tap` for a server's UDP port."""
        if not host.tap_port:
            return None
        if host.name not in self._datagrams:
            self._datagrams[host.name] = DatagramTap(self._network, host, port).__enter__()
        return self._datagrams[host.name]

    def rows(self) -> list[PortReading]:
        """Every reading so far, oldest first."""
        self._read()
        return list(self._rows)

    def between(self, start_ns: int, end_ns: int) -> list[PortReading]:
        """Readings from the last before `start_ns` to the first at or after `end_ns`, which is waited for."""
        self.wait_until(end_ns)
        return cut(self._rows, start_ns, end_ns)

    def wait_until(self, t_ns: int) -> None:
        """Until a reading at or after `t_ns` is there. Raises LabFault when the sampler has ended or is too slow."""
        self._printed.wait_until(lambda: self._read() >= t_ns, t_ns)

    def _read(self) -> int:
        """The time of the last reading; -1 before the first."""
        lines = self._printed.new()
        if lines and self.grid is None:
            self.grid = parse_header(lines.pop(0))
        client, server = self._network.wire_ports.client, self._network.wire_ports.server
        self._rows += [parse_row(line, client, server) for line in lines]
        return self._rows[-1].t_ns if self._rows else -1


def cut(rows: list[PortReading], start_ns: int, end_ns: int) -> list[PortReading]:
    """From the last reading at or before `start_ns` to the first at or after `end_ns`, where they exist."""
    first = next((index for index in range(len(rows) - 1, -1, -1) if rows[index].t_ns <= start_ns), 0)
    last = next((index for index in range(first, len(rows)) if rows[index].t_ns >= end_ns), len(rows) - 1)
    return rows[first : last + 1]


def parse_header(line: bytes) -> Grid:
    words = line.split()
    if len(words) != 6 or words[:2] != [b"roughwater-ports", b"1"]:
        raise LabFault(f"the port counters begin with {line[:80]!r}")
    return Grid(base_ns=int(words[5]), interval_ns=int(words[4]))


def parse_row(line: bytes, client: str, server: str) -> PortReading:
    words = line.split()
    if len(words) != _COLUMNS:
        raise LabFault(f"the port counters cannot be read: {line[:80]!r}")
    numbers = [int(word) for word in words]
    return PortReading(numbers[0], {client: PortCounters(*numbers[1:5]), server: PortCounters(*numbers[5:9])})
