"""`python -m images.vagrant.prove`: the vagrant backend on three real virtual machines, by QEMU alone, certificate and all.

Slow (no KVM: every instruction is emulated, and three machines share this one's cores), so it is no test. It measures by
`lab calibrate` and `lab run --backend vagrant`, as anybody would; the machines are gone afterwards.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from images.vagrant.machines import Machines
from lab.backend.vagrant.machines import CONFIG_VARIABLE, PATIENCE_VARIABLE
from lab.errors import ThroughlineError, UsageProblem

CELLS = ("curl--dsl-20--http1-get-5MiB-at-1MBps", "ferry--dsl-20--http1-get-5MiB-at-1MBps")
# An emulated processor is ten to twenty times slower.
_PATIENCE = "20"
_LAB = "import sys; from lab.cli.main import main; sys.exit(main())"


def progress(message: str) -> None:
    print(f"prove: {message}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        with Machines(progress, accel=arguments.accel, memory_mib=arguments.memory, cpus=arguments.cpus) as machines:
            environment = {**os.environ, CONFIG_VARIABLE: str(machines.config), PATIENCE_VARIABLE: _PATIENCE}
            codes = [_lab(words, environment, arguments.timeout) for words in _commands(arguments)]
    except ThroughlineError as error:
        progress(str(error))
        return error.exit_code
    except subprocess.TimeoutExpired as late:
        progress(f"stopped after {late.timeout:.0f} s (--timeout)")
        return 4
    return max(codes, default=0)


def _commands(arguments: argparse.Namespace) -> list[list[str]]:
    found = []
    if arguments.looks:
        found.append(
            ["calibrate", "--rate", arguments.rate, "--rtt", arguments.rtt, "-n", str(arguments.looks), "--backend", "vagrant"]
        )
    if arguments.cells:
        # Any host: what else is busy on this machine is the machines themselves.
        found.append(["run", *arguments.cells, "--backend", "vagrant", "--max-samples", "5", "--any-host"])
    if not found:
        raise UsageProblem("nothing to measure", remedy="give --looks or cells")
    return found


def _lab(words: list[str], environment: dict[str, str], timeout_s: float) -> int:
    progress(f"lab {' '.join(words)}")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", _LAB, *words], env=environment, cwd=root, timeout=timeout_s, check=False)
    progress(f"it ended with {done.returncode}")
    return done.returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prove", description="The vagrant backend on three emulated Debian machines.")
    parser.add_argument("cells", nargs="*", default=list(CELLS), help="cells to run (default: %(default)s)")
    parser.add_argument("--looks", type=int, default=3, metavar="N", help="calibrations before them; 0 for none (%(default)s)")
    parser.add_argument("--rate", default="20mbit", help="of those (%(default)s)")
    parser.add_argument("--rtt", default="30ms", help="of those (%(default)s)")
    parser.add_argument("--accel", choices=("kvm", "tcg"), default="tcg", help="%(default)s: kvm is not tried by itself")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help="of each machine (%(default)s)")
    parser.add_argument("--cpus", type=int, default=1, help="of each machine (%(default)s)")
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="SECONDS", help="for each command (%(default).0f)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
