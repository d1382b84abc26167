"""One seed, one outcome: packets and results are the same in every boot, whatever else the host does; another seed's are not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.model.errors import EXIT_FAIL
from lab.model.results import CellResult
from lab.model.topology import Topology
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import RunDir, read_cell
from tests.virtual.boots import CLEAN, LOSSY, PROTOCOLS, SAMPLES, Boot, busy_loops, cell_of, run

pytestmark = pytest.mark.timeout(600)

CELLS = ("curl--lossy-wifi--h2-get-128KiB-at-300kBps", "curl--dsl-20--sftp-put-128KiB-at-1600kBps")
"""Both draw random numbers, by which a machine that differs in the least is known."""


def moves(result: CellResult) -> list[tuple[int, int, float]]:
    """What differs between samples: packets lost at the router, packets sent, and how long it took."""
    wires = [(sample.wire, sample.wall_s) for sample in result.samples]
    return [(wire.router_drops_down, wire.wire_packets_down, wall_s) for wire, wall_s in wires if wire]


@pytest.mark.parametrize("topology", [CLEAN, LOSSY], ids=lambda topology: topology.name)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_seed_gives_the_same_packets_and_the_same_result(protocol: str, topology: Topology, tmp_path: Path) -> None:
    cell = cell_of(protocol, topology)
    result, alone = run(cell, 1, tmp_path)
    assert result.verdict.name == "PASS", result.verdict.reason
    assert len(set(alone.captures)) == SAMPLES, "samples of one cell differ on purpose"
    with busy_loops():
        assert run(cell, 1, tmp_path)[1] == alone


def test_cells_that_run_side_by_side_in_one_process_come_out_as_they_do_alone(tmp_path: Path) -> None:
    """Threads share objects, and what a request to a machine looks like must not depend on who else refers to them."""
    cells = [cell_of(protocol, CLEAN) for protocol in PROTOCOLS]
    alone = [run(cell, 1, tmp_path)[1] for cell in cells]
    with ThreadPoolExecutor(len(cells)) as pool:
        together = list(pool.map(lambda cell: run(cell, 1, tmp_path)[1], cells * 2))
    assert together == alone * 2


def test_another_seed_gives_other_samples_and_another_loss_pattern(tmp_path: Path) -> None:
    cell = cell_of("http1", LOSSY, size="2 MB", limit=None)
    found: list[tuple[CellResult, Boot]] = [run(cell, seed, tmp_path) for seed in (1, 2)]
    (one, one_boot), (other, other_boot) = found
    assert set(one_boot.captures).isdisjoint(other_boot.captures)
    assert one_boot.result != other_boot.result
    assert moves(one) != moves(other)
    assert {sample.seed for sample in one.samples}.isdisjoint({sample.seed for sample in other.samples})
    assert all(drops for drops, *_ in moves(one) + moves(other)), "1 % of these packets is lost"


def ran(checkout: Path, results: Path, path_variable: str) -> dict[str, CellResult]:
    """Cells as a person runs them in that checkout, whose compiled files are kept, with that PATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "lab.cli.main", "run", *CELLS, "--clock", "virtual", "--max-samples", "5"],
        env={**environment, "PYTHONPATH": str(checkout), "PATH": path_variable, "ROUGHWATER_RESULTS": str(results)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, EXIT_FAIL), done.stderr
    found = {path.name: read_cell(path) for path in RunDir.find("latest", results=results).cells.glob("*.json")}
    assert len(found) == len(CELLS), done.stderr
    return found


def test_neither_the_checkout_nor_the_callers_path_nor_what_lies_there_counts(tmp_path: Path) -> None:
    """The machine's clock counts the steps that its programs take to find something: they must not find the caller's files."""
    project = Path(__file__).parents[2]
    other = tmp_path / "another place for the same files"
    other.mkdir()
    shutil.copytree(project / "lab", other / "lab")
    for name in ("images", "topologies", "suites", "reports", "engine", "pyproject.toml"):
        (other / name).symlink_to(project / name)
    for place in (other, other / "lab" / "hosts" / "agent"):
        for number in range(40):
            (place / f"a file that was not there before, number {number}").touch()
    path_variable = os.environ["PATH"]
    here = ran(project, tmp_path / "results", path_variable)
    there = ran(other, tmp_path / "results elsewhere", f"{tmp_path}:{path_variable}:{tmp_path}/and/another")
    assert [first_difference(view(here[name]), view(there[name])) for name in here] == [None] * len(CELLS)
