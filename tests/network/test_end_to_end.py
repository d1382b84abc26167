"""A cell by the path that a user takes, in real time: ferry keeps its limit on this machine."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import WrongVerdict, verdict_of


def test_ferry_keeps_its_limit(tmp_path: Path) -> None:
    verdict = verdict_of("ferry--dsl-50--h2-put-5MiB-at-2MBps", clock="real", results=tmp_path)
    if verdict == "FAIL":
        raise WrongVerdict("ferry misses its limit in real time")
    assert verdict == "PASS"
