"""The session of this process, for Robot keywords that run inside `lab run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from lab.runner.ahead import Planner
from lab.runner.session import Session

_session: Session | None = None


def get() -> Session | None:
    return _session


@contextmanager
def use(session: Session | Planner) -> Iterator[None]:
    """Make `session` the one that keywords use, for the time of the block."""
    global _session  # noqa: PLW0603 - Robot gives its libraries no other way to receive an object
    before, _session = _session, cast(Session, session)
    try:
        yield
    finally:
        _session = before
