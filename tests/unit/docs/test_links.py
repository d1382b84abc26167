"""Links and file names in Markdown point at something that is in the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.model.paths import project_root

ROOT = project_root()
# Folders whose files a page may name in backticks; anything else in backticks is a command or a word.
TOP = "benchmarks|docs|engine|images|lab|reports|suites|tests|topologies"
MADE = {  # files that a command makes and git does not track
    "engine/target/release/ferry",
    "engine/target/windows/ferry.exe",
}


def pages() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split() if (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """The anchors GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"`", "", heading).lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", pages())
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            missing.append(target)
    assert not missing


@pytest.mark.parametrize("name", [name for name in pages() if not name.startswith(("docs/decisions/", "engine/", "tests/data/"))])
def test_every_file_a_page_names_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(rf"`((?:{TOP})/[\w./@-]+)`", text))
    assert not sorted(path for path in named - MADE if not (ROOT / path).exists())
