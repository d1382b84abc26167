"""The session of tests that run suites."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))  # `tests` is not an installed package

from tests.support.noted_session import NotedSession


@pytest.fixture
def notes(tmp_path: Path) -> NotedSession:
    return NotedSession(tmp_path)
