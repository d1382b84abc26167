"""A machine over SSH for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets.tools import find
from tests.vagrant.machine import Machine
from tests.vagrant.three import Three


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if find("sshd") is None:
        pytest.skip("no sshd: make setup downloads it")
    made = Machine(tmp_path_factory.mktemp("machine"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    made = Three(tmp_path_factory.mktemp("three"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pins and locks of a test's own; sshd and its programs are still the real cache's."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("lab.hosts.ssh.connection.cache_dir", lambda: folder)
    monkeypatch.setattr("lab.hosts.vagrant.machines.cache_dir", lambda: folder)
    monkeypatch.setattr("lab.hosts.vagrant.network.cache_dir", lambda: folder)
    return folder
