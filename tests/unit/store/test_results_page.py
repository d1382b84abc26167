"""docs/reference/results.md: its examples run, its tables name what there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from statistics import mean

import duckdb
import pytest

from lab.model.paths import project_root
from lab.model.results import SCHEMA_VERSION
from lab.store.migrate import STEPS
from lab.store.run_dir import ANSWERS, CELLS, RUN_SHELF
from lab.store.stored_run import read_run_folder

PAGE = (project_root() / "docs/reference/results.md").read_text(encoding="utf-8")
CURL = "curl--dsl-50--h2-get-5MiB-at-2MBps-chunked"


def block(language: str, word: str = "") -> str:
    return next(found[1] for found in re.finditer(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in found[1])


@pytest.fixture
def here(stored_1_0: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    stored_1_0.rename(tmp_path / "results")
    (tmp_path / "results" / "latest").symlink_to(next((tmp_path / "results").glob("*-throttle-*")).name)
    return tmp_path


def test_the_python_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line for line in lines if line.startswith(f"{CURL} FAIL [")]


def test_the_sql_runs(here: Path) -> None:
    rows = duckdb.execute(block("sql")).fetchall()
    assert len(rows) == 3
    assert [row[:3] for row in rows if row[0] == CURL] == [(CURL, "FAIL", 5)]
    cells = {cell.id: cell for cell in read_run_folder(here / "results" / "latest").cells}
    means = {name: mean(sample.body_byte_s or 0.0 for sample in cell.samples) / 1e6 for name, cell in cells.items()}
    assert {row[0]: row[3] for row in rows} == {name: round(each, 3) for name, each in means.items()}


def test_the_jq_runs(here: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("no jq here")
    done = subprocess.run(["sh", "-c", block("sh", "jq -r")], capture_output=True, text=True, check=True)
    assert re.search(rf"^{CURL}\tFAIL\t[12]\.\d+$", done.stdout, re.MULTILINE)


def test_the_tables_name_every_kind_and_version() -> None:
    for shelf in (RUN_SHELF, CELLS, ANSWERS):
        assert f"[{shelf.kind}](../../lab/store/{shelf.kind}.schema.json)" in PAGE
        assert (f"`{shelf.file}`" if shelf.file else f"`{shelf.folder}/ID.json`") in PAGE
    versions = re.findall(r"^\| (\d+\.\d+) \|", PAGE, re.MULTILINE)
    assert versions == [*STEPS, SCHEMA_VERSION]
