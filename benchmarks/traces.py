"""How exactly a link delivers recorded traces: per 100 ms and in the mean, both directions full at once, in virtual time.

python -m benchmarks.traces NAME... [--seconds 60]

NAME is a file as a topology names it (`lab traces NAME` downloads some), or DOWN:UP for one of each direction. For the table in
docs/decisions/measured/0030-links-that-live.md. A slot is compared with what the file says, not with the plan made of it in
full frames. The exit code is 1 if a series is further from its plan than a certificate allows: in a slot 1 % or a frame, in the
mean 0.1 % or a frame.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.common import keep, one_line_end, say, table
from lab.hosts.virtual.machine import Patience
from lab.hosts.virtual.network import open_network
from lab.link.theory import frame_bytes
from lab.model.link import DirectionName
from lab.model.results import TraceDelivery, TraceDirectionDelivery
from lab.model.topology import Topology
from lab.model.trace_file import find_trace, parse_mahimahi, parse_rates, with_trace
from lab.net.delivered import SLOT_MS, certify_trace
from lab.net.pins import pin

_PATIENCE = Patience(cpu_s=1800.0, real_s=7200.0)
_FRAME = frame_bytes(1500)
_LEAST_FRAMES = 100
"""In a slot with fewer frames one of them is more than 1 %."""


def topology_of(name: str) -> Topology:
    """A link that follows the file, or the two files."""
    down, _, up = name.partition(":")
    given = {
        "name": "recorded",
        "description": "A recorded trace.",
        "link": {"rtt": "60 ms", "queue": "500 ms"},
        "schedule": {"trace": {"down": down, "up": up or down}},
    }
    return with_trace(Topology.model_validate(given), Path.cwd())


def certify(topology: Topology, slots: int) -> TraceDelivery:
    network = open_network(seed=1, patience=_PATIENCE)
    try:
        pin(network, topology.congestion_control, topology.link.mtu)
        return certify_trace(network, topology, most_slots=slots)
    finally:
        network.close()


def recorded_bytes(name: str, way: DirectionName, slots: int) -> list[float]:
    """Wire bytes of the file itself in each slot, the series over and over: of a table its rates, of mahimahi its packets."""
    path = find_trace(name, Path.cwd())
    text = path.read_text(encoding="utf-8-sig")
    if series := parse_rates(text, path, name):
        rates = [(row.at_ns, row.up_bit_s if way == "up" else row.down_bit_s) for row in series.rows]
        # The period ends with the last complete millisecond.
        end_ns = series.end_ns // 10**6 * 10**6
        spans = [(at, min(end, end_ns), bit_s / 8e9) for (at, bit_s), (end, _) in pairwise([*rates, (series.end_ns, 0)])]
    else:
        counts = parse_mahimahi(text, name)
        end_ns = len(counts) * 10**6
        spans = [(ms * 10**6, (ms + 1) * 10**6, count * _FRAME / 1e6) for ms, count in enumerate(counts)]
    edges = [slot * SLOT_MS * 10**6 for slot in range(slots + 1)]
    upto = [divmod(edge, end_ns) for edge in edges]
    total = _passed(spans, end_ns)
    passed = [rounds * total + _passed(spans, rest) for rounds, rest in upto]
    return [later - earlier for earlier, later in pairwise(passed)]


def _passed(spans: Sequence[tuple[int, int, float]], until_ns: int) -> float:
    """Bytes of (from, to, bytes per ns) until then."""
    return sum((min(end, until_ns) - at) * byte_ns for at, end, byte_ns in spans if at < until_ns)


@dataclass(frozen=True)
class Compared:
    """A direction against its file."""

    name: str
    way: DirectionName
    delivered: Sequence[int]
    recorded: Sequence[float]

    @property
    def worst_frames(self) -> float:
        return max(abs(got - wanted) for got, wanted in zip(self.delivered, self.recorded, strict=True)) / _FRAME

    @property
    def mean_error(self) -> float:
        return sum(self.delivered) / sum(self.recorded) - 1

    def worst_share(self, least_frames: float) -> float | None:
        """The largest relative error of the slots with at least that many frames."""
        pairs = [pair for pair in zip(self.delivered, self.recorded, strict=True) if pair[1] >= max(1.0, least_frames * _FRAME)]
        return max((abs(got / wanted - 1) for got, wanted in pairs), default=None)

    @property
    def row(self) -> list[str]:
        """The cells of a line of the table."""
        some, large = self.worst_share(0), self.worst_share(_LEAST_FRAMES)
        slots = len(self.delivered)
        return [
            self.name,
            self.way,
            f"{slots}",
            f"{sum(self.recorded) * 8 / (slots * SLOT_MS * 1e3):.2f}",
            f"{sum(wanted < 1 for wanted in self.recorded)}",
            f"{self.worst_frames:.2f}",
            "-" if some is None else f"{some:.2%}",
            "-" if large is None else f"{large:.2%}",
            f"{self.mean_error:+.5%}",
        ]


HEADINGS = ["trace", "way", "slots", "mean Mbit/s", "empty", "worst, frames", "worst", f"worst of {_LEAST_FRAMES} frames", "mean"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--seconds", type=int, default=60, help="from the trace's beginning")
    options = parser.parse_args()
    rows, kept, problems = [], {}, []
    for name in options.names:
        found = certify(topology_of(name), options.seconds * 1000 // SLOT_MS)
        say(f"{name}: certified")
        down, _, up = name.partition(":")
        files: dict[DirectionName, str] = {"down": down, "up": up or down}
        sides: dict[DirectionName, TraceDirectionDelivery] = {"down": found.down, "up": found.up}
        for way, side in sides.items():
            recorded = recorded_bytes(files[way], way, len(side.delivered_bytes))
            rows.append(Compared(name, way, side.delivered_bytes, recorded).row)
            problems += [f"{name}, {way}: {problem}" for problem in side.problems]
        kept[name] = found.model_dump(mode="json")
    print(table(HEADINGS, rows))
    print(f"raw samples: {keep('traces', kept)}")
    for problem in problems:
        say(problem)
    if problems:
        sys.exit(1)


if __name__ == "__main__":
    one_line_end(main)
