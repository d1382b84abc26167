"""Long fat links: 500 MB up and down over 500 Mbit/s and 1 Gbit/s x 100 ms, against the link's ideal goodput.

python -m benchmarks.far [-n 5] [--size 500MB] [--quick] [--topology T]... [--client C]...

Goodput is counted on the wire towards the receiver, after the first two seconds (slow start) and up to the last complete 100 ms.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Sequence

from benchmarks.common import HYPER, keep, one_line_end, present_clients, say, spread, table
from benchmarks.shaped import ideal_byte_s, shaped_network, windows_byte_s
from lab.hosts.agent.router import ROUTER_CHOICES
from lab.model.cell_name import format_transfer
from lab.model.load import load_topology
from lab.model.results import Sample
from lab.model.transfer import Transfer
from lab.model.units import Size

TOPOLOGIES = ("transatlantic", "gigabit-far")
SLOW_START_MS = 2000.0
WINDOW_MS = 100.0
FULL = 0.9


def steady_byte_s(sample: Sample) -> float | None:
    """Mean of the complete 100 ms windows after slow start; None if the transfer ended earlier."""
    if sample.series is None:
        return None
    slots = sample.series.goodput_bit_s[round(SLOW_START_MS / sample.series.slot_ms) :]
    whole = len(slots) - len(slots) % round(WINDOW_MS / sample.series.slot_ms)
    return statistics.fmean(slots[:whole]) / 8 if whole else None


def seconds_to_full(sample: Sample, ideal: float) -> float | None:
    """Until the first 100 ms at 90 % of the ideal begins."""
    if sample.series is None:
        return None
    windows = windows_byte_s(sample.series.goodput_bit_s, sample.series.slot_ms, WINDOW_MS)
    first = next((index for index, rate in enumerate(windows) if rate >= FULL * ideal), None)
    return None if first is None else first * sample.series.slot_ms / 1e3


def row(topology: str, transfer: Transfer, client: str, samples: Sequence[Sample], ideal: float) -> list[str]:
    good = [sample for sample in samples if sample.ok]
    steady = [value / ideal for sample in good if (value := steady_byte_s(sample)) is not None]
    whole = [sample.body_byte_s / ideal for sample in good if sample.body_byte_s]
    full = [value for sample in good if (value := seconds_to_full(sample, ideal)) is not None]
    cpu = [(sample.cpu_user_s + sample.cpu_system_s) / sample.expected_bytes * 1e9 for sample in good]
    lost = sum(sample.wire.retransmits for sample in good if sample.wire)
    memory = [sample.max_rss_bytes / 1e6 for sample in good if sample.max_rss_bytes]
    return [
        topology,
        format_transfer(transfer),
        client,
        str(len(good)) + (f" ({len(samples) - len(good)} failed)" if len(good) < len(samples) else ""),
        spread(steady, "{:.3f}"),
        spread(whole, "{:.3f}"),
        spread(full, "{:.1f}"),
        spread(cpu, "{:.2f}"),
        f"{max(memory):.0f}" if memory else "-",
        str(lost),
    ]


HEADINGS = ["link", "transfer", "client", "n", "steady / ideal", "complete / ideal", "s to 90 %", "CPU s/GB", "peak MB", "resent"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=5, help="samples of each")
    parser.add_argument("--size", type=Size.parse, default=Size(500_000_000))
    parser.add_argument("--quick", action="store_true", help="200 MB over the first link only")
    parser.add_argument("--topology", action="append", choices=TOPOLOGIES)
    parser.add_argument("--client", action="append")
    parser.add_argument("--router", choices=ROUTER_CHOICES, default="auto")
    options = parser.parse_args()
    size = Size(200_000_000) if options.quick else options.size
    rows, kept = [], []
    with shaped_network(options.router) as lab:
        clients = present_clients(options.client or ["ferry", "curl", HYPER], lab.network.client)
        for topology in map(load_topology, options.topology or TOPOLOGIES[: 1 if options.quick else 2]):
            before = lab.link(topology)
            cells = []
            for protocol, direction in itertools.product(("http1", "h2"), ("get", "put")):
                transfer = Transfer(protocol=protocol, direction=direction, size=size, sink=direction == "put")
                ideal = ideal_byte_s(topology, transfer)
                assert ideal
                label = f"{topology.name} {format_transfer(transfer)}"
                for name, samples in lab.interleaved(clients, transfer, options.n, label).items():
                    rows.append(row(topology.name, transfer, name, samples, ideal))
                    dumped = [sample.model_dump(mode="json") for sample in samples]
                    cells.append({"client": name, "transfer": transfer.model_dump(mode="json"), "samples": dumped})
            after = lab.look(topology)
            looks = {"before": before.model_dump(mode="json"), "after": after.model_dump(mode="json")}
            kept.append({"topology": topology.name, "cells": cells, **looks})
            if not (before.ok and after.ok):
                say(f"{topology.name}: its figures are worth little, the link was not what it claims")
    print(
        f"\n{size}; median (min to max); steady: the wire after {SLOW_START_MS / 1e3:.0f} s, complete: by the client's body clock"
    )
    print(table(HEADINGS, rows))
    print(f"raw samples: {keep('far', kept)}")


if __name__ == "__main__":
    one_line_end(main)
