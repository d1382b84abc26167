"""The link's part of `benchmarks.requests`: small requests at 50 Mbit/s x 20 ms in virtual time, over h2 and over HTTP/1.1.

Processing costs nothing there, so all clients that ask in the same way have the same rate: a difference is one of round trips,
connections or bytes. Each turn has a seed of its own, the same for all clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

from benchmarks.common import Loopback, Run, ratio, say, spread, table
from benchmarks.requests import KINDS, SIZE, all_done, peers
from lab.hosts.virtual.machine import derived_seed
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.judge.sweep import turn_order
from lab.model.link import Link
from lab.model.transfer import Transfer
from lab.model.units import BitRate, Duration, Size
from lab.net.pins import pin
from lab.net.shape import shape
from lab.servers.bundle import start_servers
from lab.servers.certificates import make_certificates

REQUESTS = 400
LINK = Link(rate=BitRate.parse("50 Mbit/s"), rtt=Duration.parse("20 ms"))


@contextmanager
def _lab() -> Iterator[tuple[VirtualNetwork, Loopback, str]]:
    """The network, its client's host, and the URL of a file of 10 kB."""
    network = open_network()
    try:
        pin(network, "cubic")
        shape(network, LINK)
        servers = start_servers(network, payload_sizes=(), clock=network.clock, random_bytes=network.random_bytes)
        transfer = Transfer.model_validate({"protocol": "https1", "direction": "get", "size": Size(SIZE)})
        payload = servers.payload(network.server, SIZE)
        endpoints = servers.endpoints.for_sample(payload.name, payload.name)
        # Certificates of its own are of no use here: the lab's servers have theirs.
        yield network, Loopback(network.client, make_certificates([]), endpoints.ca_path), endpoints.url(transfer)
    finally:
        network.close()


def compare(clients: Sequence[str], n: int) -> dict[str, object]:
    """A table for each way of asking, printed; the raw samples."""
    kept: dict[str, object] = {}
    for kind in KINDS:
        with _lab() as (network, lab, url):
            commands = peers(lab, clients, kind)
            names, runs = [*commands], list[Run]()
            for index in range(n):
                for name in (names[turn] for turn in turn_order(len(names), index)):
                    network.vary(derived_seed(1, "requests", index))
                    run = lab.run(name, commands[name].command(url, REQUESTS))
                    runs.append(replace(run, ok=all_done(commands[name], run, REQUESTS)))
                    say(f"link {name} {index + 1}/{n}: {REQUESTS / run.wall_s:.1f}/s{'' if runs[-1].ok else ', FAILED'}")
        kept[kind.name] = [asdict(run) for run in runs]
        print(f"\n{LINK.rate}, {LINK.rtt}, virtual time: {REQUESTS} x {SIZE} B, {kind.name}; median (min to max)")
        print(_rendered(names, runs), flush=True)
    return kept


def _rendered(names: Sequence[str], runs: Sequence[Run]) -> str:
    rates = {name: [REQUESTS / run.wall_s for run in runs if run.name == name and run.ok] for name in names}
    failed = {name: sum(run.name == name and not run.ok for run in runs) for name in names}
    rows = [
        [
            name,
            f"{len(found)}{f' ({failed[name]} failed)' if failed[name] else ''}",
            spread(found, "{:.1f}"),
            ratio(found, rates[names[0]]),
        ]
        for name, found in rates.items()
    ]
    return table(["client", "n", "requests/s", f"rate / {names[0]}"], rows)
