"""One large body over the loopback: rate, CPU and memory of ferry and curl, and the effect of the buffer size.

python -m benchmarks.bulk [-n 5] [--size 1GiB] [--quick]

Uploads end in the lab's sink, a Python process behind nginx: if it is the limit, rates are equal and only CPU time differs.
Rates are bytes per second of the process's wall time, start and handshake included.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace

from benchmarks.common import Loopback, Run, ferry_program, keep, loopback, one_line_end, ratio, say, spread, table
from lab.model.units import Size

PROTOCOLS = {"http1": ("http", "--http1.1"), "https1": ("https", "--http1.1"), "h2": ("https", "--http2")}
BUFFERS = ("4K", "16K", "64K", "256K", "1M", "4M", "16M")
MB = 1e6


class Commands:
    """The same transfer in the words of each client."""

    def __init__(self, lab: Loopback, ferry: str | None, source: str) -> None:
        self.ferry, self.ca, self.source = ferry, lab.ca_path, source

    def url(self, protocol: str, direction: str) -> str:
        return f"{PROTOCOLS[protocol][0]}://127.0.0.1/{'files/bulk' if direction == 'get' else 'sink/bulk'}"

    def of_curl(self, protocol: str, direction: str) -> list[str]:
        words = ["curl", "-q", "-sS", "--fail", PROTOCOLS[protocol][1], "--cacert", self.ca, "-o", "/dev/null"]
        upload = ["-T", self.source, "-H", "Expect:"] if direction == "put" else []
        return [*words, *upload, self.url(protocol, direction)]

    def of_ferry(self, protocol: str, direction: str, *more: str, discard: bool = False) -> list[str]:
        assert self.ferry
        words = [self.ferry, direction, "--quiet", "--json", "-", PROTOCOLS[protocol][1], *more]
        if protocol != "http1":
            words += ["--cacert", self.ca]
        if direction == "put":
            return [*words, self.source, self.url(protocol, direction)]
        return [*words, *(["--discard"] if discard else ["--overwrite", "-o", "/dev/null"]), self.url(protocol, direction)]


def checked(run: Run, size: int) -> Run:
    """A client that reports must report the complete body, so that a truncated transfer is not fast."""
    told = (run.report or {}).get("transfers")
    if not isinstance(told, list):
        return run
    return replace(run, ok=run.ok and len(told) == 1 and told[0].get("bytes") == size)


def interleaved(lab: Loopback, commands: dict[str, list[str]], n: int, size: int) -> list[Run]:
    """n runs of each, one of each after the other, after one of each that does not count."""
    runs = []
    for round_ in range(n + 1):
        for name, command in commands.items():
            run = checked(lab.run(name, command), size)
            if round_:
                runs.append(run)
                say(f"{name} {round_}/{n}: {run.wall_s:.2f} s{'' if run.ok else ', FAILED'}")
    return runs


def figures(runs: Sequence[Run], name: str, size: int) -> tuple[list[float], list[float], list[float]]:
    """MB/s, CPU seconds per GB and MB of memory of the runs that went well."""
    good = [run for run in runs if run.ok and run.name == name]
    rates = [size / run.wall_s / MB for run in good]
    return rates, [run.cpu_s / size * 1e9 for run in good], [run.max_rss_bytes / MB for run in good if run.max_rss_bytes]


def compare(lab: Loopback, commands: Commands, n: int, size: int) -> list[Run]:
    """ferry and curl, for every protocol and direction."""
    whole, rows = [], []
    for protocol in PROTOCOLS:
        for direction in ("get", "put"):
            label = f"{protocol} {direction}"
            asked = {f"curl {label}": commands.of_curl(protocol, direction)}
            if commands.ferry:
                asked[f"ferry {label}"] = commands.of_ferry(protocol, direction)
                if direction == "get":
                    asked[f"ferry --discard {label}"] = commands.of_ferry(protocol, direction, discard=True)
            runs = interleaved(lab, asked, n, size)
            whole += runs
            base = figures(runs, f"curl {label}", size)
            for name in asked:
                rates, cpus, memories = figures(runs, name, size)
                memory = f"{max(memories):.1f}" if memories else "-"
                ratios = [ratio(rates, base[0]), ratio(cpus, base[1])]
                rows.append([name, str(len(rates)), spread(rates), spread(cpus, "{:.2f}"), *ratios, memory])
    print(f"\n{size} B; median (min to max); rates include start and handshake")
    print(table(["transfer", "n", "MB/s", "CPU s/GB", "rate / curl", "CPU / curl", "peak MB"], rows), flush=True)
    return whole


def buffers(lab: Loopback, commands: Commands, n: int, size: int) -> list[Run]:
    """ferry at every buffer size: the slowest over the fastest median is what a careless choice costs."""
    whole, rows = [], []
    for protocol in ("http1", "h2"):
        for direction in ("get", "put"):
            asked = {
                f"{protocol} {direction} {size_}": commands.of_ferry(protocol, direction, "--buffer-size", size_)
                for size_ in BUFFERS
            }
            runs = interleaved(lab, asked, n, size)
            whole += runs
            medians = {name: statistics.median(rates) for name in asked if (rates := figures(runs, name, size)[0])}
            cells = [f"{medians[name]:.0f}" if name in medians else "failed" for name in asked]
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
    options = parser.parse_args()
    size = 64 << 20 if options.quick else options.size.bytes
    with loopback() as lab:
        commands = Commands(lab, ferry_program(lab.host), lab.write_random("bulk", size))
        nginx = lab.nginx(workers=2)
        try:
            runs = compare(lab, commands, options.n, size)
            if commands.ferry:
                runs += buffers(lab, commands, options.n, size)
        finally:
            nginx.stop()
    print(f"raw samples: {keep('bulk', [asdict(run) for run in runs])}")


if __name__ == "__main__":
    one_line_end(main)
