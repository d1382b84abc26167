"""Runs a program that is held back in a known way, and diagnoses it: what `test_diagnosis` does for each planted cause.

usage: python -m tests.virtual.planted_causes N SEED [NAME...]

Plants N draws of each cause and of each mixture (`planted_draws`), prints a table and how many answers were right, not known or
wrong. Ends with exit 1 if one was wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.hosts.scripts import script_command
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.diagnosis import Diagnosis
from lab.model.link import Link
from lab.model.transfer import Transfer
from lab.net.pins import pin
from lab.net.ports import PortSampler
from lab.net.shape import shape
from lab.net.watch import Watch
from lab.run.why import explain
from lab.servers.bundle import Servers, start_servers

SCRIPT = Path(__file__).with_name("planted_script.py")
PORT = "9000"
_PATIENCE_S = 120.0


class Planted:
    """A network in virtual time with servers."""

    def __init__(self, network: VirtualNetwork, servers: Servers) -> None:
        self.network, self.servers = network, servers

    def link(self, **asked: object) -> Link:
        """Shape the network."""
        link = Link.model_validate({"rate": "100 Mbit/s", "rtt": "40 ms", **asked})
        shape(self.network, link)
        return link

    def police(self, link: Link, byte_s: float, bucket: float) -> None:
        """A policer towards the client behind the line, which spaces what comes to it."""
        port, side = self.network.router_ports.client, link.direction("down")
        assert side.rate
        lines = (
            f"qdisc del dev {port} root",
            f"qdisc add dev {port} root handle 1: netem delay {side.delay.ns // 1000}us rate {side.rate.bit_s}bit limit 100000",
            f"qdisc add dev {port} parent 1:1 handle 2: tbf rate {byte_s * 8:.0f}bit burst {bucket:.0f} limit 6000",
        )
        self.network.router.run(["/bin/sh", "-ec", "; ".join(f"tc {line}" for line in lines)], root=True)

    def script(self, *words: str) -> list[str]:
        return script_command(self.network.client, SCRIPT, *words)

    @contextmanager
    def server(self, *settings: str) -> Iterator[None]:
        """The planted server."""
        process = self.network.server.start(script_command(self.network.server, SCRIPT, "serve", PORT, *settings))
        self.network.clock.sleep(0.2)
        try:
            yield
        finally:
            process.stop()

    def diagnosis(self, command: Sequence[str], link: Link, transfer: Transfer | None = None) -> Diagnosis:
        """Run a command on the client and explain it."""
        with PortSampler(self.network) as ports, Watch(self.network) as watch:
            done = self.network.client.run(command, env=self.servers.environment, timeout_s=_PATIENCE_S)
            rows = ports.between(done.started_ns, done.ended_ns)
            found = explain(self.network, watch, rows, done, link, transfer)
        assert found is not None
        return found


@contextmanager
def planted(seed: int = 1) -> Iterator[Planted]:
    network = open_network(seed=seed, payload_bytes=64 << 20)
    try:
        pin(network, "cubic")
        yield Planted(network, start_servers(network, clock=network.clock, random_bytes=network.random_bytes))
    finally:
        network.close()


def main(count: str, seed: str, *names: str) -> int:
    from tests.virtual.planted_draws import CAUSES, MIXED, plan

    answers: Counter[tuple[str, str]] = Counter()
    tally: Counter[str] = Counter()
    with planted() as lab:
        print("| planted | draw | answer | share | shares | RTT ms, Mbit/s | what |\n|---|---|---|---|---|---|---|")
        for name in names or (*CAUSES, *MIXED):
            for number in range(int(count)):
                asked = plan(name, number, int(seed))
                found = asked.diagnosis(lab)
                right = found.cause == (name if name in CAUSES else "not-known")
                verdict = "right" if right else "not known" if found.cause == "not-known" else "WRONG"
                tally[f"mixed {verdict}" if name in MIXED else verdict] += 1
                answers[name, found.cause] += 1
                shares = ", ".join(f"{cause} {share:.2f}" for cause, share in found.shares.items())
                share = "-" if found.share is None else f"{found.share:.2f}"
                link = f"{asked.link['rtt']}, {asked.link['rate']}"
                print(f"| {name} | {number} | {found.cause} {verdict} | {share} | {shares} | {link} | {asked} |", flush=True)
    print("\n" + "\n".join(f"{name} -> {cause}: {times}" for (name, cause), times in sorted(answers.items())))
    print(", ".join(f"{verdict} {times}" for verdict, times in sorted(tally.items())))
    return 1 if tally["WRONG"] + tally["mixed WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
