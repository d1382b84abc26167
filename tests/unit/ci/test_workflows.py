"""The action, the project's workflows and those that docs/how-to/ci.md shows: their form, and the scripts in them.

Only GitHub and GitLab can run these files.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.run_pages import blocks
from tests.support.entry_points import ROOT

PAGE = ROOT / "docs/how-to/ci.md"
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
SHOWN = {block.notes["file"]: block.body for block in blocks(PAGE) if "file" in block.notes}
CALL = "OWNER/roughwater@main"


def read(text: str) -> Any:
    return YAML(typ="safe").load(text)


def steps(document: Any) -> Iterator[Any]:
    if "runs" in document:
        yield from document["runs"]["steps"]
    for job in document.get("jobs", {}).values():
        yield from job["steps"]


def scripts(document: Any) -> list[str]:
    """The scripts of bash, with GitHub's expressions as a word. GitHub calls bash with -eo pipefail."""
    found = [step["run"] for step in steps(document) if "run" in step and step.get("shell", "bash") in ("bash", "sh")]
    return [re.sub(r"\$\{\{.*?\}\}", "EXPRESSION", script) for script in found]


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_scripts_in_them_are_sound(path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("no shellcheck (apt-get install shellcheck)")
    for script in scripts(read(path.read_text(encoding="utf-8"))):
        done = subprocess.run(
            ["shellcheck", "--shell", "bash", "-"],
            input=f"set -eo pipefail\n{script}",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_no_script_has_an_expression_in_it(path: Path) -> None:
    """What a user of GitHub types, a branch's name for example, would be read as shell."""
    assert not [script for script in scripts(read(path.read_text(encoding="utf-8"))) if "EXPRESSION" in script]


def test_who_calls_the_action_gives_inputs_that_it_has_and_reads_outputs_that_it_has() -> None:
    action = read(ACTION.read_text(encoding="utf-8"))
    calls = 0
    for text in (SHOWN[".github/workflows/nightly.yml"], *(path.read_text(encoding="utf-8") for path in WORKFLOWS)):
        document = read(text)
        for step in steps(document):
            if step.get("uses") in ("./", CALL):
                calls += 1
                assert set(step["with"]) <= set(action["inputs"])
        assert set(re.findall(r"steps\.lab\.outputs\.([\w-]+)", text)) <= set(action["outputs"])
    assert calls == 2


def test_the_page_has_every_input_and_output() -> None:
    action, page = read(ACTION.read_text(encoding="utf-8")), PAGE.read_text(encoding="utf-8")
    rows = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert [name for name in action["inputs"] if f"`{name}`" not in rows] == []
    outputs = next(line for line in page.splitlines() if line.startswith("Outputs:"))
    assert re.findall(r"`([\w-]+)`", outputs) == list(action["outputs"])


def test_the_report_writes_every_output() -> None:
    text = (ROOT / "reports/github.py").read_text(encoding="utf-8")
    for name in read(ACTION.read_text(encoding="utf-8"))["outputs"]:
        assert f'"{name}"' in text or name in ("exit-code", "pass", "fail", "inconclusive", "invalid")


@pytest.mark.parametrize(("program", "code"), [("curl", 0), ("true", 1), ("no-such-program", 1)])
def test_the_loopback_check_of_windows_fails_where_the_file_did_not_arrive(program: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci/loopback.py"), f"curl={program}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
