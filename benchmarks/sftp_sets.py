"""Many files over SFTP on 200 Mbit/s x 20 ms: 1000 x 20 KB and 100 x 1 MB, up and down, ferry beside other clients.

python -m benchmarks.sftp_sets [-n 5] [--quick] [--set 1000x20kB]... [--client C]... [--direction D]...

A file is complete when its last byte, name, mode and time are set where it arrives (its ctime, to a tick of some ms), for every
client alike. files/s is told twice: between the first complete file and the last, and from the client's start to the last,
handshake included. Who moves many files at once completes the first ones late and bunched, so that the former can even exceed the
line: the claim takes ours from its start and the peer's between its own first and last, each the figure that favours it least.
For the same reason the last hundred are compared with the second hundred too. ferry, OpenSSH, curl and lftp keep one connection;
rclone opens four, so it is there to compare with and no claim is against it. Clients that need round trips for each file are
given fewer of them: their rate per file does not depend on how many come after.
At this line rate 1000 x 20 KB take 0.84 s: no more than some 1190 files/s are possible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.claims import Claim, claims_table, median_ratio
from benchmarks.common import keep, one_line_end, say, spread, table
from benchmarks.sftp import Choice, Line, better, clients_here, lines_of, parser
from benchmarks.shaped import Job, Shaped, ideal_byte_s, shaped_network
from lab.client.adapter import ClientAdapter
from lab.errors import UsageProblem
from lab.result.models import Sample
from lab.spec.cell import parse_transfer
from lab.spec.load import load_topology
from lab.spec.models import Transfer

SAMPLES = 5
TOPOLOGY = "metro-200"
PATIENCE_S = 300.0
SETS = ("1000x20kB", "100x1MB")
MOVES_MANY = "1000x20kB"
# Opens one connection and uses no other; rclone has four (--transfers 4).
ONE_CONNECTION = ("ferry", "openssh", "curl", "lftp")
# Of small files: those that wait for several answers per file, at 20 ms each.
PEERS_FILES = 100
RCLONE_FILES = 400
# Of large ones: curl 7.88 uploads some 2 MB/s at 20 ms.
CURL_PUT_FILES = 20
TIMES_FASTER = 5.0
STEADY = 1.05
HEADINGS = [
    "transfer",
    "client",
    "conn.",
    "n",
    "files/s",
    "from the start",
    "of the line",
    "ms/file, first",
    "ms/file, last",
    "of",
    "CPU s",
]


@dataclass(frozen=True)
class Ends:
    """How many files at either end of a set of so many are compared: a hundred, or three tenths of a smaller set."""

    count: int
    skip: int = 0

    @classmethod
    def of(cls, files: int, *, skip: int = 0) -> Ends:
        """`skip` is how many times so many files are left out at the beginning, which were all under way together."""
        count = 100 if files >= 200 else files * 3 // 10
        return cls(count, skip * count)

    def per_file(self, sample: Sample) -> tuple[float, float] | None:
        """Seconds per file of the first and of the last; None where the set is too small, or its times were thinned out."""
        times = sample.file_times_s
        if self.count < 2 or len(times) < 2 * self.count + self.skip or sample.file_times_every != 1:
            return None
        first, last = times[self.skip : self.skip + self.count], times[-self.count :]
        return (first[-1] - first[0]) / (self.count - 1), (last[-1] - last[0]) / (self.count - 1)


def files_per_s(sample: Sample) -> float | None:
    """Between the first complete file and the last."""
    times = sample.file_times_s
    span = times[-1] - times[0] if len(times) > 1 else 0.0
    return (len(times) - 1) * sample.file_times_every / span if span > 0 else None


def speeds(line: Line) -> list[float]:
    return [value for sample in line.good if (value := files_per_s(sample)) is not None]


def speeds_from_start(line: Line) -> list[float]:
    """All files until the last was complete, process start and handshake included."""
    ends = [sample.file_times_s[-1] for sample in line.good if sample.file_times_s]
    return [line.transfer.files / end for end in ends if end > 0]


def end_speeds(line: Line, *, skip: int = 0) -> tuple[list[float], list[float]]:
    ends = Ends.of(line.transfer.files, skip=skip)
    found = [pair for sample in line.good if (pair := ends.per_file(sample)) is not None]
    return [first for first, _ in found], [last for _, last in found]


def one_connection(name: str) -> bool:
    return name.startswith(ONE_CONNECTION)


def connections(line: Line) -> str:
    """As ferry reports them; of the others what is known of them."""
    told = [ssh["connections"] for sample in line.good if sample.client and isinstance(ssh := sample.client.raw.get("ssh"), dict)]
    return str(max(told)) if told else "1" if one_connection(line.name) else "4"


def fewer(transfer: Transfer, name: str, ours: str) -> Transfer:
    """What a client is given: all of it if it is ours or files are large, else as many as it moves in some ten seconds."""
    most = transfer.files
    if name != ours and transfer.size.bytes < 1_000_000:
        most = PEERS_FILES if one_connection(name) else RCLONE_FILES
    elif name != ours and name.startswith("curl") and transfer.direction == "put":
        most = CURL_PUT_FILES
    return transfer.model_copy(update={"files": min(transfer.files, most)})


def faster_claim(lines: Mapping[str, Line], ours: Line) -> Claim:
    best = better([line for name, line in lines.items() if name != ours.name and one_connection(name)], by=speeds)
    against = f"{best.name}'s, the best peer's that keeps one connection" if best else "any peer's"
    return Claim(
        f"{ours.what}: files/s of {ours.name}, from its start / {against}",
        "at least",
        TIMES_FASTER,
        median_ratio(speeds_from_start(ours), speeds(best) if best else []),
        failed=ours.failed,
        form="{:.1f}",
    )


def steady_claim(line: Line, *, skip: int = 0) -> Claim:
    first, last = end_speeds(line, skip=skip)
    count = Ends.of(line.transfer.files).count
    return Claim(
        f"{line.what}: {line.name}, time per file of the last {count} / of the {'second' if skip else 'first'} {count}",
        "at most",
        STEADY,
        median_ratio(last, first),
        failed=line.failed,
    )


def row(line: Line, ideal: float | None) -> list[str]:
    first, last = end_speeds(line)
    whole = speeds_from_start(line)
    bound = ideal / line.transfer.size.bytes if ideal else None
    return [
        line.what,
        line.name,
        connections(line),
        line.counted,
        spread(speeds(line), "{:.1f}"),
        spread(whole, "{:.1f}"),
        spread([value / bound for value in whole], "{:.3f}") if bound else "-",
        spread([1e3 * value for value in first], "{:.2f}"),
        spread([1e3 * value for value in last], "{:.2f}"),
        str(Ends.of(line.transfer.files).count) if first else "-",
        spread([sample.cpu_user_s + sample.cpu_system_s for sample in line.good], "{:.2f}"),
    ]


def measure(
    lab: Shaped, clients: Mapping[str, ClientAdapter], choice: Choice, sets: Sequence[str]
) -> tuple[list[Line], list[Claim]]:
    ours = next(iter(clients))
    lines: list[Line] = []
    claims: list[Claim] = []
    for set_ in sets:
        for direction in choice.directions:
            whole = parse_transfer(f"sftp-{direction}-{set_}")
            jobs = {name: Job(adapter, fewer(whole, name, ours)) for name, adapter in clients.items()}
            samples = lab.rounds(jobs, choice.n, f"{TOPOLOGY} {direction} {set_}", timeout_s=PATIENCE_S)
            found = lines_of(samples, {name: job.transfer for name, job in jobs.items()})
            lines += found.values()
            if ours not in found:
                continue
            if set_ == MOVES_MANY or choice.quick:
                claims.append(faster_claim(found, found[ours]))
            claims.append(steady_claim(found[ours]))
            if whole.files >= 3 * Ends.of(whole.files).count:
                claims.append(steady_claim(found[ours], skip=1))
    return lines, claims


def main() -> None:
    made = parser(__doc__, samples=SAMPLES)
    made.add_argument("--set", action="append", dest="sets", help=f"FILESxSIZE; default {', '.join(SETS)}, quick 200x20kB")
    options = made.parse_args()
    choice = Choice.of(options, SAMPLES)
    sets = options.sets or (["200x20kB"] if choice.quick else SETS)
    if bad := [each for each in sets if not re.fullmatch(r"[0-9]+x[0-9.]+[A-Za-z]*", each)]:
        raise UsageProblem(f"{bad[0]!r} is no set of files", remedy="e.g. 1000x20kB")
    topology = load_topology(TOPOLOGY)
    lines: list[Line] = []
    claims: list[Claim] = []
    with shaped_network(options.router) as lab:
        clients = clients_here(choice.clients, lab.network.client)
        with lab.proven(topology) as proof:
            if proof.ready:
                lines, claims = measure(lab, clients, choice, sets)
    if proof.problem:
        say(f"{topology.name}: its figures are worth nothing, {proof.problem}")
        nothing = [Claim(f"{topology.name}: all of its claims", "at least", 1.0, None)]
        claims = [replace(claim, problem=proof.problem) for claim in claims or nothing]
    print(f"\n{topology.name}, median (min to max); files/s from the first complete file to the last")
    print(table(HEADINGS, [row(line, ideal_byte_s(topology, line.transfer)) for line in lines]))
    print("\nratios of medians (95 % bootstrap interval)")
    print(claims_table(claims))
    kept = {
        "topology": topology.name,
        **proof.kept(),
        "cells": [line.kept(one_connection=one_connection(line.name)) for line in lines],
        "claims": [claim.kept() for claim in claims],
    }
    print(f"raw samples: {keep('sftp-sets', kept)}")


if __name__ == "__main__":
    one_line_end(main)
