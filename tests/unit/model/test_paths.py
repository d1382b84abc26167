"""Where things are, and what moves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model import paths


def test_folders_of_the_project_hold_what_they_should() -> None:
    assert (paths.topologies_dir() / "dsl-20.yaml").is_file()
    assert (paths.suites_dir() / "throttle.robot").is_file()
    assert (paths.project_root() / "pyproject.toml").is_file()


def test_results_move_with_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("THROUGHLINE_RESULTS", str(tmp_path))
    assert paths.results_dir() == tmp_path
    monkeypatch.setenv("THROUGHLINE_RESULTS", "")
    assert paths.results_dir() == paths.project_root() / "results"


def test_the_cache_follows_its_own_variable_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("THROUGHLINE_CACHE", str(tmp_path / "own"))
    assert paths.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("THROUGHLINE_CACHE")
    assert paths.cache_dir() == tmp_path / "xdg" / "throughline"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.cache_dir() == tmp_path / "home" / ".cache" / "throughline"


def test_relative_folders_are_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THROUGHLINE_CACHE", "here")
    assert paths.cache_dir() == tmp_path / "here"
