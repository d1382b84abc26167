"""A network whose traffic is arithmetic: iperf3, ping, tc and the port counters say what a link of given figures makes them say.

Nothing runs and no time passes but that which is slept, so a calibration of minutes takes none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any

from lab.hosts.host import Completed, Ports, RouterFacts
from lab.model.clock import Clock as ClockName
from lab.model.link import DirectionName
from lab.model.units import Duration

FRAME = 1514
_PORTS = Ports(client="wire-client", server="wire-server")
_WAYS: tuple[DirectionName, ...] = ("up", "down")


class SimulatedClock:
    """Passes by sleeping."""

    def __init__(self, kind: ClockName) -> None:
        self.kind: ClockName = kind
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.now_ns / 1000)

    def sleep(self, seconds: float) -> None:
        self.now_ns += max(0, round(seconds * 1e9))

    def next_start_ns(self, lead_s: float) -> int:
        return self.now_ns + round(lead_s * 1e9)


@dataclass
class Flow:
    """Full frames from `begin_ns` on."""

    way: DirectionName
    begin_ns: int
    bit_s: float
    end_ns: int | None = None

    def packets(self, at_ns: int) -> int:
        until_ns = at_ns if self.end_ns is None else min(at_ns, self.end_ns)
        return max(0, int((until_ns - self.begin_ns) * self.bit_s / 8e9 // FRAME))


@dataclass
class SimulatedLink:
    """What the link and the programs on it do. `tcp_bit_s` and `udp_bit_s` are what leaves the router, frames included."""

    tcp_bit_s: dict[str, float]
    udp_bit_s: dict[str, float] = field(default_factory=dict)
    rtt_ms: Sequence[float] = (20.0,)
    enters_bytes: int = FRAME
    """The size of frames that enter the router."""
    control: str = "cubic"
    refusals: list[str] = field(default_factory=list)
    """What iperf3 says instead of sending, one for each start."""
    busy_looks: int = 0
    """So many looks at the router still see something pass; a negative number: a queue that never empties."""
    twice: int = 0
    """Segments that arrive a second time, per second."""
    ends_after_s: float = 60.0
    unpinned: list[str] = field(default_factory=list)
    says: dict[str, Any] = field(default_factory=dict)
    """What iperf3 reports at its end, in place of its sums."""
    kind: ClockName = "real"
    router_kind: Any = "kernel"

    def __post_init__(self) -> None:
        self.clock = SimulatedClock(self.kind)
        self.flows: list[Flow] = []
        self.commands: list[tuple[str, ...]] = []
        self.looks = 0
        self.name = self.backend = "simulated"
        self.router_ports = self.wire_ports = _PORTS
        self.router_facts = RouterFacts(self.router_kind, "", "", supports_seed=True)
        self.own_delay = Duration(0)
        self.client = self.prober = SimulatedHost(self, "client", "10.77.1.2")
        self.server = SimulatedHost(self, "server", "10.77.2.2")
        self.router, self.wire = SimulatedHost(self, "router", ""), SimulatedHost(self, "wire", "")

    def passed(self, way: str, at_ns: int) -> int:
        """Packets in that direction."""
        return sum(flow.packets(at_ns) for flow in self.flows if flow.way == way)

    def counters(self, at_ns: int) -> list[int]:
        """rx_bytes rx_packets tx_bytes tx_packets of the client's port, then of the server's."""
        up, down = (self.passed(way, at_ns) for way in _WAYS)
        return [up * self.enters_bytes, up, down * FRAME, down, down * self.enters_bytes, down, up * FRAME, up]

    def qdiscs(self) -> bytes:
        self.looks += 1
        waiting = 9 if self.busy_looks < 0 else 0
        more = min(self.looks, max(0, self.busy_looks))
        up, down = (self.passed(way, self.clock.now_ns) for way in _WAYS)
        return json.dumps(
            [
                {"dev": port, "kind": "netem", "root": True, "bytes": passed * FRAME + more, "drops": passed // 100}
                | {"backlog": waiting, "qlen": waiting}
                for port, passed in ((_PORTS.server, up), (_PORTS.client, down))
            ]
        ).encode()


class StandIn:
    """A host without programs and folders of its own."""

    @property
    def workdir(self) -> PurePath:
        return PurePath("/work")

    def program(self, name: str) -> str:
        return name

    def place(self, program: str) -> str:
        return program


@dataclass
class SimulatedHost(StandIn):
    """Answers the commands of a calibration."""

    network: SimulatedLink
    name: str
    address: str
    tap_port: str = ""

    def unpinned(self, _: str) -> list[str]:
        return self.network.unpinned

    def pin(self, *_: object) -> None: ...

    def retransmits(self) -> int:
        return self.network.passed("up", self.network.clock.now_ns) // 50

    def run(self, argv: Sequence[str], **_: object) -> Completed:
        network, begun_ns = self.network, self.network.clock.now_ns
        network.commands.append(tuple(argv))
        text = b""
        if argv[0] == "tc" and argv[-1] == "show":
            text = network.qdiscs()
        elif argv[0] == "cat":
            twice = network.twice * network.clock.now_ns // 10**9
            text = b"Tcp: RetransSegs\nTcp: 0\n"
            if twice:
                text += f"TcpExt: TCPDSACKOldSent TCPDSACKOfoSent\nTcpExt: {twice - twice // 3} {twice // 3}\n".encode()
        elif argv[0] == "iperf3":
            text = Iperf3(network, argv).to_its_end()
        elif "ping" in argv:
            probes = int(argv[-2])
            times = [network.rtt_ms[number % len(network.rtt_ms)] for number in range(probes)]
            text = "".join(f"rtt min/avg/max/mdev = {each:.3f}/0/0/0 ms\n" for each in times).encode()
        return Completed(tuple(argv), 0, text, b"", begun_ns, network.clock.now_ns, 0.0, 0.0)

    def start(self, argv: Sequence[str], *, stdout: Path | None = None, **_: object) -> Iperf3 | Sampler:
        self.network.commands.append(tuple(argv))
        if argv[0] == "iperf3":
            return Iperf3(self.network, argv)
        assert stdout is not None
        return Sampler(self.network, float(argv[-1]), stdout)


class Sampler:
    """Writes the counters of the time that has passed, at each instant of its grid."""

    def __init__(self, network: SimulatedLink, interval_ms: float, output: Path) -> None:
        self.network, self.output = network, output
        self.step_ns = round(interval_ms * 1e6)
        self.due_ns = base_ns = network.clock.now_ns
        output.write_bytes(f"roughwater-ports 1 {_PORTS.client} {_PORTS.server} {self.step_ns} {base_ns}\n".encode())

    def sync(self) -> None:
        rows = []
        while self.due_ns <= self.network.clock.now_ns:
            numbers = " ".join(map(str, self.network.counters(self.due_ns)))
            rows.append(f"{self.due_ns} {numbers}\n".encode())
            self.due_ns += self.step_ns
        with self.output.open("ab") as file:
            file.writelines(rows)

    def running(self) -> bool:
        return True

    def stop(self, grace_s: float = 2.0) -> None:
        del grace_s


class Iperf3:
    """Its connections are open, and content flows, 0.1 s after its start."""

    def __init__(self, network: SimulatedLink, argv: Sequence[str]) -> None:
        self.network, self.argv = network, tuple(argv)
        self.error = network.refusals.pop(0) if network.refusals else ""
        self.begun_ns = network.clock.now_ns
        self.udp = "-u" in argv
        way: DirectionName = "down" if "-R" in argv else "up"
        rates = network.udp_bit_s if self.udp else network.tcp_bit_s
        self.flow = Flow(way, self.begun_ns + 100_000_000, rates.get(way, 0.0))
        if not self.error:
            self.flow.end_ns = self.begun_ns + round(network.ends_after_s * 1e9)
            network.flows.append(self.flow)

    def running(self) -> bool:
        assert self.flow.end_ns or self.error
        return not self.error and self.network.clock.now_ns < (self.flow.end_ns or 0)

    def stop(self, grace_s: float = 2.0) -> Completed:
        del grace_s
        now_ns = self.network.clock.now_ns
        self.flow.end_ns = min(now_ns, self.flow.end_ns or now_ns)
        return Completed(self.argv, 0, self.report(), b"", self.begun_ns, now_ns, 0.0, 0.0)

    def report(self) -> bytes:
        if self.network.says:
            return json.dumps({"end": self.network.says}).encode()
        if self.error:
            return json.dumps({"error": self.error}).encode()
        total = {"bits_per_second": self.flow.bit_s * 0.95, "seconds": 1.5}
        end = {"sum_received": total} | ({} if self.udp else {"sender_tcp_congestion": self.network.control})
        return json.dumps({"end": end}).encode()

    def to_its_end(self) -> bytes:
        """A test of a fixed number of bytes."""
        count = int(self.argv[self.argv.index("-n") + 1])
        self.network.clock.sleep(0.1 + count * 8 / self.flow.bit_s)
        self.flow.end_ns = self.network.clock.now_ns
        self.network.clock.sleep(0.05)
        return self.report()
