"""Cells on workers of this machine: each result once and equal to that of a run without workers, although workers are killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.model.results import CellResult
from tests.support.command import lab, one_line
from tests.support.dask_cluster import DaskCluster, start
from tests.virtual.workers import Runs, begun, differences, draw, lost, read, repeated, without_scheduler

CELLS = 8
FEW = 5
"""`python -m tests.virtual.workers` is the long version."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"), draw(CELLS, seed=2))


@pytest.fixture
def few(runs: Runs) -> Runs:
    return Runs(runs.folder, runs.cells[:FEW])


@pytest.fixture
def few_alone(few: Runs, alone: dict[str, CellResult]) -> dict[str, CellResult]:
    return {name: alone[name] for name in few.cells}


@pytest.fixture(scope="module")
def alone(runs: Runs) -> dict[str, CellResult]:
    runs.begin().wait()
    found = read(runs.latest())
    assert found.keys() == set(runs.cells), runs.said()
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path, 2) as made:
        yield made


def test_a_worker_that_is_killed_costs_what_it_was_doing_one_repetition(
    runs: Runs, alone: dict[str, CellResult], cluster: DaskCluster
) -> None:
    command, _ = begun(runs, cluster, 2)
    cluster.kill("w1")
    cluster.revive()
    command.wait()
    found = read(runs.latest())
    assert differences(alone, found) == []
    assert lost(found) == set(repeated(runs.said()))
    assert len(repeated(runs.said())) <= 1, "it had one cell at a time"
    assert {cell.before.machine["worker"] for cell in found.values()} == {"w1", "w2"}
    assert lab("results", "validate", str(runs.latest().path)).returncode == 0


def test_a_scheduler_that_is_killed_ends_the_run_in_one_line_and_resume_goes_on(
    few: Runs, few_alone: dict[str, CellResult], cluster: DaskCluster
) -> None:
    assert list(without_scheduler(cluster, few, few_alone, 2)) == []


def test_a_worker_that_hangs_is_lost(few: Runs, few_alone: dict[str, CellResult], tmp_path: Path) -> None:
    with DaskCluster(tmp_path, 2, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="4s") as cluster:
        command, _ = begun(few, cluster, 1)
        cluster.kill("w2", signal.SIGSTOP)
        command.wait()
    found = read(few.latest())
    assert differences(few_alone, found) == []
    assert lost(found) == set(repeated(few.said()))


def test_workers_lists_what_they_offer_and_a_relative_address_is_one_line(cluster: DaskCluster) -> None:
    done = lab("workers", cluster.address, "--client", "curl", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"virtual": 1') == 2
    assert "no Dask scheduler answers at" in one_line(lab("workers", "here"))


def test_dasks_own_worker_offers_the_same_by_a_preload(cluster: DaskCluster) -> None:
    words = ("-m", "distributed.cli.dask_worker", cluster.address, "--preload", "lab.run.workers.preload", "--no-nanny")
    words = (*words, "--nworkers", "1", "--nthreads", "3", "--memory-limit", "0", "--name", "theirs")
    process = start(*words, env=cluster.env, log=cluster.folder / "theirs.log")
    try:
        cluster.wait_for(3)
        done = lab("workers", cluster.address)
        assert any(line.startswith("theirs ") and "virtual=" in line for line in done.stdout.splitlines()), done.stdout
    finally:
        process.kill()
        process.wait()
