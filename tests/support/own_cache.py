"""A cache of a test's own, which has the servers that this machine keeps in the cache instead of installing them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model.paths import cache_dir


def use_own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make `folder` the cache until the test ends. Nothing has to be downloaded into it for a lab to start."""
    folder.mkdir(parents=True)
    for place in cache_dir().glob("extracted-*"):
        (folder / place.name).symlink_to(place)
    monkeypatch.setenv("ROUGHWATER_CACHE", str(folder))
    return folder
