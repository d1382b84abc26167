"""The records of docs/decisions: each has a status, and the index has each of them once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.model.paths import project_root

ROOT = project_root()
FOLDER = ROOT / "docs/decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
NUMBERS = {path.name[:4] for path in RECORDS}
KINDS = r"(?:accepted|superseded by \[\d{4}\]\([\w-]+\.md\)), [A-Z][a-z]+ 20\d\d[.;]"
MOST_WORDS = 400
"""More than that belongs on a page of docs/decisions/measured."""
MENTION = "(docs/decisions/|ADRs? )([0-9]{4})"


class Row(NamedTuple):
    """A row of the index."""

    number: str
    file: str
    title: str
    status: str


def index() -> list[Row]:
    """The rows of the index, in its order."""
    row = r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (.+?) \| .+ \|$"
    return [Row(*cells) for cells in re.findall(row, (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)]


def status_of(record: Path) -> str:
    """The text of the record's only line of status."""
    (status,) = re.findall(r"^Status: (.+)$", record.read_text(encoding="utf-8"), re.MULTILINE)
    return str(status)


def successors(record: Path) -> list[str]:
    """The numbers of the records that replace this one or a part of it: the links of its status."""
    return re.findall(r"\[(\d{4})\]", status_of(record))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_a_status_of_a_known_kind(record: Path) -> None:
    assert re.match(KINDS, status_of(record))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_at_most_400_words(record: Path) -> None:
    assert len(record.read_text(encoding="utf-8").split()) <= MOST_WORDS


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_only_a_newer_record_replaces_another(record: Path) -> None:
    assert all(number in NUMBERS and number > record.name[:4] for number in successors(record))


def test_the_index_has_every_record_once_and_links_no_other_file() -> None:
    assert sorted(row.file for row in index()) == [record.name for record in RECORDS]
    assert all(row.file.startswith(f"{row.number}-") for row in index())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_index_has_the_title_and_status_of_the_record(record: Path) -> None:
    row = next((row for row in index() if row.file == record.name), None)
    assert row is not None
    assert f"# {row.number}: {row.title}" == record.read_text(encoding="utf-8").splitlines()[0]
    assert row.status.split(",")[0] == re.split("[,;]", re.sub(r"\[(\d+)\]\([^)]*\)", r"\1", status_of(record)))[0]
    assert set(re.findall(r"\d{4}", row.status)) == set(successors(record))


def test_only_existing_records_are_named_in_the_repository() -> None:
    words = ["git", "grep", "--untracked", "-InE", MENTION, "--", ":!tests/data", ":!tests/unit/docs/test_decisions.py"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if {number for _, number in re.findall(MENTION, line)} - NUMBERS] == []
