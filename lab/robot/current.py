"""The questions and answers of this process, for Robot keywords that run inside `lab run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.run.questions import Asking

_asking: Asking | None = None


def get() -> Asking | None:
    return _asking


@contextmanager
def use(asking: Asking) -> Iterator[None]:
    """Let keywords use `asking` for the time of the block."""
    global _asking  # noqa: PLW0603 - Robot gives its libraries no other way to receive an object
    before, _asking = _asking, asking
    try:
        yield
    finally:
        _asking = before
