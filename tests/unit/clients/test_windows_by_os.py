"""A run on Linux next to a fixture of one on Windows (no measurement), and the system that a cell under Wine reports."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lab.cli.compare import compare_runs
from lab.clients.registry import resolve
from lab.clients.windows import system_of
from lab.judge.matching import os_of
from lab.model.comparison import Comparison
from lab.model.results import ClientIdentity, HostSnapshot
from lab.model.transfer import ClientSpec
from lab.model.units import Ratio
from lab.run.interleaving import Lane
from lab.run.release import ReleaseRow
from lab.store.stored_run import read_run_folder
from reports.answer_text import render_comparison
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
    assert found.answers
    for row in found.answers:
        assert tuple(arm.value for arm in row.arms) == ("Linux", "Windows")
        assert row.verdict.interval
        assert row.verdict.interval.mean == pytest.approx(1.0), "the fixture's speeds are the Linux run's"


def test_the_cost_is_printed_absolute_and_normalised(found: Comparison) -> None:
    for row in found.answers:
        a, b = (arm.figures for arm in row.arms)
        assert b["cpu_s_per_GB"] == pytest.approx(2 * a["cpu_s_per_GB"])
        assert b["hashed_MB_per_GB"] == pytest.approx(a["hashed_MB_per_GB"]), "twice the seconds at half the score"
        assert row.cost
        assert row.cost.mean == pytest.approx(2.0)
        assert any(f"{row.arms[0].cell}: Linux" in note and "; Windows" in note for note in found.notes)


def test_the_table_and_the_page_have_both(found: Comparison) -> None:
    console = Console(record=True, width=160, file=StringIO())
    render_comparison(found, console)
    text, page = console.export_text(), compare_page(found)
    for told in (text, page):
        for word in ("Linux", "Windows", windows_fixture.WINDOWS):
            assert word in told
        for row in found.answers:
            for arm in row.arms:
                assert f"{arm.figures['cpu_s_per_GB']:.3g}" in told
                assert f"{arm.figures['hashed_MB_per_GB']:.0f}" in told


def test_only_the_client_under_wine_has_another_system(tmp_path: Path) -> None:
    linux, _ = windows_fixture.unpack(tmp_path)
    cell = read_run_folder(linux.path).cells[0]
    cells = [ReleaseRow.named("link-local--http1-get-1MB", "-").cell(ClientSpec(name=name)) for name in ("native", "wine")]
    identities = {
        each.client: ClientIdentity(name=each.client.name, version=f"ferry 1{more}", path="/f", sha256="0" * 64, command=[])
        for each, more in zip(cells, ("", f" under {WINE}"), strict=True)
    }
    adapter = resolve(ClientSpec(name="ferry"))
    lanes = [Lane(cell, adapter, identities[cell.client], system=system_of(identities[cell.client])) for cell in cells]
    shared = HostSnapshot(at=datetime.now(UTC), machine={}, hosts={"client": {"routes": []}, "router": {}})
    seen = [lane.snapshot(shared) for lane in lanes]
    assert seen[0] is shared
    assert seen[1].hosts == {"client": {"routes": [], "system": WINE}, "router": {}}
    assert [os_of(cell.model_copy(update={"before": each})) for each in seen] == ["Linux", "Wine"]
    # A host that could not be asked has no facts, and is given none.
    assert lanes[1].snapshot(shared.model_copy(update={"hosts": {}})).hosts == {}
