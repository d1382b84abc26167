"""Labs of real containers. They need an engine that answers and the images (`make images`), and say so when either is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.hosts.compose import images
from lab.hosts.compose.network import ComposeNetwork, open_network
from lab.model.errors import RoughwaterError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if "tests/compose" in str(item.path)]
    if not ours:
        return
    try:
        images.require_all()
    except RoughwaterError as problem:
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=f"no containers here: {problem}"))


@pytest.fixture(scope="module")
def shared() -> Iterator[ComposeNetwork]:
    """For tests that leave the network as they find it."""
    made = open_network()
    yield made
    made.close()


@pytest.fixture
def network() -> Iterator[ComposeNetwork]:
    """For tests that sabotage it."""
    made = open_network()
    yield made
    made.close()
