"""The check of texts: what it reads, and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import english


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(english, "ROOT", tmp_path)
    monkeypatch.setattr(english, "tracked", lambda: sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")))
    return tmp_path


def test_it_reads_docstrings_comments_messages_and_test_names(repository: Path) -> None:
    (repository / "lab").mkdir()
    (repository / "lab" / "a.py").write_text(
        '"""Of hosts the last."""\n\n# Nobody reads\n# this line.\nprint(f"the client {1} is told so")\n\n\n'
        "def test_whoever_asks():\n    pass\n",
        encoding="utf-8",
    )
    found = {(each.rule, each.text.kind, each.text.line) for each in english.findings()}
    assert found == {
        ("opens with Of", "docstring", 1),
        ("whoever, nobody", "comment", 3),
        ("told", "message", 5),
        ("whoever, nobody", "test name", 8),
    }


def test_code_of_a_page_is_not_text(repository: Path) -> None:
    (repository / "a.md").write_text("# Title\nRun `the whole` thing.\n\n```sh\nbeside\n```\n\n- Run here.\n", encoding="utf-8")
    assert [(each.rule, each.text.line) for each in english.findings()] == [("here", 8)]


def test_every_rule_is_a_regular_expression() -> None:
    for pattern in {**english.RULES, **english.PAGE_RULES}.values():
        re.compile(pattern)


@pytest.mark.parametrize("text", ["There is no netem.", "Of course.", "lab/store/facts of a host", "backend_facts/x"])
def test_right_sentences_pass(text: str) -> None:
    assert not [rule for rule, pattern in english.RULES.items() if re.search(pattern, text)]
