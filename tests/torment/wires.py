"""A network without a kernel: its hosts' output is that of the lab's own scripts over a generated wire (`wire`)."""

from __future__ import annotations

import json
import os
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, cast

from lab.hosts.host import CollectedFile, Completed, Host, Network, Ports, RouterFacts
from lab.model.clock import Clock as ClockName
from lab.model.endpoints import Endpoints
from lab.model.transfer import Transfer
from lab.model.units import Duration
from lab.net import sampler, tap_script
from lab.net.ports import INTERVAL_MS
from lab.servers.bundle import Servers
from lab.servers.payload import Payload, payload_name
from tests.torment.wire import RTT_NS, WALL_CLOCK_NS, Ring, Wire, make

PORTS = Ports(client="vc", server="vs")
# The kernel hands over a block of its ring after this time (tap_script._RETIRE_MS).
_BLOCK_NS = 5_000_000
_INTERVAL_NS = INTERVAL_MS * 1_000_000
_TABLE = b"  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0201020A:A000 0202020A:0050 01 00000000:%08X 0\n"
_QUEUE_AT = _TABLE.index(b":%08X") + 1
_DEVICES = b"Inter-|   Receive |  Transmit\n vc: %d %d 0 0 0 0 0 0 %d %d 0 0 0 0 0 0\n vs: %d %d 0 0 0 0 0 0 %d %d 0 0 0 0 0 0\n"
_QDISCS = json.dumps([{"kind": "netem", "handle": "1:", "dev": port, "root": True, "drops": 0} for port in ("vc", "vs")])
_PROTOCOL = {"http1": "http/1.1", "h2": "h2", "sftp": "sftp"}
SHA256 = "0" * 64
_ANSWER = f"/planted\n{SHA256}\nferry planted\n"


class _Clock:
    kind: ClockName = "virtual"

    def __init__(self) -> None:
        self.now_ns = 10**9

    def monotonic_ns(self) -> int:
        return self.now_ns

    def now(self) -> datetime:
        return datetime.fromtimestamp(WALL_CLOCK_NS / 1e9, UTC)

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class _Script:
    """One of the lab's scripts that runs on a host; it prints when it is asked for its output."""

    argv: tuple[str, ...] = ()

    def __init__(self, network: WireNetwork, output: Path) -> None:
        self._network = network
        self._output = os.open(output, os.O_WRONLY)
        self._due = network.clock.now_ns

    def running(self) -> bool:
        return True

    def sync(self) -> None:
        text = b"".join(self._lines(self._network.clock.now_ns))
        if text:
            os.write(self._output, text)

    def stop(self, grace_s: float = 2.0) -> Completed:
        del grace_s
        os.close(self._output)
        return _done((), b"", 0, 0)

    wait = stop

    def _lines(self, now: int) -> list[bytes]:
        raise NotImplementedError


class _Sampler(_Script):
    def __init__(self, network: WireNetwork, output: Path) -> None:
        super().__init__(network, output)
        self._before = [0] * 4
        self._wire: Wire | None = None
        self._way = 0
        os.write(self._output, b"roughwater-ports 1 vc vs %d %d\n" % (_INTERVAL_NS, self._due))

    def _lines(self, now: int) -> list[bytes]:
        lines = []
        while self._due <= now:
            there, here = self._network.counters(self._due)
            table = _DEVICES % (*here, *there, *there, *here)
            lines.append(sampler.reading(self._due, table, [b"vc", b"vs"]))
            self._due += _INTERVAL_NS
        return lines


class _Tap(_Script):
    """On one host; packets pass it as long as that host receives."""

    def __init__(self, network: WireNetwork, output: Path, host: str) -> None:
        super().__init__(network, output)
        self._host = host
        self._ring = Ring()
        self._table = os.memfd_create("tcp")
        os.write(self._table, _TABLE % 0)
        self._looks = tap_script.Looks(tap_script.Tap(loopback=False), self._ring.memory, [self._table], self._due)
        self._wire: Wire | None = None
        self._passed = 0
        os.write(self._output, b"roughwater-tap 1 eth0\n")

    def _lines(self, now: int) -> list[bytes]:
        lines, wire = [], self._network.wire_of(self._host)
        if wire is not self._wire:
            self._wire, self._passed = wire, 0
        while (due := self._looks.due) <= now:
            if wire is not None:
                closed = bisect_right(wire.times, due // _BLOCK_NS * _BLOCK_NS)
                if closed > self._passed:
                    self._ring.pass_on(wire.packets[self._passed : closed])
                    self._passed = closed
                os.pwrite(self._table, b"%08X" % wire.unread(due), _QUEUE_AT)
            lines.append(self._looks.at(due, WALL_CLOCK_NS))
        return lines

    def stop(self, grace_s: float = 2.0) -> Completed:
        os.close(self._table)
        return super().stop(grace_s)


class _Host:
    """A host that runs the lab's two scripts and the client, and knows every other answer."""

    platform = "linux"
    reports_peak_memory = True
    tap_port = capture_port = "eth0"
    reads_host_files = shares_files = True

    def __init__(self, network: WireNetwork, name: str) -> None:
        self._network, self.name = network, name
        self.workdir = PurePosixPath("/planted", name)
        self.under_test = self

    def program(self, name: str) -> str:
        return name

    def start(self, argv: Sequence[str], *, stdout: Path, **_: object) -> _Script:
        return _Sampler(self._network, stdout) if PORTS.client in argv else _Tap(self._network, stdout, self.name)

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        if argv[0] == "tc":
            return _done(argv, _QDISCS.encode(), 0, 0)
        return self._network.transfer(argv)

    def identify(self, *_: object, **__: object) -> Completed:
        return _done((), _ANSWER.encode(), 0, 0)

    def copy(self, *_: object, **__: object) -> None:
        pass

    end_processes = copy

    def retransmits(self) -> int:
        return 0

    def collect(self, *_: object) -> CollectedFile:
        return CollectedFile(self._network.transferred, SHA256)


class _Servers(Servers):
    def payload(self, host: Host, size: int) -> Payload:
        return Payload(payload_name(size), size, SHA256, host.workdir)


class WireNetwork:
    """A `Network` as far as a sample needs one. `play` says what the next client does."""

    name = "planted"
    backend = "virtual"
    router_ports = wire_ports = PORTS
    router_facts = RouterFacts("kernel", "", "", supports_seed=True)
    own_delay = Duration(0)
    backend_facts: Mapping[str, str] = {}
    virtual_facts: Mapping[str, Any] | None = None

    def __init__(self, chance: random.Random) -> None:
        self.clock = _Clock()
        self.chance = chance
        self.client, self.server, self.router = (_Host(self, name) for name in ("client", "server", "router"))
        self.wire = self.prober = self.router
        self.transferred = 0
        self._next: tuple[Transfer, float, float] | None = None
        self._wire: Wire | None = None
        self._get = True
        self._before = (0, 0), (0, 0)

    @property
    def network(self) -> Network:
        return cast(Network, self)

    def servers(self) -> Servers:
        ends = Endpoints("server", "/planted/server", "/planted/client", "ca", "known", "key")
        none = cast(Any, None)
        return _Servers(self.network, none, none, none, b"", ends)

    def random_bytes(self, size: int) -> bytes:
        return self.chance.randbytes(size)

    def play(self, transfer: Transfer, byte_s: float, spoil: float) -> None:
        self._next = transfer, byte_s, spoil
        self.clock.sleep(self.chance.uniform(0.0, 0.1))

    def wire_of(self, receiver: str) -> Wire | None:
        return self._wire if self._wire and receiver == ("client" if self._get else "server") else None

    def counters(self, now: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Bytes and packets so far towards the client, and towards the server."""
        down, up = self._before
        if self._wire is None:
            return down, up
        counted = self._wire.counters(now)
        toward, back = counted[:2], counted[2:]
        there, here = (toward, back) if self._get else (back, toward)
        return (down[0] + there[0], down[1] + there[1]), (up[0] + here[0], up[1] + here[1])

    def transfer(self, argv: Sequence[str]) -> Completed:
        """The client's run, and its honest report."""
        assert self._next is not None
        transfer, byte_s, spoil = self._next
        begun = self.clock.now_ns
        self._before = self.counters(begun)
        self.transferred, self._get = transfer.size.bytes, transfer.direction == "get"
        self._wire = wire = make(begun, transfer.protocol, transfer.direction, self.transferred, byte_s, self.chance, spoil=spoil)
        self.clock.now_ns = wire.ended_ns
        return _done(argv, _report(transfer, wire, begun), begun, wire.ended_ns)


def _report(transfer: Transfer, wire: Wire, begun: int) -> bytes:
    """ferry's, of what it did."""
    total_s = (wire.ended_ns - begun) / 1e9
    phases = {
        "connect_s": RTT_NS / 1e9,
        "body_start_s": max(0.0, total_s - wire.body_s),
        "body_s": wire.body_s,
        "total_s": total_s,
    }
    file = {
        "phases": phases, "protocol": _PROTOCOL[transfer.protocol], "status": None if transfer.protocol == "sftp" else 200,
        "offset": 0, "bytes": transfer.size.bytes,
    }  # fmt: skip
    return json.dumps({
        "schema": "ferry-report-1", "version": "planted", "transfers": [file], "process": {"wall_s": total_s}
    }).encode()  # fmt: skip


def _done(argv: Sequence[str], text: bytes, started_ns: int, ended_ns: int) -> Completed:
    return Completed(tuple(argv), 0, text, b"", started_ns, ended_ns, 0.0, 0.0)


__all__ = ["PurePath", "WireNetwork"]
