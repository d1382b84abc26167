"""ferry over SFTP on four kinds of lines, compared with its HTTP and with other clients.

python -m benchmarks.sftp_line [-n 5] [--quick] [--topology T]... [--client C]... [--direction D]...

metro-200    100 MB against ferry's HTTP, the better of h2 and HTTP/1.1 over TLS: the cost of SFTP. Peers for comparison.
far-50       20 MB, connecting and logging in included: faster than every peer, and the number of round trips.
far-500      200 MB against ferry's HTTP, and against OpenSSH, whose channel has a window of 2 MiB.
gigabit-far  1 GB against OpenSSH; if the machine cannot emulate such a line, it says so and claims nothing.

Rates are of the body, by the client's clock if it has one (ferry, curl), else by the wire's (OpenSSH, lftp, rclone).
Uploads are stored and their sha256 checked, over HTTP too. curl uploads fewer bytes, because it would take
minutes: its start weighs more in its rates, but the seconds on far-50 are compared unchanged, which favours curl.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.claims import Claim, claims_table, median_ratio
from benchmarks.common import keep, one_line_end, ratio, say, spread, table
from benchmarks.sftp import MB, Choice, Direction, Line, better, clients_here, handshake, lines_of, parser, rates_of
from benchmarks.shaped import Job, Proof, Shaped, ideal_byte_s, shaped_network
from lab.clients.adapter import ClientAdapter
from lab.model.load import load_topology
from lab.model.topology import Topology
from lab.model.transfer import Transfer

SAMPLES = 5
PATIENCE_S = 240.0
OWN = ("h2", "https1")
# Smaller sizes in MB for clients that would take minutes: curl 7.88 writes with one or two requests of 32 KB
# in flight (libssh2), whatever the line.
_CURL_PUTS = {"metro-200": 10.0, "far-50": 4.0}
HEADINGS = ["link", "transfer", "line", "n", "body MB/s", "clock", "of the ideal", "whole s", "CPU s/GB"]


@dataclass
class Found:
    """What one link's measurements come to."""

    lines: list[Line] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """A network that is up, and the topology, clients and options to measure on it."""

    lab: Shaped
    topology: Topology
    clients: Mapping[str, ClientAdapter]
    choice: Choice

    @property
    def ours(self) -> str:
        return next(iter(self.clients))

    def transfer(self, protocol: str, direction: Direction, megabytes: float) -> Transfer:
        return Transfer.model_validate({"protocol": protocol, "direction": direction, "size": self.choice.size(megabytes)})

    def jobs(self, direction: Direction, megabytes: float, peers: Mapping[str, float], *, own: bool) -> dict[str, Job]:
        """Ours over SFTP, over HTTP where `own`, and the peers that are here, each with its megabytes."""
        adapter = self.clients[self.ours]
        jobs = {self.ours: Job(adapter, self.transfer("sftp", direction, megabytes))}
        if own:
            jobs |= {f"{self.ours} {each}": Job(adapter, self.transfer(each, direction, megabytes)) for each in OWN}
        for name, adapter in self.clients.items():
            if name != self.ours and name in peers:
                jobs[name] = Job(adapter, self.transfer("sftp", direction, peers[name]))
        return jobs

    def run(self, found: Found, direction: Direction, jobs: Mapping[str, Job]) -> dict[str, Line]:
        label = f"{self.topology.name} {direction}"
        samples = self.lab.rounds(jobs, self.choice.n, label, timeout_s=PATIENCE_S)
        lines = lines_of(samples, {name: job.transfer for name, job in jobs.items()})
        found.lines += lines.values()
        return lines

    def peers(self, direction: Direction, megabytes: float) -> dict[str, float]:
        """Everybody with the same, but for those who would take minutes."""
        given = dict.fromkeys(self.clients, megabytes)
        # By what the client is, so that another build of it is treated alike.
        for name in given:
            if name.startswith("curl") and direction == "put":
                given[name] = _CURL_PUTS.get(self.topology.name, megabytes)
        return given


def against_own(bench: Bench, lines: Mapping[str, Line], direction: str, bound: float) -> Claim:
    """SFTP's body rate over the better HTTP's, both by the client's clock."""
    own = better([line for name, line in lines.items() if name in {f"{bench.ours} {each}" for each in OWN}])
    ours = lines.get(bench.ours)
    return Claim(
        f"{bench.topology.name} {direction}: {bench.ours} over SFTP / its own {own.transfer.protocol if own else 'HTTP'}",
        "at least",
        bound,
        median_ratio(rates_of(ours), rates_of(own)),
        failed=ours.failed if ours else 0,
    )


def against_peer(bench: Bench, lines: Mapping[str, Line], direction: str, peer: str, bound: float) -> Claim:
    ours, theirs = lines.get(bench.ours), lines.get(peer)
    return Claim(
        f"{bench.topology.name} {direction}: {bench.ours} / {peer}, body rate",
        "at least",
        bound,
        median_ratio(rates_of(ours), rates_of(theirs)),
        failed=ours.failed if ours else 0,
    )


def metro(bench: Bench) -> Found:
    found = Found()
    for direction in bench.choice.directions:
        lines = bench.run(found, direction, bench.jobs(direction, 100, bench.peers(direction, 100), own=True))
        found.claims.append(against_own(bench, lines, direction, 0.95))
    return found


def far_50(bench: Bench) -> Found:
    """Seconds of the process. A peer with fewer bytes is compared unchanged, which favours the peer."""
    found = Found()
    for direction in bench.choice.directions:
        lines = bench.run(found, direction, bench.jobs(direction, 20, bench.peers(direction, 20), own=False))
        ours = lines.get(bench.ours)
        for name, line in lines.items():
            if ours is None or name == bench.ours:
                continue
            less = "" if line.transfer == ours.transfer else f" (of {line.transfer.size} only)"
            found.claims.append(
                Claim(
                    f"far-50 {direction}: seconds of {name}{less} / seconds of {bench.ours}, start and login included",
                    "more than",
                    1.0,
                    median_ratio(line.walls, ours.walls),
                    failed=ours.failed,
                )
            )
        if ours:
            told = [f"{name} {spread(values, '{:.1f}')}" for name, values in handshake(ours, bench.topology.link.rtt.s) if values]
            found.notes.append(
                f"far-50 {direction}, {bench.ours}'s way to its first byte: " + (", ".join(told) or "it tells nothing")
            )
    return found


def far_500(bench: Bench) -> Found:
    found = Found()
    for direction in bench.choice.directions:
        # 2 MiB a round trip are 20 MB/s: ten seconds for the same 200 MB.
        lines = bench.run(found, direction, bench.jobs(direction, 200, {"openssh": 200}, own=True))
        found.claims.append(against_own(bench, lines, direction, 0.9))
        found.claims.append(against_peer(bench, lines, direction, "openssh", 2.5))
    return found


def gigabit(bench: Bench) -> Found:
    """A gigabyte, so that slow start is a tenth of it at most; OpenSSH's is over in less than a tenth of 300 MB."""
    found = Found()
    for direction in bench.choice.directions:
        lines = bench.run(found, direction, bench.jobs(direction, 1000, {"openssh": 300}, own=False))
        found.claims.append(against_peer(bench, lines, direction, "openssh", 4 if direction == "get" else 5))
    return found


THEMES: dict[str, Callable[[Bench], Found]] = {"metro-200": metro, "far-50": far_50, "far-500": far_500, "gigabit-far": gigabit}


def measured(lab: Shaped, name: str, clients: Mapping[str, ClientAdapter], choice: Choice) -> tuple[Found, Proof]:
    """One link's theme between its two looks; a link that was not one makes all of its claims INVALID."""
    topology = load_topology(name)
    found = Found()
    with lab.proven(topology) as proof:
        if proof.ready:
            found = THEMES[name](Bench(lab, topology, clients, choice))
    if proof.problem:
        say(f"{name}: INVALID, {proof.problem}")
        claims = found.claims or [Claim(f"{name}: all of its claims", "at least", 1.0, None)]
        found.claims = [replace(claim, problem=f"{name}: {proof.problem}") for claim in claims]
    return found, proof


def rows(topology: Topology, lines: Sequence[Line]) -> list[list[str]]:
    found = []
    for line in lines:
        ideal = ideal_byte_s(topology, line.transfer)
        found.append(
            [
                topology.name,
                line.what,
                line.name,
                line.counted,
                spread([rate / MB for rate in line.rates], "{:.2f}"),
                line.clock,
                ratio(line.rates, [ideal] if ideal else []),
                spread(line.walls, "{:.2f}"),
                spread(line.cpu, "{:.2f}"),
            ]
        )
    return found


def arguments() -> argparse.Namespace:
    made = parser(__doc__, samples=SAMPLES)
    made.add_argument("--topology", action="append", choices=THEMES, help="default: all; with --quick all but gigabit-far")
    return made.parse_args()


def main() -> None:
    options = arguments()
    choice = Choice.of(options, SAMPLES)
    themes = options.topology or list(THEMES)[: -1 if options.quick else None]
    told, claims, notes, kept = [], [], [], []
    with shaped_network(options.router) as lab:
        clients = clients_here(choice.clients, lab.network.client)
        for name in themes:
            found, proof = measured(lab, name, clients, choice)
            told += rows(load_topology(name), found.lines)
            claims += found.claims
            notes += found.notes
            cells = [line.kept() for line in found.lines]
            kept.append({"topology": name, **proof.kept(), "cells": cells, "claims": [claim.kept() for claim in found.claims]})
    print("\nmedian (min to max); body rates by the clock named: the client's own, or the wire's where it has none")
    print(table(HEADINGS, told))
    print("\nratios of medians (95 % bootstrap interval)")
    print(claims_table(claims))
    if notes:
        print("\n" + "\n".join(notes))
    print(f"raw samples: {keep('sftp-line', kept)}")


if __name__ == "__main__":
    one_line_end(main)
