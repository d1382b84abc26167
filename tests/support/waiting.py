"""Waits for what another process or thread does, and fails when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 10.0
"""More than a busy machine needs for what takes milliseconds: only a wait that fails lasts so long."""


def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Returns when the condition holds; TimeoutError says what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.01)
