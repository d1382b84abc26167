"""Users' reports of clients with exact conditions, run again under them in virtual time."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.common import say
from benchmarks.standards.paths import PATIENCE, SCRIPT
from benchmarks.standards.published import Report
from lab.clients.described import ssh_options
from lab.clients.registry import parse_client, resolve
from lab.hosts.scripts import script_command
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.transfer import Transfer
from lab.model.units import Size
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from lab.net.shape import shape
from lab.run.sample import take_sample
from lab.servers.bundle import Servers, start_servers

STREAM_S, STREAM_FROM_S = 20.0, 5.0
"""The report's rate stands still from its third second on."""
SIZE = Size(300_000_000)
"""A part of the reports' files (1 and 1.4 GB): after the first second their rate does not change."""


@dataclass(frozen=True)
class ReportSeen:
    """A report and what came of it, MB/s of 10^6 bytes; `client` is the program and its version."""

    report: Report
    mb_s: float
    client: str
    raw: object

    @property
    def word(self) -> str:
        inside = abs(self.mb_s / self.report.published_mb_s - 1) <= self.report.band
        return "in the band" if inside else "OUT OF THE BAND"

    def kept(self) -> dict[str, object]:
        """A line of the page's table."""
        report = self.report
        return {
            "name": report.name,
            "source": report.source,
            "what": report.what,
            "rtt_ms": report.rtt.ms,
            "published_mb_s": report.published_mb_s,
            "expected_mb_s": report.expected_mb_s,
            "band": report.band,
            "mb_s": self.mb_s,
            "client": self.client,
            "word": self.word,
        }


def run_reports(reports: Sequence[Report], jobs: int) -> list[ReportSeen]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run_report, reports))


def run_report(report: Report) -> ReportSeen:
    with _served(report) as (network, servers):
        if report.name == "hpn-ssh-58":
            found = _stream(report, network, servers)
        elif report.name == "pkg-sftp-158-sftp":
            found = _transfer(report, network, servers, "openssh", "get")
        else:
            found = _transfer(report, network, servers, "rclone@1.75.2", "put")
    say(f"{report.name}: {found.mb_s:.2f} MB/s, published {report.published_mb_s:.2f}, by {found.client}")
    return found


@contextmanager
def _served(report: Report) -> Iterator[tuple[VirtualNetwork, Servers]]:
    network = open_network(seed=1, payload_bytes=SIZE.bytes, patience=PATIENCE)
    try:
        pin(network, "cubic")
        assert_no_bypass(network)
        servers = start_servers(network, payload_sizes=(), clock=network.clock, random_bytes=network.random_bytes)
        shape(network, Link.model_validate({"rate": str(report.rate), "rtt": str(report.rtt)}))
        yield network, servers
    finally:
        network.close()


def _stream(report: Report, network: VirtualNetwork, servers: Servers) -> ReportSeen:
    """A command's output over ssh, counted by the second."""
    client, ends = network.client, servers.endpoints
    program = client.program("ssh")
    command = [program, *ssh_options(ends), "-p", f"{ends.ssh_port}", f"{ends.ssh_user}@{ends.server}", "cat /dev/zero"]
    words = script_command(client, SCRIPT, "stream", f"{STREAM_S}", *command)
    done = client.run(words, timeout_s=STREAM_S + 60, check=False)
    counts: list[int] = json.loads(done.stdout or b"[]")
    if done.returncode != 0 or len(counts) < STREAM_S:
        raise LabFault(f"{report.name}: the stream ended: {done.error_text}")
    version = client.run([program, "-V"], check=False).error_text.partition(",")[0]
    return ReportSeen(report, statistics.fmean(counts[round(STREAM_FROM_S) :]) / 1e6, version, counts)


def _transfer(report: Report, network: VirtualNetwork, servers: Servers, client: str, direction: str) -> ReportSeen:
    """A file over SFTP. The clients there print the mean of the complete transfer, and so does this."""
    adapter = resolve(parse_client(client))
    identity = adapter.identify(network.client)
    transfer = Transfer.model_validate({"protocol": "sftp", "direction": direction, "size": SIZE})
    sample = take_sample(network, servers, adapter, transfer, 0)
    if not sample.ok:
        raise LabFault(f"{report.name}: {sample.problem}")
    return ReportSeen(
        report, SIZE.bytes / sample.wall_s / 1e6, f"{identity.name} {identity.version}", sample.model_dump(mode="json")
    )
