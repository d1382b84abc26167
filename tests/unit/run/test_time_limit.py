"""SIGTERM of a person and that of a time limit: which of them ended a run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lab.run.collected import ended_by
from lab.run.time_limit import callers_limit, duration_s, has_passed


def process(proc: Path, number: int, parent: int, *words: str, start_s: float = 0.0, name: str = "") -> None:
    """As /proc has it."""
    folder = proc / str(number)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"".join(f"{word}\0".encode() for word in words))
    started = round(start_s * os.sysconf("SC_CLK_TCK"))
    fields = ["S", str(parent), *["0"] * 17, str(started), "0"]
    (folder / "stat").write_text(f"{number} ({name or words[0]}) {' '.join(fields)}\n")


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("60 lab run x", 60),
        ("1.5m lab", 90),
        ("-k 5 --preserve-status 2h lab", 7200),
        ("--signal=TERM 1d lab", 86400),
        ("-s TERM -v 3s lab", 3),
        ("0 lab", None),
        ("--help", None),
        ("soon lab", None),
        ("", None),
    ],
)
def test_the_duration_of_a_limit(words: str, seconds: float | None) -> None:
    assert duration_s(words.split()) == seconds


def test_the_first_of_the_callers_limits_counts(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, "/sbin/init")
    process(tmp_path, 20, 1, "/usr/bin/timeout", "600", "make", start_s=100)
    process(tmp_path, 21, 20, "sh", "-c", "timeout 60 lab", name="a ) b")
    process(tmp_path, 22, 21, "timeout", "-k", "5", "60", "lab", "run", start_s=110.5)
    process(tmp_path, 23, 22, "lab", "run")
    assert callers_limit(23, tmp_path) == 170.5
    assert callers_limit(21, tmp_path) == 700
    assert callers_limit(20, tmp_path) is None


def test_a_command_line_that_cannot_be_read_has_no_limit(tmp_path: Path) -> None:
    process(tmp_path, 22, 7, "timeout", "never", "lab")
    process(tmp_path, 23, 22, "lab")
    assert callers_limit(23, tmp_path) is None
    assert callers_limit(99, tmp_path) is None


def test_a_limit_passes() -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert has_passed(now - 1)
    assert not has_passed(now + 60)
    assert not has_passed(None)


@pytest.mark.parametrize("code", [143, 129])
def test_a_signal_in_time_is_an_interruption(code: int) -> None:
    assert ended_by(SystemExit(code), in_time=True) == ("interrupted", code)
    assert ended_by(SystemExit(code), in_time=False) == ("timeout", code)
