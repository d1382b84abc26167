"""For every test: an ordinary PATH lacks the folders where Debian keeps ip, tc, ethtool; and which tests may run side by side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["PATH"] += os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))

_HERE = Path(__file__).parent
# They count what crosses the machine's loopback while they transfer something over it.
_ALONE = {_HERE / "unit/measure/test_sample.py", _HERE / "unit/backend/test_windows_client.py"}
# They bring no network up, judge nothing by time, and leave the loopback alone: pages in a browser, the Vagrantfile and linters.
_BESIDE = {"unit", "engine", "report", "vagrant/test_vagrantfile.py"}


def pytest_configure() -> None:
    """Here, because every way of starting tests comes by: a wrong value is one line, also with workers."""
    if "THROUGHLINE_TEST_FERRY" in os.environ:
        from tests.engine import under_wine

        under_wine.require()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that is not said to be harmless runs alone."""
    for item in items:
        path = item.path.relative_to(_HERE)
        if not _BESIDE.isdisjoint((path.parts[0], str(path))) and item.path not in _ALONE:
            item.add_marker("beside")
