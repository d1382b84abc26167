"""For every test: the folders where Debian keeps ip, tc, ethtool; which tests may run side by side, which judge by real time."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import settings

from lab.clients.ferry import CONFIG_VARIABLE

# No deadline for examples: the first one pays for imports, and other tests run at the same time. The same examples in every run,
# so that a change is judged by what it changes; `--hypothesis-profile explore` looks for others.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("fixed")

pytest.register_assert_rewrite("tests.support.host_contract")
pytest_plugins = ["tests.support.noise", "tests.support.skips"]
os.environ["PATH"] += os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))

_HERE = Path(__file__).parent
# They count what crosses the machine's loopback while they transfer something over it.
_ALONE = {_HERE / "unit/run/test_sample.py", _HERE / "unit/hosts/test_windows_client.py"}
_NO_MACHINES = ("vagrant/test_vagrantfile.py", "vagrant/test_vagrant_up.py")
"""Vagrant itself, with a provider that has none."""
_CONTRACTS = ("network/test_host_contract.py",)
"""The promises of every host; on namespaces too their tests need no quiet machine. Containers need images, which come late."""
# They judge nothing by real time and leave the loopback alone: cells in virtual time, pages in a browser, machines over SSH. Unit
# tests are a lane of their own, before these.
# The first ones begin first: a file runs on one worker, and all others wait for a long file that begins late.
_BESIDE = ("install", "virtual", "docs", "cells", "report", "conformance", "engine", "vagrant", *_CONTRACTS, "unit")
_WAITING = ("engine", "vagrant", *_CONTRACTS)
"""These tests mostly wait, for time-outs, servers and machines. A file of them follows each file whose tests compute."""
_SLOW = 600
"""Seconds for what a busy machine slows down and does not change."""
_LANE = "beside"
"""The marker by which .ci/lab-tests chooses its lanes."""
# They bring networks up, time real processes, or run ferry against servers that wait: a disturbed machine can make them fail.
_REALTIME = {"network", "compose", "engine", "vagrant"}


def pytest_configure() -> None:
    """Here, because every way of starting tests comes by: a wrong value is one line, also with workers."""
    # Nothing from the developer's own configuration, in any ferry that a test starts.
    os.environ[CONFIG_VARIABLE] = "none"
    if "ROUGHWATER_TEST_FERRY" in os.environ:
        from tests.engine import under_wine

        under_wine.require()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of the other lanes are not even imported: nothing else runs next to the tests in real time, which would wait."""
    lane = config.option.markexpr
    if lane not in (_LANE, f"not {_LANE}") or collection_path.suffix != ".py" or not collection_path.is_relative_to(_HERE):
        return None
    return True if _is_beside(collection_path) != (lane == _LANE) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collection, which finds nothing meanwhile; later it passes over all tests and modules."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Libraries in C complain of what is still there at the end of Python."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything that is not said to be harmless runs alone; everything that judges by real time is watched."""
    from tests.support import skips  # after pytest has taken it for a plugin

    left_to_the_night = skips.left_to_the_night(skips.read(_HERE / "skips.txt"))
    for item in items:
        if left_to_the_night(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=skips.LEFT))
        folder, own = _own(item.path)
        if _is_beside(item.path):
            item.add_marker(_LANE)
        if (folder in _REALTIME and own not in _NO_MACHINES) or item.path in _ALONE:
            item.add_marker(pytest.mark.realtime(containers=folder == "compose"))
        if folder in ("cells", "virtual", "conformance") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_SLOW))
    items.sort(key=lambda item: _turn(item.path))
    items[:] = _interleaved(items)


def _interleaved(items: list[pytest.Item]) -> list[pytest.Item]:
    """The same files; one whose tests wait follows each whose tests compute."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [file for path, file in files.items() if _is_in(path, _WAITING)]
    computing = [file for path, file in files.items() if not _is_in(path, _WAITING)]
    pairs = zip_longest(computing, waiting, fillvalue=[])
    return [item for pair in pairs for file in pair for item in file]


# Each worker asks this of thousands of tests, whose files are some hundreds.
@cache
def _turn(path: Path) -> int:
    """When a file's folder is due."""
    if path in _ALONE:
        return len(_BESIDE)
    return min((turn for turn, name in enumerate(_BESIDE) if _is_in(path, (name,))), default=len(_BESIDE))


def _is_beside(path: Path) -> bool:
    """Whether the tests of that file may run next to others."""
    return _turn(path) < len(_BESIDE)


@cache
def _own(path: Path) -> tuple[str, str]:
    """The first folder of the tests in which a file is, and its path there."""
    own = path.relative_to(_HERE)
    return own.parts[0], str(own)


def _is_in(path: Path, names: tuple[str, ...]) -> bool:
    """Whether these folders and files of the tests have it."""
    return not set(_own(path)).isdisjoint(names)
