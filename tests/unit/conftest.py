"""Unit tests do not measure this machine: they neither wait for a lab that runs on it, nor keep one waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUGHWATER_LOCK", str(tmp_path_factory.mktemp("machine") / "lock"))
        yield
