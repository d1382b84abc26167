"""The action, workflows and the files of docs/how-to/ci.md, held to their services' schemas, which check-jsonschema ships."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.run_pages import blocks
from tests.support.entry_points import ROOT

ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SHOWN = {block.notes["file"]: block.body for block in blocks(ROOT / "docs/how-to/ci.md") if "file" in block.notes}


def check(schema: str, path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_the_form_that_github_wants(path: Path) -> None:
    check("github-workflows", path)


def test_the_action_has_the_form_that_github_wants() -> None:
    check("github-actions", ACTION)


@pytest.mark.parametrize(
    ("name", "schema"), [(".github/workflows/nightly.yml", "github-workflows"), (".gitlab-ci.yml", "gitlab-ci")]
)
def test_what_the_page_shows_has_the_form_that_its_service_wants(tmp_path: Path, name: str, schema: str) -> None:
    (tmp_path / "shown.yml").write_text(SHOWN[name], encoding="utf-8")
    check(schema, tmp_path / "shown.yml")
