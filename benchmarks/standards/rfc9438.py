"""Linux's TCP in virtual time against the standard: the average windows of RFC 9438, section 5.1, tables 1 and 2.

Each cell is one flow over a link that limits nothing (10 Gbit/s, a queue it never fills). The router drops exactly every
1/p-th data packet, retransmissions included: the loss model of the tables. The result comes from
the sender's TCP_INFO over complete epochs, from one planted loss to another: segments acknowledged per round-trip time.

  client: reno or cubic ── veth ── router: nft drops every N-th, netem delays both ways ── veth ── server: discards it

An early loss, at twice as many packets as the table's window, ends slow start near that window; otherwise it would go on to the
first N-th packet and a window a hundred times too large. Then `WARM` epochs are left out.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.common import keep, say
from benchmarks.standards.script import COLUMNS
from lab.assets.tools import require
from lab.hosts.scripts import script_command
from lab.hosts.virtual.machine import Patience
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import LabFault, UsageProblem
from lab.model.link import Link
from lab.model.units import Duration
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape

# RFC 9438, section 5.1, tables 1 and 2, columns "Reno" (there from RFC 3649: 1.2 / p^0.5) and "CUBIC (C=0.4)", in segments.
# CUBIC's entry is the larger of equation 6, 1.054 x RTT^0.75 / p^0.75, and of the Reno-friendly region, which is Reno's entry.
RFC_WINDOWS: dict[tuple[str, str], dict[int, int]] = {
    ("reno", "100ms"): {100: 12, 1_000: 38, 10_000: 120, 100_000: 379},
    ("cubic", "100ms"): {100: 12, 1_000: 38, 10_000: 187, 100_000: 1054},
    ("reno", "10ms"): {100: 12, 1_000: 38, 10_000: 120, 100_000: 379},
    ("cubic", "10ms"): {100: 12, 1_000: 38, 10_000: 120, 100_000: 379},
}
PERIODS = (1_000, 10_000, 100_000)
"""Packets from loss to loss. At 100 the window is 12 segments: what is measured there is rounding and recovery."""

BANDS: dict[str, float] = {"reno": 0.10, "cubic": 0.20}
"""How far the measured window may be from the table's, both ways. Written down before the first run of any of the twelve cells.

Reno: Linux counts acknowledged segments, so that delayed ACKs do not slow its growth (b = 1 in RFC 5681's words, as in the
table). What differs from 1.2 / p^0.5: the exact constant is 1.2247 (+2 %), and the round trip of recovery has no growth (-2 % at
1/1000). CUBIC, besides: Linux has fast convergence, the table's formula has none; equation 6 is a fluid's, Linux steps by
segments, aims one RTT ahead and reads a clock of HZ ticks; and near the border of the Reno-friendly region (RTT 100 ms, 1/1000:
33 by equation 6, 38 by Reno's) the larger of two curves at every moment is more than the larger of two averages.
"""

WARM = {100: 20, 1_000: 10, 10_000: 6, 100_000: 7}
EPOCHS = {100: 60, 1_000: 40, 10_000: 16, 100_000: 6}
LOOKS_PER_RTT = 4
RATE = "10 Gbit/s"
PORT = 5201
_SEGMENT_LEAST_BYTES = 1000
_BUFFERS = "4096 33554432 67108864"
_NEVER = 2**31 - 1
_LIMITED_SHARE = 0.01
_STEADY = 0.02
_PATIENCE = Patience(cpu_s=1800.0, real_s=7200.0)
_SCRIPT = Path(__file__).with_name("script.py")
_PARAMETERS = "/sys/module/tcp_cubic/parameters"


@dataclass(frozen=True)
class Cell:
    """One entry of the tables."""

    algorithm: str
    rtt: str
    period: int

    @classmethod
    def parse(cls, text: str) -> Cell:
        algorithm, _, rest = text.partition(":")
        rtt, _, period = rest.partition(":")
        if not period.isdecimal() or int(period) not in RFC_WINDOWS.get((algorithm, rtt), {}):
            raise UsageProblem(f"{text!r} is not an entry of the tables", remedy="write e.g. --cell cubic:100ms:10000")
        return cls(algorithm, rtt, int(period))

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.rtt}:{self.period}"

    @property
    def rfc(self) -> int:
        return RFC_WINDOWS[self.algorithm, self.rtt][self.period]

    @property
    def rtt_s(self) -> float:
        return Duration.parse(self.rtt).ns / 1e9


@dataclass(frozen=True)
class Found:
    """What came of a cell; windows in segments."""

    cell: Cell
    window: float
    cwnd: float
    """The mean of the sender's own figure over the same time."""
    low: int
    high: int
    halves: tuple[float, float]
    """The first and the second half of the epochs: what has not settled differs."""
    rtt_ms: float
    virtual_s: float
    real_s: float
    dropped: int
    again: int
    spurious: int
    problems: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.window / self.cell.rfc

    @property
    def word(self) -> str:
        if self.problems:
            return "INVALID"
        return "in the band" if abs(self.ratio - 1) <= BANDS[self.cell.algorithm] else "OUT OF THE BAND"


def all_cells() -> list[Cell]:
    return [Cell(algorithm, rtt, period) for (algorithm, rtt) in RFC_WINDOWS for period in PERIODS]


@dataclass(frozen=True)
class Asked:
    """What may differ to find a cause; as it is, it is Linux as everybody has it."""

    seed: int = 1
    early: float = 2.0
    quickack: bool = False
    settings: tuple[str, ...] = ()


def plant_losses(network: VirtualNetwork, cell: Cell, early: float) -> None:
    """Drop the early packet and then every N-th; small packets (the handshake) are not counted."""
    port = network.router_ports.server
    data = f'oifname "{port}" meta length > {_SEGMENT_LEAST_BYTES}'
    rules = [
        "add table inet loss",
        "add chain inet loss planted { type filter hook forward priority 0; }",
        f"add rule inet loss planted {data} numgen inc mod {_NEVER} == {round(early * cell.rfc)} counter drop",
        f"add rule inet loss planted {data} numgen inc mod {cell.period} == {cell.period - 1} counter drop",
    ]
    network.router.run([str(require("nft")), "-f", "-"], stdin=("\n".join(rules) + "\n").encode(), root=True)


def dropped(network: VirtualNetwork) -> int:
    """Packets that the two rules have dropped."""
    listed = json.loads(network.router.run([str(require("nft")), "-j", "list", "ruleset"], root=True).text)["nftables"]
    rules = [entry["rule"]["expr"] for entry in listed if "rule" in entry]
    return sum(int(part["counter"]["packets"]) for rule in rules for part in rule if "counter" in part)


def prepare(network: VirtualNetwork, cell: Cell, asked: Asked) -> None:
    pin(network, cell.algorithm)
    shape(network, Link.model_validate({"rate": RATE, "rtt": cell.rtt}))
    assert_no_bypass(network)
    # Only the planted losses may limit the flow. Buffers at both ends would have to grow first.
    for host, name in ((network.server, "tcp_rmem"), (network.client, "tcp_wmem")):
        host.run(["/bin/sh", "-ec", f"echo {_BUFFERS} >/proc/sys/net/ipv4/{name}"], root=True)
    if asked.quickack:
        network.server.run(["/bin/sh", "-ec", "ip route change $(ip route show default) quickack 1"], root=True)
    for setting in asked.settings:
        name, _, value = setting.partition("=")
        network.router.run(["/bin/sh", "-ec", f"echo {int(value)} >{_PARAMETERS}/{name}"], root=True)
    plant_losses(network, cell, asked.early)


def run_cell(cell: Cell, asked: Asked) -> tuple[Found, list[list[int]]]:
    """Boot a machine of its own, run the flow, look at its epochs."""
    begun = time.monotonic()
    # One loss is the early one. A window half of the table's takes twice as long; then something else is wrong.
    losses = 1 + WARM[cell.period] + EPOCHS[cell.period] + 1
    longest_s = 3 * losses * cell.period / cell.rfc * cell.rtt_s + 60
    network = open_network(seed=asked.seed, payload_bytes=200_000_000, patience=_PATIENCE)
    try:
        prepare(network, cell, asked)
        server = network.server.start(script_command(network.server, _SCRIPT, "receive", str(PORT)))
        network.clock.sleep(1.0)
        words = [network.server.address, PORT, cell.algorithm, losses, cell.rtt_s / LOOKS_PER_RTT, longest_s]
        done = network.client.run(
            script_command(network.client, _SCRIPT, "send", *map(str, words)), timeout_s=longest_s + 60, check=False
        )
        if done.returncode != 0:
            raise LabFault(f"{cell}: the sender failed: {done.error_text}")
        rows: list[list[int]] = json.loads(done.stdout)
        drops = dropped(network)
        server.stop()
    finally:
        network.close()
    return measure(cell, rows, drops, time.monotonic() - begun), rows


def measure(cell: Cell, rows: Sequence[Sequence[int]], drops: int, real_s: float) -> Found:
    """The average window over complete epochs. Raises LabFault if there are too few."""
    at = {name: index for index, name in enumerate(COLUMNS)}
    again = [row[at["again"]] for row in rows]
    first, count = 1 + WARM[cell.period], EPOCHS[cell.period]
    marks = [next((index for index, seen in enumerate(again) if seen >= first + epoch), 0) for epoch in (0, count // 2, count)]
    if not all(marks):
        raise LabFault(
            f"{cell}: {again[-1]} losses were seen in {rows[-1][0] / 1e9 - rows[0][0] / 1e9:.0f} s, {first + count} wanted"
        )
    start, middle, end = (rows[index] for index in marks)
    inside = [row[at["cwnd"]] for row in rows[marks[0] : marks[2]]]
    lasted_us = (end[0] - start[0]) / 1e3
    problems = [
        f"{name.removesuffix('_us').replace('_', '-')} for {share:.1%} of the time"
        for name in ("receiver_limited_us", "buffer_limited_us")
        if (share := (end[at[name]] - start[at[name]]) / lasted_us) > _LIMITED_SHARE
    ]
    halves = (_window(cell, start, middle), _window(cell, middle, end))
    if abs(halves[0] / halves[1] - 1) > _STEADY:
        problems.append(f"not settled: {halves[0]:.1f} in the first half, {halves[1]:.1f} in the second")
    # Spurious retransmissions of Linux (see DSACK) are not losses. The last loss may be later than the last sample.
    spurious = rows[-1][at["spurious"]]
    if not 0 <= drops + spurious - again[-1] <= 1:
        problems.append(f"{drops} packets were dropped and {again[-1]} sent again, {spurious} of them for nothing")
    return Found(
        cell=cell,
        window=_window(cell, start, end),
        cwnd=statistics.fmean(inside),
        low=min(inside),
        high=max(inside),
        halves=halves,
        rtt_ms=statistics.fmean(row[at["rtt_us"]] for row in rows[marks[0] : marks[2]]) / 1e3,
        virtual_s=(rows[-1][0] - rows[0][0]) / 1e9,
        real_s=real_s,
        dropped=drops,
        again=again[-1],
        spurious=spurious,
        problems=tuple(problems),
    )


def _window(cell: Cell, start: Sequence[int], end: Sequence[int]) -> float:
    """Segments acknowledged per round trip of the link."""
    acked, mss = COLUMNS.index("bytes_acked"), COLUMNS.index("mss")
    return (end[acked] - start[acked]) / end[mss] / ((end[0] - start[0]) / 1e9 / cell.rtt_s)


def markdown(found: Sequence[Found]) -> str:
    lines = [
        "| algorithm | RTT | one loss in | RFC 9438 | band | measured | to the RFC | cwnd, least to most | Mbit/s | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        cell = each.cell
        band = BANDS[cell.algorithm]
        mbit_s = each.window * 1448 * 8 / cell.rtt_s / 1e6
        lines.append(
            f"| {cell.algorithm} | {cell.rtt.removesuffix('ms')} ms | {cell.period:,} | {cell.rfc} | "
            f"{cell.rfc * (1 - band):.0f} to {cell.rfc * (1 + band):.0f} | {each.window:.1f} | {each.ratio:.3f} | "
            f"{each.low} to {each.high} | {mbit_s:.1f} | {each.word}{''.join(f'; {problem}' for problem in each.problems)} |"
        )
    return "\n".join(lines)


def run(cells: Sequence[Cell], asked: Asked, jobs: int) -> bool:
    """Run the cells, print and keep them; whether all are in their bands."""
    require("nft")

    def one(cell: Cell) -> tuple[Found, list[list[int]]]:
        found, rows = run_cell(cell, asked)
        took = f"{found.virtual_s:.0f} s in {found.real_s:.0f} s"
        say(f"{cell}: {found.window:.1f} segments, {found.ratio:.3f} of the RFC's, {took}")
        return found, rows

    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(one, cells))
    print(markdown([found for found, _ in done]))
    raw = {str(found.cell): {**asdict(found), "columns": COLUMNS, "rows": rows} for found, rows in done}
    print(f"raw samples: {keep('standards', {'asked': asdict(asked), 'cells': raw})}")
    return all(found.word == "in the band" for found, _ in done)
