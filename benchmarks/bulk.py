"""One large body over the loopback: rate, CPU and memory of ferry, curl and hyper, and the effect of the buffer size.

python -m benchmarks.bulk [-n 5] [--size 1GiB] [--quick] [--client ferry --client ferry-before=PATH --client curl --client hyper]

Uploads end in the lab's sink, a Python process behind nginx: if it is the limit, rates are equal and only CPU time differs.
Rates are bytes per second of the process's wall time, start and handshake included.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.common import HYPER, PEERS, Loopback, Run, ferry_programs, keep, loopback, one_line_end, ratio, say, spread, table
from benchmarks.ratios import FERRY, Measured
from lab.judge.sweep import turn_order
from lab.model.units import Size

PROTOCOLS = {"http1": ("http", "--http1.1"), "https1": ("https", "--http1.1"), "h2": ("https", "--http2")}
BUFFERS = ("4K", "16K", "64K", "256K", "1M", "4M", "16M")
MB = 1e6
QUICK_SIZE = 64 << 20
CLIENTS = ("curl", FERRY, HYPER)


class Commands:
    """The same transfer in the words of each client that is here; the first is what the others are held against."""

    def __init__(self, lab: Loopback, clients: Sequence[str], source: str) -> None:
        self.ca, self.source = lab.ca_path, source
        # curl is the system's.
        own = [name for name in clients if name not in ("curl", HYPER)]
        self.builds = ferry_programs(own, lab.host)
        self.hyper = lab.bring(PEERS / "hyper/target/release/hyper-transfer") if HYPER in clients else None
        self.curl = "curl" in clients

    def of_all(self, protocol: str, direction: str) -> dict[str, list[str]]:
        """By client; a download that ferry discards without a file is a second line."""
        asked = {"curl": self.of_curl(protocol, direction)} if self.curl else {}
        for name in self.builds:
            asked[name] = self.of_ferry(name, protocol, direction)
            if direction == "get":
                asked[f"{name} --discard"] = self.of_ferry(name, protocol, direction, discard=True)
        if self.hyper:
            asked[HYPER] = self.of_hyper(protocol, direction)
        return asked

    def url(self, protocol: str, direction: str) -> str:
        return f"{PROTOCOLS[protocol][0]}://127.0.0.1/{'files/bulk' if direction == 'get' else 'sink/bulk'}"

    def of_curl(self, protocol: str, direction: str) -> list[str]:
        words = ["curl", "-q", "-sS", "--fail", PROTOCOLS[protocol][1], "--cacert", self.ca, "-o", "/dev/null"]
        upload = ["-T", self.source, "-H", "Expect:"] if direction == "put" else []
        return [*words, *upload, self.url(protocol, direction)]

    def of_hyper(self, protocol: str, direction: str) -> list[str]:
        assert self.hyper
        words, url = [self.hyper, PROTOCOLS[protocol][1], "--cacert", self.ca], self.url(protocol, direction)
        return [*words, "put", self.source, url] if direction == "put" else [*words, "get", url, "-o", "/dev/null"]

    def of_ferry(self, name: str, protocol: str, direction: str, *more: str, discard: bool = False) -> list[str]:
        words = [self.builds[name], direction, "--quiet", "--json", "-", PROTOCOLS[protocol][1], *more]
        if protocol != "http1":
            words += ["--cacert", self.ca]
        if direction == "put":
            return [*words, self.source, self.url(protocol, direction)]
        return [*words, *(["--discard"] if discard else ["--overwrite", "-o", "/dev/null"]), self.url(protocol, direction)]


def checked(run: Run, size: int) -> Run:
    """A client that reports must report the complete body, so that a truncated transfer is not fast."""
    report = run.report or {}
    told = report.get("transfers", [report] if "bytes" in report else None)
    if not isinstance(told, list):
        return run
    return replace(run, ok=run.ok and len(told) == 1 and told[0].get("bytes") == size)


def interleaved(lab: Loopback, commands: dict[str, list[str]], n: int, size: int, label: str) -> list[Run]:
    """n runs of each, interleaved in turning order, after one of each that does not count."""
    runs, names = [], list(commands)
    for name in names:
        lab.run(f"{label} {name}", commands[name])
    for index in range(n):
        for name in (names[turn] for turn in turn_order(len(names), index)):
            run = checked(lab.run(name, commands[name]), size)
            runs.append(run)
            say(f"{label} {name} {index + 1}/{n}: {run.wall_s:.2f} s{'' if run.ok else ', FAILED'}")
    return runs


def measured(job: str, runs: Sequence[Run], name: str, size: int) -> Measured:
    """MB/s and CPU seconds per GB of the runs that went well."""
    good = [run for run in runs if run.ok and run.name == name]
    failed = sum(not run.ok for run in runs if run.name == name)
    return Measured(job, name, [size / run.wall_s / MB for run in good], [run.cpu_s / size * 1e9 for run in good], failed)


def row(line: Measured, first: Measured, runs: Sequence[Run]) -> list[str]:
    memories = [run.max_rss_bytes / MB for run in runs if run.ok and run.name == line.client and run.max_rss_bytes]
    return [
        line.job,
        line.client,
        str(len(line.rates)) + (f" ({line.failed} failed)" if line.failed else ""),
        spread(line.rates),
        spread(line.cpu, "{:.2f}"),
        ratio(line.rates, first.rates),
        ratio(line.cpu, first.cpu),
        f"{max(memories):.1f}" if memories else "-",
    ]


def compare(lab: Loopback, commands: Commands, n: int, size: int) -> tuple[list[Measured], list[Run]]:
    """All clients, for every protocol and direction: the table, printed, and the raw samples."""
    lines: list[Measured] = []
    whole: list[Run] = []
    rows: list[list[str]] = []
    first = ""
    for protocol in PROTOCOLS:
        for direction in ("get", "put"):
            label = f"{protocol} {direction}"
            asked = commands.of_all(protocol, direction)
            runs = interleaved(lab, asked, n, size, label)
            whole += [replace(run, name=f"{run.name} {label}") for run in runs]
            found = [measured(label, runs, name, size) for name in asked]
            first = found[0].client
            rows += [row(line, found[0], runs) for line in found]
            lines += found
    print(f"\n{size} B; median (min to max); rates include start and handshake")
    headings = ["transfer", "client", "n", "MB/s", "CPU s/GB", f"rate / {first}", f"CPU / {first}", "peak MB"]
    print(table(headings, rows), flush=True)
    return [replace(line, job=f"bulk, {line.job}") for line in lines], whole


def buffers(lab: Loopback, commands: Commands, n: int, size: int) -> list[Run]:
    """ferry at every buffer size: the slowest over the fastest median is what a careless choice costs."""
    whole, rows = [], []
    name = next(iter(commands.builds))
    for protocol in ("http1", "h2"):
        for direction in ("get", "put"):
            asked = {
                f"{protocol} {direction} {size_}": commands.of_ferry(name, protocol, direction, "--buffer-size", size_)
                for size_ in BUFFERS
            }
            runs = interleaved(lab, asked, n, size, name)
            whole += runs
            medians = {each: statistics.median(rates) for each in asked if (rates := measured("", runs, each, size).rates)}
            cells = [f"{medians[each]:.0f}" if each in medians else "failed" for each in asked]
            worst = f"{min(medians.values()) / max(medians.values()):.2f}" if medians else "-"
            rows.append([f"{protocol} {direction}", *cells, worst])
    print("\nferry, MB/s by --buffer-size (medians)")
    print(table(["transfer", *BUFFERS, "min / max"], rows), flush=True)
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=5, help="samples of each")
    parser.add_argument("--size", type=Size.parse, default=Size(1 << 30))
    parser.add_argument("--quick", action="store_true", help="64 MiB instead")
    parser.add_argument("--client", action="append", help="curl, hyper, or builds of ferry: ferry, ferry-before=PATH")
    parser.add_argument("--no-buffers", action="store_true", help="only the comparison, no buffer sizes")
    options = parser.parse_args()
    size = QUICK_SIZE if options.quick else options.size.bytes
    with loopback() as lab:
        commands = Commands(lab, options.client or CLIENTS, lab.write_random("bulk", size))
        nginx = lab.nginx(workers=2)
        try:
            _, runs = compare(lab, commands, options.n, size)
            if commands.builds and not options.no_buffers:
                runs += buffers(lab, commands, options.n, size)
        finally:
            nginx.stop()
    print(f"raw samples: {keep('bulk', [asdict(run) for run in runs])}")


if __name__ == "__main__":
    one_line_end(main)
