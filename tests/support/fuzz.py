"""`python -m tests.support.fuzz [--seconds S] [TARGET...]`: builds the fuzz targets, runs each for S seconds, one per processor.

libFuzzer's corpus is kept in the cache, in `fuzz/TARGET`: the next run begins with it. An input that makes a
target fail is written to engine/fuzz/artifacts/TARGET. The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.assets.engine import environment, find_cargo
from lab.model.paths import cache_dir

FUZZ = Path(__file__).parents[2] / "engine" / "fuzz"
# With a target named, these flags are not for build scripts, which have no libFuzzer to report to.
TRIPLE = "x86_64-unknown-linux-gnu"
# What cargo-fuzz asks of rustc, without its sanitizers: the crates under test forbid unsafe code. See `cargo fuzz build -v`,
# and https://llvm.org/docs/LibFuzzer.html for the coverage that libFuzzer reads.
COVERAGE = (
    "-Cpasses=sancov-module",
    *(f"-Cllvm-args=-sanitizer-coverage-{what}" for what in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")),
    "--cfg=fuzzing",
)  # fmt: skip
LONGEST_INPUT = 4096
MOST_MEMORY_MIB = 1024
SLOWEST_INPUT_S = 10


@dataclass(frozen=True)
class Fuzzed:
    """A target's run. `fault` is libFuzzer's message about the input that ended it."""

    target: str
    runs: int
    kept: int
    fault: str | None

    def __str__(self) -> str:
        return f"{self.target}: {self.runs:,} runs, {self.kept} inputs kept, {self.fault or 'no fault'}"


def targets() -> list[str]:
    """Those of the manifest."""
    return [binary["name"] for binary in tomllib.loads((FUZZ / "Cargo.toml").read_text())["bin"]]


def build() -> Path:
    """The folder of the programs."""
    cargo = find_cargo()
    if cargo is None:
        raise SystemExit("fuzz: no cargo that is recent enough: run `make setup`")
    env = environment(cargo) | {"RUSTFLAGS": " ".join(COVERAGE)}
    subprocess.run([cargo, "build", "--release", "--locked", "--quiet", "--target", TRIPLE], cwd=FUZZ, env=env, check=True)
    return FUZZ / "target" / TRIPLE / "release"


def fuzz(programs: Path, target: str, seconds: int) -> Fuzzed:
    """One target, from the seeds and from what earlier runs kept."""
    corpus, seeds, artifacts = cache_dir() / "fuzz" / target, FUZZ / "seeds" / target, FUZZ / "artifacts" / target
    for folder in (corpus, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    limits = {"max_total_time": seconds, "max_len": LONGEST_INPUT, "rss_limit_mb": MOST_MEMORY_MIB, "timeout": SLOWEST_INPUT_S}
    flags = [*(f"-{name}={most}" for name, most in limits.items()), "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    done = subprocess.run(
        [programs / target, *flags, corpus, seeds],
        capture_output=True, text=True, errors="replace", timeout=seconds + 300, check=False,
    )  # fmt: skip
    runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    fault = None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.search(r"panicked|ERROR|SUMMARY|Test unit written", line)]
        fault = "; ".join(lines[-4:]) or f"exit code {done.returncode}: {done.stderr[-300:]}"
    return Fuzzed(target, int(runs[1]) if runs else 0, sum(1 for _ in corpus.iterdir()), fault)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("target", nargs="*", default=[], choices=[*targets(), []], help="by default all")
    asked = parser.parse_args(words)
    programs = build()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda target: fuzz(programs, target, asked.seconds), asked.target or targets()))
    print(*results, sep="\n")
    failed = sum(result.fault is not None or result.runs == 0 for result in results)
    print(f"fuzz: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
