"""Paths of the lab's cache: a machine in virtual time has it at one place, wherever its user has it."""

from __future__ import annotations

from lab.hosts.agent.places import CACHE_DIR
from lab.model.paths import cache_dir


def inside(path: str) -> str:
    """The path in a machine of what the lab has in its cache; any other as it is."""
    return _moved(path, str(cache_dir()), CACHE_DIR)


def outside(path: str) -> str:
    """The path on the real host of what a machine has in the cache; any other as it is."""
    return _moved(path, CACHE_DIR, str(cache_dir()))


def _moved(path: str, old: str, new: str) -> str:
    return f"{new}{path.removeprefix(old)}" if path.startswith(f"{old}/") else path
