"""Samples with only the fields that the judge reads, and thousands of verdicts at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lab.model.results import Sample

MakeSample = Callable[..., Sample]


def make_sample(index: int, deviation: float | None = None, *, ok: bool = True, problem: str = "", **more: Any) -> Sample:
    facts: dict[str, Any] = {
        "index": index,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "exit_code": 0 if ok else 18,
        "ok": ok,
        "problem": problem,
        "expected_bytes": 5,
        "client": None,
        "wall_s": 1,
        "body_s": 1,
        "body_byte_s": 5,
        "total_byte_s": 5,
        "deviation": deviation,
        "cpu_user_s": 0,
        "cpu_system_s": 0,
        "max_rss_bytes": None,
        "series": None,
        "wire": None,
    }
    return Sample.model_validate(facts | more)


@pytest.fixture(name="make_sample", scope="session")
def make_sample_fixture() -> MakeSample:
    return make_sample


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No caveats: the same verdicts."""
    for module in ("tolerance", "sweep", "regression"):
        for name in ("size_caveat", "outlier_caveat", "drift_caveat"):
            monkeypatch.setattr(f"lab.judge.{module}.{name}", lambda *_: None)
