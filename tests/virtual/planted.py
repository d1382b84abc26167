"""Clients with a planted threshold, and `python -m tests.virtual.planted [N] [SEED] [FIRST]`: N searches for drawn thresholds.

Each is ferry behind a script, which fails once its limit, or the round trip that it measures, is above the threshold.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.clients.ferry import find_ferry

_LIMIT = """#!/bin/sh
before=
for word; do
    if [ "$before" = --limit-rate ] && [ "$word" -gt {truth} ]; then exit 7; fi
    before=$word
done
exec {ferry} "$@"
"""
# The handshake takes one round trip, and its two frames of 74 bytes take their own time on a wire of 10 Mbit/s.
_WIRE_S = 2 * 74 * 8 / 10e6
_RTT = """#!/usr/bin/python3 -S
import os, socket, sys, time
for word in sys.argv[1:]:
    if word.startswith("http://"):
        host, _, port = word.split("/")[2].partition(":")
        address = socket.gethostbyname(host)
        begun = time.monotonic()
        socket.create_connection((address, int(port or 80))).close()
        if time.monotonic() - begun > {truth_s} + {wire_s}:
            sys.exit(7)
os.execv("{ferry}", ["ferry", *sys.argv[1:]])
"""
LIMITS, ROUND_TRIPS_MS = (100_000, 2_000_000), (1.0, 600.0)


def planted_limit(folder: Path, truth: int) -> list[str]:
    """Words of `lab search limit` for a client that fails above `truth` bytes per second."""
    client = _script(folder / "planted", _LIMIT.format(truth=truth, ferry=find_ferry()))
    low, high = LIMITS
    ends = ["--from", f"{low}B/s", "--to", f"{high}B/s"]
    return [f"ferry-planted={client}", "--topology", "dsl-20", "--transfer", "http1-put", *ends, "--for", "2s"]


def planted_rtt(folder: Path, truth_ms: float) -> list[str]:
    """Words of `lab search rtt` for a client that fails beyond a round trip of `truth_ms` milliseconds."""
    client = _script(folder / "planted", _RTT.format(truth_s=truth_ms / 1e3, wire_s=_WIRE_S, ferry=find_ferry()))
    return [f"ferry-planted={client}", "--rate", "10mbit", "--size", "1MB", "--share", "1%"]


def _script(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def _drawn(rng: random.Random, ends: tuple[float, float]) -> float:
    return math.exp(rng.uniform(math.log(ends[0] * 1.05), math.log(ends[1] / 1.05)))


def main(count: int = 20, seed: int = 1, first: int = 1) -> int:
    """Half limits, half round trips; a line each, and how many were found within 2 % in at most 15 cells.

    Draws before the `first` are not run.
    """
    rng, good, begun = random.Random(seed), 0, time.monotonic()
    for number in range(count):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if number % 2:
                kind, key, truth = "rtt", "rtt_s", _drawn(rng, ROUND_TRIPS_MS) / 1e3
                words = planted_rtt(folder, truth * 1e3)
            else:
                kind, key, truth = "limit", "limit_byte_s", float(round(_drawn(rng, LIMITS)))
                words = planted_limit(folder, int(truth))
            if number + 1 < first:
                continue
            argv = [sys.executable, "-m", "lab.cli.main", "search", kind, *words, "--json"]
            env = {**os.environ, "ROUGHWATER_RESULTS": str(folder / "results")}
            done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
            arms = json.loads(done.stdout)["arms"] if done.returncode in (0, 3) else []
            passed = max((arm["figures"][key] for arm in arms if arm["verdict"] == "PASS"), default=0.0)
            error = passed / truth - 1
            held = done.returncode == 0 and abs(error) <= 0.02 and len(arms) <= 15
            good += held
            print(
                f"{kind} {truth:.6g}: {passed:.6g}, {error:+.2%}, {len(arms)} cells, {'found' if held else 'MISSED'}", flush=True
            )
            if not arms:
                print(done.stderr[-500:])
    print(f"{good} of {count - first + 1} found, {time.monotonic() - begun:.0f} s")
    return 0 if good == count - first + 1 else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
