"""What HTTP/3 costs in processor time: one large body over the loopback, by h2 and by h3, in real time.

python -m benchmarks.http3_cpu [-n 5] [--size 64MiB] [--client ferry --client ferry-before=PATH --client curl --client quinn]

nginx and curl are those of Debian 13, started with their own libraries from the lab's userland; ferry and quinn's peer are this
checkout's. Nothing is shaped, so that a rate is what the two cores make of client and server together: read the CPU seconds.
Uploads end in the lab's sink.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.bulk import interleaved, measured, row
from benchmarks.common import PEERS, Loopback, Run, ferry_programs, keep, loopback, one_line_end, say, table
from lab.assets import userlands
from lab.model.errors import UsageProblem
from lab.model.units import Size
from lab.servers import nginx
from lab.servers.process import wait_ready

USERLAND = "debian:13"
CURL, QUINN = "curl", "quinn"
CLIENTS = ("ferry", CURL, QUINN)
JOBS = [(protocol, direction) for direction in ("get", "put") for protocol in ("h2", "h3")]


def brought(lab: Loopback, root: Path, program: str) -> str:
    """A script on the host that starts a program of that root with the root's own loader and libraries."""
    where = next((root / folder / program for folder in ("usr/sbin", "usr/bin") if (root / folder / program).is_file()), None)
    loader = root / "usr/lib64/ld-linux-x86-64.so.2"
    if where is None or not loader.exists():
        raise UsageProblem(
            f"the userland {USERLAND} has no {program} or no loader", remedy=f"lab userland build {USERLAND} --force"
        )
    libraries = f"{root}/usr/lib/x86_64-linux-gnu"
    words = [str(loader), "--library-path", libraries, "--argv0", program, str(where)]
    path = lab.file(f"bin/{program}-{USERLAND.replace(':', '-')}")
    lab.host.write(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode(), mode=0o755)
    return path


class Clients:
    """The commands of each client that is here."""

    def __init__(self, lab: Loopback, names: Sequence[str], root: Path, source: str) -> None:
        self.ca, self.source = lab.ca_path, source
        self.curl = brought(lab, root, "curl") if CURL in names else None
        self.quinn = lab.bring(PEERS / "quinn-h3/target/release/quinn-h3-peer") if QUINN in names else None
        self.builds = ferry_programs([name for name in names if name not in (CURL, QUINN)], lab.host)

    def of_all(self, protocol: str, direction: str) -> dict[str, list[str]]:
        url = f"https://127.0.0.1/{'files/bulk' if direction == 'get' else 'sink/bulk'}"
        asked = {name: self._ferry(program, protocol, direction, url) for name, program in self.builds.items()}
        if self.curl:
            version = "--http2" if protocol == "h2" else "--http3-only"
            # curl 8.14.1 with OpenSSL's QUIC did not end a download of 256 MiB here.
            words = [self.curl, "-q", "-sS", "--fail", version, "--max-time", "60", "--cacert", self.ca]
            upload = ["-T", self.source, "-H", "Expect:"] if direction == "put" else []
            asked[CURL] = [*words, "-o", "/dev/null", *upload, url]
        if self.quinn and protocol == "h3":
            action = ["put", self.source, url] if direction == "put" else ["get", url, "-o", "/dev/null"]
            asked[QUINN] = [self.quinn, "--cacert", self.ca, *action]
        return asked

    def _ferry(self, program: str, protocol: str, direction: str, url: str) -> list[str]:
        words = [program, direction, "--quiet", "--json", "-", "--http2" if protocol == "h2" else "--http3", "--cacert", self.ca]
        return [*words, self.source, url] if direction == "put" else [*words, "--overwrite", "-o", "/dev/null", url]


def take(lab: Loopback, clients: Clients, n: int, size: int) -> list[Run]:
    """n runs of every client and job, interleaved."""
    commands = {
        f"{name} {protocol} {direction}": argv
        for protocol, direction in JOBS
        for name, argv in clients.of_all(protocol, direction).items()
    }
    return interleaved(lab, commands, n, size, "loopback")


def show(clients: Clients, runs: Sequence[Run], size: int) -> None:
    rows = []
    for direction in ("get", "put"):
        for name in clients.of_all("h3", direction):
            lines = {
                protocol: replace(measured(f"{protocol} {direction}", runs, f"{name} {protocol} {direction}", size), client=name)
                for protocol in ("h2", "h3")
                if name in clients.of_all(protocol, direction)
            }
            first = next(iter(lines.values()))
            for line in lines.values():
                own = [replace(run, name=name) for run in runs if run.name == f"{name} {line.job}"]
                rows.append(row(line, first, own))
    print(f"\n{size} B over the loopback; median (min to max); ratios are to the same client's first line")
    print(table(["transfer", "client", "n", "MB/s", "CPU s/GB", "rate / h2", "CPU / h2", "peak MB"], rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=5, help="samples of each")
    parser.add_argument("--size", type=Size.parse, default=Size(64 << 20))
    parser.add_argument("--client", action="append", help="curl, quinn, or builds of ferry: ferry, ferry-before=PATH")
    options = parser.parse_args()
    size = options.size.bytes
    root = userlands.get(USERLAND, say).root
    with loopback() as lab:
        clients = Clients(lab, options.client or CLIENTS, root, lab.write_random("bulk", size))
        server = nginx.launch(lab.host, lab.certificates, nginx=brought(lab, root, "nginx"), workers=2, http3=True)
        try:
            wait_ready([server])
            runs = take(lab, clients, options.n, size)
        finally:
            server.stop()
    show(clients, runs, size)
    print(f"raw samples: {keep('http3-cpu', [asdict(run) for run in runs])}")


if __name__ == "__main__":
    one_line_end(main)
