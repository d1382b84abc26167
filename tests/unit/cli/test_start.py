"""Programs load what they use: a list of modules that a command has to do without, because seconds depend on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CELL = "curl--dsl-20--http1-get-1MiB-at-1MBps"
NUMERIC = {"numpy", "scipy", "ruptures", "duckdb"}
FRONTS = {"robot", "distributed", "asyncio", "jinja2", "rich", "lab.robot.profiles", "lab.robot.suite", "lab.run.workers.crew"}
HOSTS = {"lab.hosts.compose.network", "lab.hosts.vagrant.network"}
PROGRAM = """
import sys
from lab.cli.start import main
try:
    main()
except SystemExit as end:
    assert not end.code, end
print("modules:", *sys.modules)
"""
JUDGE = """
import sys
from lab.judge.caveats import drift_caveat
from lab.judge.decide import VIRTUAL_PLAN, LookPlan
from lab.judge.interval import mean_interval
for plan in (VIRTUAL_PLAN, LookPlan(), LookPlan.single(7)):
    for look in plan.looks:
        mean_interval([0.1 * (3 * index % 7) for index in range(look)], plan.confidence)
drift_caveat([0.1, 0.3, 0.2, 0.4, 0.35, 0.39], 0.05)
print("modules:", *sys.modules)
"""


def loaded(program: str, *words: str, folder: Path) -> set[str]:
    """The modules of a Python that has run the program."""
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True, cwd=folder)
    return set(done.stdout.rpartition("modules:")[2].split())


def test_a_version_loads_no_model(tmp_path: Path) -> None:
    found = loaded(PROGRAM, "--version", folder=tmp_path)
    assert "lab.cli.main" in found
    assert not found & (NUMERIC | FRONTS | HOSTS | {"pydantic", "cryptography", "lab.run.questions", "lab.model.units"})


def test_a_cell_by_name_loads_neither_robot_nor_workers(tmp_path: Path) -> None:
    found = loaded(PROGRAM, "run", "--dry-run", CELL, folder=tmp_path)
    assert "lab.run.session" in found
    assert not found & (NUMERIC | FRONTS | HOSTS | {"lab.run.flamegraph", "lab.run.events.faults"})


@pytest.mark.parametrize("command", ["history", "suites", "report", "results", "test"])
def test_help_of_a_command_loads_no_numbers(command: str, tmp_path: Path) -> None:
    assert not loaded(PROGRAM, command, "--help", folder=tmp_path) & NUMERIC


def test_a_verdict_on_a_cell_needs_no_scipy(tmp_path: Path) -> None:
    found = loaded(JUDGE, folder=tmp_path)
    assert "lab.judge.interval" in found
    assert not found & NUMERIC
