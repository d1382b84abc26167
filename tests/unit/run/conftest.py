"""Cells and samples as the results' tests make them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.clients import registry
from tests.unit.servers.conftest import network, places, servers
from tests.unit.store.conftest import cell, make_cell_fixture, make_sample

__all__ = ["cell", "make_cell_fixture", "network", "places", "servers"]


@pytest.fixture(name="make_sample", scope="session")
def make_sample_fixture() -> Callable[..., object]:
    return make_sample


@pytest.fixture(name="fake_lab")
def fake_lab_fixture(monkeypatch: pytest.MonkeyPatch) -> object:
    """A lab without a network; its clients `new`, `old`, `one` and `two` know every transfer."""
    from tests.unit.run.fake_lab import FakeClient, FakeLab

    for name in ("new", "old", "one", "two"):
        monkeypatch.setitem(registry._CODE, name, FakeClient)
    return FakeLab()
