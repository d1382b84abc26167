"""The runner of the pages' commands, on pages made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import run_pages


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_pages, "ROOT", tmp_path)
    return tmp_path / "page.md"


def run(page: Path, text: str) -> list[str]:
    page.write_text(text, encoding="utf-8")
    return [*run_pages.problems_of_form(page), *run_pages.run(page, page.parent)]


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ echo 'took 3.5 s'\ntook 4.25 s\n```\n",
        "```console\n$ printf 'a\\nb\\nc\\n'\na\n...\nc\n```\n",
        "```console\n$ echo one \\\n    two\none two\n```\n",
        "<!-- exit: 3 -->\n```console\n$ true\n$ exit 3\n```\n",
        "<!-- file: a/b.txt -->\n```yaml\nx: 1\n```\n\n```console\n$ cat a/b.txt\nx: 1\n```\n",
        "<!-- not run: no such program -->\n```sh\nsuch-a-program\n```\n",
    ],
)
def test_a_page_that_is_right(page: Path, text: str) -> None:
    assert run(page, text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ false\n```\n", "page.md:2: `false`: exit code 1"),
        ("```console\n$ echo a\nb\n```\n", "no such line in its output: b"),
        ("```sh\nls\n```\n", "page.md:1: no line begins"),
        ("```sh\n$ ls\n```\n", "stand in ```console"),
    ],
)
def test_a_page_that_is_wrong(page: Path, text: str, said: str) -> None:
    assert said in "\n".join(run(page, text))


def test_a_block_that_is_skipped_has_its_reason(page: Path) -> None:
    run(page, "<!-- not run: needs Docker -->\n```sh\ndocker ps\n```\n")
    assert run_pages.skipped(page) == ["page.md:2: needs Docker"]
