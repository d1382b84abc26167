"""The count of comments that open with a noun clause, and its bound of 5 %."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.paths import project_root
from tools import openings

_MOST = 0.05


@pytest.mark.parametrize(
    ("name", "text", "clauses"),
    [
        ("a.py", '"""What is left."""\n\n# Whether it ended,\n# What follows is the same comment.\nx = 1\n', [True, True]),
        ("a.py", 'def f() -> None:\n    """The remainder."""\n    x = "What"  # How\n', [False]),
        ("a.rs", "/// Where a file is kept.\n/// Of course.\npub fn f() {}\n\n    // The backlog.\n", [True, False]),
    ],
)
def test_openings_are_found(tmp_path: Path, name: str, text: str, clauses: list[bool]) -> None:
    (tmp_path / name).write_text(text)
    assert sorted(each.is_clause for each in openings.openings(tmp_path / name)) == sorted(clauses)


@pytest.mark.parametrize("suffix", [".py", ".rs"])
def test_few_comments_of_this_checkout_open_with_a_clause(suffix: str) -> None:
    folders = [project_root() / name for name in openings.FOLDERS]
    found = [each.is_clause for path in openings.files(folders) if path.suffix == suffix for each in openings.openings(path)]
    assert sum(found) <= _MOST * len(found)
