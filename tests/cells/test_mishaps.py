"""Those of the mishaps (tests/unit/cli/mishaps.yaml) that show on a host: as a command of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mishaps import ROWS, Mishap, check, furnish


@pytest.mark.parametrize("row", [row for row in ROWS if row.boots], ids=lambda row: row.mishap)
def test_a_mishap_on_a_host_ends_in_one_line(row: Mishap, tmp_path: Path) -> None:
    furnish(row, tmp_path)
    env = {name: value for name, value in os.environ.items() if name != "ROUGHWATER_RESULTS"}
    words = [sys.executable, "-m", "lab.cli.main", *shlex.split(row.run)]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=540)
    check(row, tmp_path, done.returncode, done.stdout, done.stderr)
