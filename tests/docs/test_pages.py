"""Every command of README.md and docs/how-to runs, in virtual time; those that do not say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.run_pages import ROOT, pages, problems_of_form, run, skipped

NAMES = [str(page.relative_to(ROOT)) for page in pages()]


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_commands_runs_or_says_why_not(name: str) -> None:
    assert not problems_of_form(ROOT / name)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_page_run(name: str, tmp_path: Path) -> None:
    assert not (wrong := run(ROOT / name, tmp_path)), "\n".join(wrong)


@pytest.mark.parametrize("reason", [line for name in NAMES for line in skipped(ROOT / name)])
def test_commands_that_do_not_run(reason: str) -> None:
    pytest.skip(reason)
