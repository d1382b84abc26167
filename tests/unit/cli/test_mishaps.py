"""Mishaps of strangers, planted again (mishaps.yaml): one line, the right exit code, nothing green, nothing left."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.cli import main
from lab.model.paths import project_root
from tests.support.mishaps import ROWS, Mishap, check, furnish


def ids(row: Mishap) -> str:
    return re.sub(r"\W+", "-", row.mishap)


@pytest.mark.parametrize("row", [row for row in ROWS if row.run and not row.boots], ids=ids)
def test_a_mishap_ends_in_one_line(
    row: Mishap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: Python's start would take longer than all of them."""
    furnish(row, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROUGHWATER_RESULTS", raising=False)
    monkeypatch.setattr(sys, "argv", ["lab", *shlex.split(row.run)])
    for registered in ("registered_commands", "registered_groups"):
        monkeypatch.setattr(main.app, registered, list[Any]())
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as ended:
            main._run()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    check(row, tmp_path, int(ended.value.code or 0), *capsys.readouterr())


@pytest.mark.parametrize("row", [row for row in ROWS if row.test], ids=ids)
def test_a_mishap_that_another_test_plants_has_that_test(row: Mishap) -> None:
    path, _, name = row.test.partition("::")
    text = (project_root() / path).read_text()
    assert f"def {name}(" in text if name else "def test_" in text


def test_there_are_sixty_of_them() -> None:
    assert len({row.mishap for row in ROWS}) == len(ROWS) >= 60
    assert all(bool(row.run) != bool(row.test) for row in ROWS)
