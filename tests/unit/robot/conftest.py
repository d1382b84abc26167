"""The session of tests that run suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.noted_session import NotedSession


@pytest.fixture
def notes(tmp_path: Path) -> NotedSession:
    return NotedSession(tmp_path)
