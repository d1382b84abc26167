"""How exactly ferry and curl keep their limit: links x limits x protocols x directions x sizes.

python -m benchmarks.throttle [-n 5] [--quick] [--protocol P]... [--topology T]... [--limit "1 MB/s"]... [--client C]...

A limit is tried on a link only where its ideal goodput is at least 1.2 times the limit (1.1 times one given by --limit).
Other clients are tried at 1 and 2 MB/s with 5 MB. Deviations are of the body rate, by the client's clock or, if it has none
(OpenSSH, lftp, rclone, with --protocol sftp), by the wire's. SFTP is tried only on request.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.claims import Claim, claims_table, worst_of
from benchmarks.common import HYPER, keep, one_line_end, present_clients, say, table
from benchmarks.shaped import ideal_byte_s, shaped_network, windows_byte_s
from lab.hosts.agent.router import ROUTER_CHOICES
from lab.model.cell_name import format_transfer
from lab.model.load import load_topology
from lab.model.results import Sample
from lab.model.topology import Topology
from lab.model.transfer import Transfer
from lab.model.units import ByteRate, Size

TOPOLOGIES = ("link-local", "dsl-50", "dsl-20")
LIMITS = tuple(ByteRate.parse(text) for text in ("0.5 MB/s", "1 MB/s", "2 MB/s", "5 MB/s"))
SIZES = (Size(5_000_000), Size(1_500_000), Size(1_999_999))
KINDS = (("get", False), ("get", True), ("put", False))
PEERS_LIMITS = (1_000_000, 2_000_000)
ROOM = 1.2
# For a limit given by --limit: 2 MB/s on dsl-20, which carries 2.39, is a fair test.
ROOM_IF_ASKED = 1.1
WORST_PERCENT = 0.5
# A transfer has started when so much of its body's time has gone: before, TCP's first windows are what is seen.
STARTED_MS = 200.0
WINDOW_MS = 100.0


@dataclass(frozen=True)
class Choice:
    """What is to be tried."""

    limits: Sequence[ByteRate]
    protocols: Sequence[str]
    sizes: Sequence[Size]
    directions: Sequence[str]
    room: float = ROOM


def transfers(topology: Topology, choice: Choice) -> Iterator[Transfer]:
    for limit, protocol, (direction, chunked), size in itertools.product(choice.limits, choice.protocols, KINDS, choice.sizes):
        if direction not in choice.directions or (chunked and protocol == "sftp"):
            continue
        transfer = Transfer(protocol=protocol, direction=direction, size=size, limit=limit, chunked=chunked)
        ideal = ideal_byte_s(topology, transfer)
        if ideal is None or ideal >= choice.room * limit.byte_s:
            yield transfer


def for_peers(transfer: Transfer, choice: Choice) -> bool:
    assert transfer.limit
    return transfer.limit.byte_s in PEERS_LIMITS and transfer.size == choice.sizes[0]


def own_window(sample: Sample) -> float | None:
    """The fastest 100 ms as the client tells, where it does."""
    value = sample.client.raw.get("worst_window_byte_s") if sample.client else None
    return float(value) if isinstance(value, int | float) else None


def wire_window(sample: Sample) -> float | None:
    """The fastest 100 ms on the wire once the transfer has started: TCP payload, so TLS and frames are in it (0.2 to 0.6 %)."""
    if sample.series is None:
        return None
    return max(windows_byte_s(sample.series.goodput_bit_s, sample.series.slot_ms, WINDOW_MS, after_ms=STARTED_MS), default=None)


def row(topology: str, transfer: Transfer, client: str, samples: Sequence[Sample]) -> list[str]:
    assert transfer.limit
    good = [sample for sample in samples if sample.ok]
    deviations = [sample.deviation for sample in good if sample.deviation is not None]
    own = [value / transfer.limit.byte_s for sample in good if (value := own_window(sample)) is not None]
    wire = [value / transfer.limit.byte_s for sample in good if (value := wire_window(sample)) is not None]
    gaps = [sample.series.longest_gap_ms for sample in good if sample.series]
    cpu = [(sample.cpu_user_s + sample.cpu_system_s) / sample.wall_s for sample in good]
    return [
        topology,
        format_transfer(transfer),
        client,
        str(len(good)) + (f" ({len(samples) - len(good)} failed)" if len(good) < len(samples) else ""),
        f"{max(deviations, key=abs) * 100:+.3f}" if deviations else "-",
        f"{sum(deviations) / len(deviations) * 100:+.3f}" if deviations else "-",
        f"{max(own):.3f}" if own else "-",
        f"{max(wire):.3f}" if wire else "-",
        f"{max(gaps):.0f}" if gaps else "-",
        f"{max(cpu) * 100:.1f}" if cpu else "-",
    ]


def kept_to(topology: str, client: str, protocol: str, lines: Sequence[Sequence[Sample]], proven: str) -> Claim:
    """The client's worst deviation of all transfers over one link by one protocol. The worst, so that there is no interval."""
    samples = [sample for line in lines for sample in line]
    deviations = [100 * sample.deviation for sample in samples if sample.ok and sample.deviation is not None]
    return Claim(
        f"{topology}: {client} over {protocol}, worst deviation from its limit, %",
        "at most",
        WORST_PERCENT,
        worst_of([abs(deviation) for deviation in deviations]),
        failed=sum(not sample.ok for sample in samples),
        problem=proven,
    )


HEADINGS = ["link", "transfer", "client", "n", "worst dev. %", "mean %", "own 100 ms", "wire 100 ms", "silence ms", "CPU %"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--samples", dest="n", type=int, default=5, help="of each")
    parser.add_argument("--quick", action="store_true", help="1 and 2 MB/s, 1.5 MB: some minutes")
    parser.add_argument("--https1", action="store_true", help="HTTP/1.1 over TLS too")
    parser.add_argument("--topology", action="append", choices=TOPOLOGIES)
    parser.add_argument("--limit", action="append", type=ByteRate.parse)
    parser.add_argument("--size", action="append", type=Size.parse)
    parser.add_argument("--protocol", action="append", choices=["http1", "https1", "h2", "sftp"])
    parser.add_argument("--direction", action="append", choices=["get", "put"])
    parser.add_argument("--client", action="append", help="the first does everything, the others the reduced set")
    parser.add_argument("--router", choices=ROUTER_CHOICES, default="auto")
    options = parser.parse_args()
    choice = Choice(
        limits=options.limit or ([LIMITS[1], LIMITS[2]] if options.quick else LIMITS),
        protocols=options.protocol or ["http1", *(["https1"] if options.https1 else []), "h2"],
        directions=options.direction or ["get", "put"],
        room=ROOM_IF_ASKED if options.limit else ROOM,
        sizes=options.size or ([Size(1_500_000)] if options.quick else SIZES),
    )
    rows, kept, claims = [], [], []
    with shaped_network(options.router) as lab:
        clients = present_clients(options.client or ["ferry", "curl", HYPER], lab.network.client)
        for topology in map(load_topology, options.topology or TOPOLOGIES):
            before = lab.link(topology)
            cells = []
            taken: dict[tuple[str, str], list[list[Sample]]] = {}
            for transfer in transfers(topology, choice):
                some = clients if for_peers(transfer, choice) else dict(list(clients.items())[:1])
                label = f"{topology.name} {format_transfer(transfer)}"
                for name, samples in lab.interleaved(some, transfer, options.n, label).items():
                    rows.append(row(topology.name, transfer, name, samples))
                    taken.setdefault((name, transfer.protocol), []).append(samples)
                    cells.append({"client": name, "transfer": transfer.model_dump(mode="json"), "samples": _dump(samples)})
            after = lab.look(topology)
            kept.append(
                {
                    "topology": topology.name,
                    "before": before.model_dump(mode="json"),
                    "cells": cells,
                    "after": after.model_dump(mode="json"),
                }
            )
            proven = (
                ""
                if before.ok and after.ok
                else f"{topology.name}: its figures are worth nothing, the link was not what it claims"
            )
            if proven:
                say(proven)
            own = [kept_to(topology.name, *each, lines, proven) for each, lines in taken.items()]
            claims += own
            kept[-1]["claims"] = [claim.kept() for claim in own]
    print(f"\nworst of n samples; windows are multiples of the limit, the wire's after the first {STARTED_MS:.0f} ms")
    print(table(HEADINGS, rows))
    print("\nof all transfers together; nothing is inferred from a worst one, so it has no interval")
    print(claims_table(claims))
    print(f"raw samples: {keep('throttle', kept)}")


def _dump(samples: Sequence[Sample]) -> list[dict[str, object]]:
    return [sample.model_dump(mode="json") for sample in samples]


if __name__ == "__main__":
    one_line_end(main)
