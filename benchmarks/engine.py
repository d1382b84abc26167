"""Has ferry lost anything, and is its own HTTP stack worth it? Requests, bulk and SFTP on the loopback, and a table of ratios.

python -m benchmarks.engine --client ferry --client ferry-before=PATH [-n 7] [--part requests]... [--quick]

The first client is the build that is judged, the second the build before it (without one, that column is dashes). Their samples
are interleaved with each other and with those of hyper, curl and h2load, over SFTP of OpenSSH. The raw samples of all are kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks import bulk, requests, sftp_loopback
from benchmarks.common import HYPER, Loopback, ferry_programs, keep, loopback, one_line_end, say
from benchmarks.ratios import FERRY, Measured, ratios_table
from benchmarks.sftp import DIRECTIONS, Choice
from lab.model.errors import UsageProblem
from lab.model.units import Size

PARTS = ("requests", "bulk", "sftp")
PEERS = (requests.LOOP, HYPER, "curl", "h2load", "openssh")


def measure(lab: Loopback, part: str, builds: Sequence[str], options: argparse.Namespace) -> tuple[list[Measured], object]:
    """One part: its tables, printed; what was measured, and the raw samples."""
    n, size = options.n, options.size.bytes
    if part == "requests":
        commands = requests.peers(lab, [*builds, requests.LOOP, HYPER, "h2load", "curl"])
        return requests.compare(lab, commands, options.server or requests.SERVERS, n, options.requests)
    if part == "bulk":
        commands_ = bulk.Commands(lab, [*builds, HYPER, "curl"], lab.write_random("bulk", size))
        nginx = lab.nginx(workers=2)
        try:
            lines, runs = bulk.compare(lab, commands_, n, size)
        finally:
            nginx.stop()
        return lines, [asdict(run) for run in runs]
    choice = Choice(n, options.quick, [*builds, "openssh"], DIRECTIONS)
    return sftp_loopback.compare(lab, choice, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, help="samples of each (default: 7, and 1 with --quick)")
    parser.add_argument("--client", action="append", help="builds of ferry: the judged one, then the one before it")
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--server", choices=requests.SERVERS, action="append", help="of the requests")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--size", type=Size.parse, help="of a file, bulk and SFTP (default: 1 GiB)")
    parser.add_argument("--quick", action="store_true", help="one small sample of each: does it run at all?")
    options = parser.parse_args()
    quick = options.quick
    options.n = options.n or (1 if quick else sftp_loopback.SAMPLES)
    options.requests = options.requests or (requests.QUICK_REQUESTS if quick else 50_000)
    options.size = options.size or Size(bulk.QUICK_SIZE if quick else 1 << 30)
    texts = options.client or [FERRY]
    lines: list[Measured] = []
    kept: dict[str, object] = {}
    names: list[str] = []
    for part in options.part or PARTS:
        say(f"== {part}")
        # Servers and clients of one part leave nothing behind for the next one.
        with loopback() as lab:
            names = list(ferry_programs(texts, lab.host))
            if len(names) < len(texts):
                raise UsageProblem("a build of ferry is missing", remedy="see above; make engine builds this checkout's")
            found, kept[part] = measure(lab, part, texts, options)
        lines += found
    kept["measured"] = [line.kept() for line in lines]
    print(f"\nratios of medians (95 % bootstrap interval), n = {options.n}: rates above 1 and CPU times below 1 are better")
    print(ratios_table(lines, PEERS, ours=names[0], before=names[1] if len(names) > 1 else "before"))
    print(f"raw samples: {keep('engine', kept)}")


if __name__ == "__main__":
    one_line_end(main)
