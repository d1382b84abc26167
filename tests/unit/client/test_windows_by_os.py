"""A run on Linux beside a fixture of one on Windows (no measurement), and what a cell under Wine says of its system."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lab.cli.compare import compare_runs
from lab.judge.matching import os_of
from lab.result.comparison import Comparison
from lab.result.comparison_table import render_comparison
from lab.result.models import ClientIdentity, HostSnapshot
from lab.result.salvage import read_run_folder
from lab.runner.release_set import Asked
from lab.runner.together import Together
from lab.spec.models import ClientSpec
from lab.spec.units import Ratio
from reports.build import compare_page
from tests.support import windows_fixture

WINE = "Wine 8.0, not Windows"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    linux, windows = windows_fixture.unpack(tmp_path_factory.mktemp("windows-fixture"))
    return compare_runs(linux, windows, Ratio(0.01), "os")


def test_the_fixture_says_that_it_is_one(tmp_path: Path) -> None:
    linux, windows = (read_run_folder(run.path) for run in windows_fixture.unpack(tmp_path))
    assert [cell.id for cell in linux.cells] == [cell.id for cell in windows.cells]
    assert not linux.problems
    assert not windows.problems
    for cell in windows.cells:
        assert "fixture" in cell.run
        assert "not a measurement" in str(cell.before.hosts["client"]["fixture"])
        assert any("not a measurement" in note for note in cell.client.notes)
        assert {"version", "build", "nic"} <= cell.before.hosts["client"].keys()


def test_by_os_the_sides_bear_the_systems_names(found: Comparison) -> None:
    assert found.cells
    for row in found.cells:
        assert (row.a.value, row.b.value) == ("Linux", "Windows")
        assert row.verdict.interval
        assert row.verdict.interval.mean == pytest.approx(1.0), "the fixture's speeds are the Linux run's"


def test_the_cost_is_told_absolute_and_normalised(found: Comparison) -> None:
    for row in found.cells:
        assert row.a.cpu_s_per_gb
        assert row.b.cpu_s_per_gb == pytest.approx(2 * row.a.cpu_s_per_gb)
        assert row.a.hashed_mb_per_gb
        assert row.b.hashed_mb_per_gb == pytest.approx(row.a.hashed_mb_per_gb), "twice the seconds at half the score"
        assert row.cost
        assert row.cost.mean == pytest.approx(2.0)
        assert any(f"{row.a.cell}: Linux" in note and "; Windows" in note for note in found.notes)


def test_the_table_and_the_page_have_both(found: Comparison) -> None:
    console = Console(record=True, width=160, file=StringIO())
    render_comparison(found, console)
    text, page = console.export_text(), compare_page(found)
    for told in (text, page):
        for word in ("Linux", "Windows", windows_fixture.WINDOWS):
            assert word in told
        for row in found.cells:
            assert f"{row.a.cpu_s_per_gb:.2f}" in told
            assert f"{row.b.cpu_s_per_gb:.2f}" in told
            assert f"{row.a.hashed_mb_per_gb:.0f}" in told


def test_of_two_clients_in_one_network_only_that_under_wine_is_of_another_system(tmp_path: Path) -> None:
    linux, _ = windows_fixture.unpack(tmp_path)
    cell = read_run_folder(linux.path).cells[0]
    cells = [Asked("link-local--http1-get-1MB", "-").cell(ClientSpec(name=name)) for name in ("native", "wine")]
    identities = {
        each.client: ClientIdentity(name=each.client.name, version=f"ferry 1{more}", path="/f", sha256="0" * 64, command=[])
        for each, more in zip(cells, ("", f" under {WINE}"), strict=True)
    }
    together = Together(cells, lambda _: iter(()), [], identities, [[], []], [[], []])
    shared = HostSnapshot(at=datetime.now(UTC), machine={}, hosts={"client": {"routes": []}, "router": {}})
    seen = [together.snapshot(index, shared) for index in (0, 1)]
    assert seen[0] is shared
    assert seen[1].hosts == {"client": {"routes": [], "system": WINE}, "router": {}}
    assert [os_of(cell.model_copy(update={"before": each})) for each in seen] == ["Linux", "Wine"]
    # A host that could not be asked has no facts, and is given none.
    assert together.snapshot(1, shared.model_copy(update={"hosts": {}})).hosts == {}
