"""The way from the command line to a written verdict is short, and goes through each room about once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Two stages and a return of them fetch the programs that a machine lacks, before anything runs (ADR 0021).
MOST_STAGES, MOST_RETURNS = 17, 6


@pytest.mark.parametrize(
    "words", [["ferry--dsl-20--http1-get-1MB-at-1MBps"], ["throttle", "--test", "DSL 20, H1 Get, 8*"]], ids=["cell", "suite"]
)
def test_the_path_of_a_run(words: list[str]) -> None:
    command = [sys.executable, "-m", "tests.support.hops", "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=True)
    stages, _, returns, _ = done.stdout.splitlines()[-1].split()
    assert int(stages) <= MOST_STAGES, done.stdout
    assert int(returns) <= MOST_RETURNS, done.stdout
