"""Runs of older labs, as users have them: every command opens them, and `lab results migrate` rewrites them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command import lab
from tests.support.stored_runs import unpack

VERSIONS = ("1.0", "1.1", "1.2", "2.0")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_of_an_older_schema_opens_in_report_compare_and_history(version: str, tmp_path: Path) -> None:
    runs = unpack(tmp_path, version)
    assert runs
    for run in runs:
        report = lab("report", str(run))
        assert (report.returncode, report.stderr) == (0, ""), run.name
        assert (run / "report.html").stat().st_size > 10_000
        if any((run / "cells").iterdir()):
            compared = lab("compare", str(run), str(run))
            assert compared.returncode in (0, 3), compared.stderr
            assert "0 FAIL" in compared.stdout
    history = lab("history", "--from", str(tmp_path), "--runs")
    assert history.returncode == 0, history.stderr
    assert [run.name for run in runs if any((run / "cells").iterdir()) and run.name not in history.stdout] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_of_an_older_schema_is_migrated_and_then_valid(version: str, tmp_path: Path) -> None:
    for run in unpack(tmp_path, version):
        migrated = lab("results", "migrate", str(run))
        assert migrated.returncode == 0, migrated.stderr
        assert f"the old ones are in {run}/schema-{version}" in migrated.stdout.replace("\n", " ")
        valid = lab("results", "validate", str(run))
        assert valid.returncode == 0, valid.stdout
        assert not [old for old in ("studies", "pairs", "findings") if (run / old).exists()], "an empty folder is left"


def test_a_run_without_cells_is_found_when_the_empty_folder_for_them_is_lost(tmp_path: Path) -> None:
    """Git and most archives keep no empty folders."""
    run = next(run for run in unpack(tmp_path, "1.1") if "quirks" in run.name)
    shutil.rmtree(run / "cells")
    assert lab("report", str(run)).returncode == 0
    assert lab("results", "migrate", str(run)).returncode == 0
    assert lab("results", "validate", str(tmp_path)).returncode == 0
