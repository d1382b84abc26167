"""`make vm-proof`: the vagrant backend on three real virtual machines, by QEMU alone, certificate and all.

Too slow for a test: without KVM every instruction is emulated, and three machines share the cores of this one. It runs
`lab calibrate` and `lab run --backend vagrant`, like any user, and removes the machines afterwards.

It fails if there is no verdict: a link or a cell is INVALID, the usage is wrong, or a command did not end. A client that is slow
because its processor is emulated may FAIL: the proof is about the lab, so any verdict will do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from images.vagrant.machines import Machines
from lab.cli.calibrate import LEAST_LOOKS, MOST_LOOKS
from lab.hosts.vagrant.machines import CLIENT_VARIABLE, CONFIG_VARIABLE, PATIENCE_VARIABLE
from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, RoughwaterError, UsageProblem
from lab.model.paths import project_root, results_dir
from lab.model.units import BitRate, Duration
from lab.run.named_cells import named_cells
from lab.store.run_dir import read_run

# The rows of the throttle suite for the link that is calibrated.
SUITE = ("throttle", "--test", "DSL 20*", "--client", "ferry")
# Any host: what else is busy on this machine is the machines themselves.
_HOW = ("--backend", "vagrant", "--max-samples", "5", "--any-host")
# An emulated processor is ten to twenty times slower.
_PATIENCE = "20"
_LAB = "import sys; from lab.cli.main import main; sys.exit(main())"
_VERDICTS = (EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE)


def progress(message: str) -> None:
    print(f"prove: {message}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        words = commands(arguments)
        before = _runs()
        with Machines(progress, accel=arguments.accel, memory_mib=arguments.memory, cpus=arguments.cpus) as machines:
            environment = {**os.environ, CONFIG_VARIABLE: str(machines.config), PATIENCE_VARIABLE: _PATIENCE}
            # The lab starts in the checkout, whose folder need not be this one.
            environment["ROUGHWATER_RESULTS"] = str(results_dir())
            # These machines have one client.
            environment.pop(CLIENT_VARIABLE, None)
            codes = [_lab(each, environment, arguments.timeout) for each in words]
        invalid = invalid_cells(words[-1], _runs() - before)
    except RoughwaterError as error:
        progress(str(error))
        return error.exit_code
    except subprocess.TimeoutExpired as late:
        progress(f"no verdict: stopped after {late.timeout:.0f} s (--timeout)")
        return EXIT_INVALID
    code, conclusion = conclude(codes, invalid, emulated=arguments.accel == "tcg")
    progress(conclusion)
    return code


def commands(arguments: argparse.Namespace) -> list[list[str]]:
    """The arguments for `lab`, the run last. Raises UsageProblem, before machines boot, if `lab` would refuse them."""
    found = []
    if arguments.looks:
        if not LEAST_LOOKS <= arguments.looks <= MOST_LOOKS:
            raise UsageProblem(f"--looks {arguments.looks}", remedy=f"give 0, or {LEAST_LOOKS} to {MOST_LOOKS}")
        try:
            BitRate.parse(arguments.rate), Duration.parse(arguments.rtt)
        except ValueError as problem:
            raise UsageProblem(str(problem)) from None
        link = ["--rate", arguments.rate, "--rtt", arguments.rtt]
        found.append(["calibrate", *link, "-n", str(arguments.looks), "--backend", "vagrant"])
    if arguments.cells:
        named_cells(arguments.cells)
    found.append(["run", *(arguments.cells or SUITE), *_HOW])
    return found


def conclude(codes: Sequence[int], invalid: Sequence[str], *, emulated: bool) -> tuple[int, str]:
    """The proof's exit code and last line. `codes` are `lab`'s: a 1, for a cell that failed, hides those that are `invalid`."""
    # Negative: ended by that signal.
    faults = [code if code > 0 else EXIT_INVALID for code in codes if code not in _VERDICTS]
    if invalid:
        return max([EXIT_INVALID, *faults]), f"no verdict on {', '.join(invalid)}: INVALID, see above."
    if faults:
        return max(faults), f"no verdict (exit code {max(faults)}): see above."
    if set(codes) == {EXIT_PASS}:
        return EXIT_PASS, "the proof is complete: the links were proven, and every cell passed."
    slowed = " that emulation slows: they do not hold for a real processor" if emulated else ""
    return EXIT_PASS, f"the proof is complete: the links were proven. FAIL and INCONCLUSIVE above are of a client{slowed}."


def invalid_cells(words: Sequence[str], runs: Iterable[Path]) -> list[str]:
    """The runs of `runs` that this command started; the folder may hold others."""
    ours = [record for record in map(read_run, runs) if record.command[1:] == list(words)]
    return sorted(name for record in ours for name, verdict in record.verdicts.items() if verdict == "INVALID")


def _runs() -> set[Path]:
    return set(results_dir().glob("*/run.json"))


def _lab(words: list[str], environment: dict[str, str], timeout_s: float) -> int:
    progress(f"lab {' '.join(words)}")
    argv = [sys.executable, "-c", _LAB, *words]
    done = subprocess.run(argv, env=environment, cwd=project_root(), timeout=timeout_s, check=False)
    progress(f"it ended with {done.returncode}")
    return done.returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="prove", description="The vagrant backend on three emulated Debian machines.")
    parser.add_argument("cells", nargs="*", help=f"cells to run (default: lab run {' '.join(SUITE)!r})")
    parser.add_argument("--looks", type=int, default=5, metavar="N", help="calibrations before them; 0 for none (%(default)s)")
    parser.add_argument("--rate", default="20mbit", help="of those (%(default)s)")
    parser.add_argument("--rtt", default="30ms", help="of those (%(default)s)")
    parser.add_argument("--accel", choices=("kvm", "tcg"), default="tcg", help="%(default)s: kvm is not tried by itself")
    parser.add_argument("--memory", type=int, default=512, metavar="MIB", help="of each machine (%(default)s)")
    parser.add_argument("--cpus", type=int, default=1, help="of each machine (%(default)s)")
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="SECONDS", help="for each command (%(default).0f)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
