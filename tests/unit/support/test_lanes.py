"""Each file of tests is in one lane, and a lane does not import the files of the others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ignores(request: pytest.FixtureRequest) -> object:
    """The hook of tests/conftest.py, by the plugin that pytest has loaded."""
    plugins = request.config.pluginmanager.get_plugins()
    found = next(each for each in plugins if getattr(each, "__file__", "") == str(TESTS / "conftest.py"))
    return found.pytest_ignore_collect


def _config(lane: str) -> SimpleNamespace:
    return SimpleNamespace(option=SimpleNamespace(markexpr=lane))


def test_each_file_is_in_one_lane(ignores) -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    assert len(files) > 300
    for file in files:
        left_out = [bool(ignores(file, _config(lane))) for lane in ("beside", "not beside")]
        assert sorted(left_out) == [False, True], file
        assert not ignores(file, _config("")), file


@pytest.mark.parametrize(
    ("file", "lane"),
    [
        ("unit/cli/test_main.py", "beside"),
        ("virtual/test_cli.py", "beside"),
        ("network/test_cli.py", "not beside"),
        ("unit/run/test_sample.py", "not beside"),
    ],
)
def test_a_lane_takes_its_own_files(ignores, file: str, lane: str) -> None:
    assert not ignores(TESTS / file, _config(lane))
    assert ignores(TESTS / file, _config("beside" if lane != "beside" else "not beside"))


def test_files_elsewhere_are_in_every_lane(ignores, tmp_path: Path) -> None:
    assert not ignores(tmp_path / "test_it.py", _config("beside"))
