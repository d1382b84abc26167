"""Networks in virtual time for flows without a client: a link, buffers, and what each flow got."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.standards.script import COLUMNS
from lab.assets.tools import require
from lab.hosts.scripts import script_command
from lab.hosts.virtual.machine import Patience
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.link.theory import frame_bytes, payload_per_segment
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.units import BitRate, Duration
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape

SCRIPT = Path(__file__).with_name("script.py")
PATIENCE = Patience(cpu_s=1800.0, real_s=7200.0)
FIRST_PORT = 5201
_ROOM_BYTES = 200_000_000
"""What the machine's memory must hold: full queues and buffers of 64 MiB."""
# tcp(7), as Linux sets them on a machine with some gigabytes.
LINUX_READ, LINUX_WRITE = "4096 131072 6291456", "4096 16384 4194304"
WIDE = "4096 131072 67108864"


@dataclass(frozen=True)
class Buffers:
    """tcp_rmem of the receiver and tcp_wmem of the sender."""

    read: str = WIDE
    write: str = WIDE


@dataclass(frozen=True)
class FlowSeen:
    """What a flow wrote, as iperf counts it, and its TCP_INFO at the times of `rows`."""

    written_bytes: int
    elapsed_s: float
    rows: tuple[tuple[int, ...], ...]

    @property
    def written_bit_s(self) -> float:
        """What an iperf that sends prints: bytes taken by the socket, over the time until the last was taken."""
        return self.written_bytes * 8 / self.elapsed_s

    def acked_bit_s(self, from_s: float, to_s: float) -> float:
        """Payload acknowledged between the looks nearest to these seconds after the first one."""
        at, acked = COLUMNS.index("t_ns"), COLUMNS.index("bytes_acked")
        begun = self.rows[0][at]
        first, last = (min(self.rows, key=lambda row: abs((row[at] - begun) / 1e9 - when)) for when in (from_s, to_s))
        if last[at] <= first[at]:
            raise LabFault(f"no two looks at the flow between {from_s:g} and {to_s:g} s")
        return (last[acked] - first[acked]) * 8 / ((last[at] - first[at]) / 1e9)

    def kept(self) -> dict[str, object]:
        return {"written_bytes": self.written_bytes, "elapsed_s": self.elapsed_s, "columns": COLUMNS, "rows": self.rows}


@contextmanager
def bare_path(
    seed: int, *, algorithm: str = "cubic", buffers: Buffers = Buffers(), ecn: bool = False
) -> Iterator[VirtualNetwork]:
    """Client, router and server, pinned and not shaped."""
    network = open_network(seed=seed, payload_bytes=_ROOM_BYTES, patience=PATIENCE)
    try:
        pin(network, algorithm)
        settings = {"tcp_rmem": buffers.read, "tcp_wmem": buffers.write, "tcp_ecn": "1" if ecn else "2"}
        for host in (network.client, network.server):
            lines = [f"echo {value} >/proc/sys/net/ipv4/{name}" for name, value in settings.items()]
            host.run(["/bin/sh", "-ec", "\n".join(lines)], root=True)
        assert_no_bypass(network)
        yield network
    finally:
        network.close()


@contextmanager
def linked_path(
    link: Mapping[str, object], seed: int, *, buffers: Buffers = Buffers(), ecn: bool = False
) -> Iterator[VirtualNetwork]:
    """A network with that link, as a topology writes it."""
    with bare_path(seed, buffers=buffers, ecn=ecn) as network:
        shape(network, Link.model_validate(link))
        yield network


@dataclass(frozen=True)
class Shared:
    """Flows with round trips of their own in one first-in-first-out queue towards the server."""

    rate: BitRate
    queue_packets: int
    rtts: tuple[Duration, ...]


def share(network: VirtualNetwork, shared: Shared) -> None:
    """Shape the way to the server, and delay what comes back by the flow's port.

    All of the round trip is on the way back, so that the queue is the first thing that data meets. A rule of nft says which
    delay a packet gets: a qdisc takes the class from the priority.
    """
    up, down = network.router_ports.server, network.router_ports.client
    rate, bands = f"{shared.rate.bit_s}bit", len(shared.rtts) + 1
    rest = (str(bands - 1),) * 16
    no_burst = ("burst", "1", "cburst", "1", "quantum", str(frame_bytes(1500)))
    commands: list[tuple[str, ...]] = [
        ("tc", "qdisc", "add", "dev", up, "root", "handle", "1:", "htb", "default", "1"),
        ("tc", "class", "add", "dev", up, "parent", "1:", "classid", "1:1", "htb", "rate", rate, "ceil", rate, *no_burst),
        ("tc", "qdisc", "add", "dev", up, "parent", "1:1", "handle", "2:", "pfifo", "limit", str(shared.queue_packets)),
        ("tc", "qdisc", "add", "dev", down, "root", "handle", "1:", "prio", "bands", str(bands), "priomap", *rest),
    ]
    rules = ["add table inet ways", "add chain inet ways delays { type filter hook forward priority 0; }"]
    for band, rtt in enumerate(shared.rtts, 1):
        delay = f"{rtt.ns // 1000}us"
        commands.append(("tc", "qdisc", "add", "dev", down, "parent", f"1:{band}", "netem", "limit", "10000", "delay", delay))
        port = FIRST_PORT + band - 1
        rules.append(f'add rule inet ways delays oifname "{down}" tcp sport {port} counter meta priority set 1:{band}')
    for command in commands:
        network.router.run(command, root=True)
    network.router.run([str(require("nft")), "-f", "-"], stdin=("\n".join(rules) + "\n").encode(), root=True)


def run_flows(
    network: VirtualNetwork, *, count: int, seconds: float, interval_s: float, algorithm: str = "cubic"
) -> list[FlowSeen]:
    """That many flows from client to server, begun together, each to a port of its own. Raises LabFault."""
    ports = [FIRST_PORT + index for index in range(count)]
    with ExitStack() as stack:
        for port in ports:
            server = network.server.start(script_command(network.server, SCRIPT, "discard", str(port), "1"))
            stack.callback(server.stop)
        network.clock.sleep(1.0)
        words = [network.server.address, algorithm, f"{seconds}", f"{interval_s}", *map(str, ports)]
        command = script_command(network.client, SCRIPT, "flows", *words)
        done = network.client.run(command, timeout_s=seconds + 120, check=False)
        if done.returncode != 0 or done.timed_out:
            raise LabFault(f"the senders failed: {done.error_text}")
    return parse_flows(done.text)


def parse_flows(text: str) -> list[FlowSeen]:
    return [FlowSeen(flow["written"], flow["elapsed_s"], tuple(tuple(row) for row in flow["rows"])) for flow in json.loads(text)]


def payload_bit_s(rate: BitRate) -> float:
    """The TCP payload of a rate on the wire, in full segments."""
    return rate.bit_s * payload_per_segment(1500) / frame_bytes(1500)


def retransmitted(flows: Sequence[FlowSeen]) -> int:
    return sum(flow.rows[-1][COLUMNS.index("again")] for flow in flows)
