"""A sample of a transfer as tests of what reads samples need it."""

from __future__ import annotations

from datetime import UTC, datetime

from lab.model.results import Sample


def sample(**more: object) -> Sample:
    """A transfer of 1 MB in one second without a limit, by a client that reports nothing. `more` replaces facts."""
    facts: dict[str, object] = {
        "index": 0,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
        "exit_code": 0,
        "ok": True,
        "expected_bytes": 1_000_000,
        "client": None,
        "wall_s": 1.5,
        "body_s": 1.0,
        "body_clock": "client",
        "body_byte_s": 1e6,
        "total_byte_s": None,
        "deviation": None,
        "cpu_user_s": 0.25,
        "cpu_system_s": 0.25,
        "max_rss_bytes": None,
        "series": None,
        "wire": None,
    }
    return Sample.model_validate(facts | more)
