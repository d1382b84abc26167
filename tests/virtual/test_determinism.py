"""One seed, one outcome: packets and results are the same in every boot, whatever else the host does; another seed's are not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.model.results import CellResult
from lab.model.topology import Topology
from tests.virtual.boots import CLEAN, LOSSY, PROTOCOLS, SAMPLES, Boot, busy_loops, cell_of, run

pytestmark = pytest.mark.timeout(600)


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
