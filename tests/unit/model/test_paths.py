"""Where things are, and what moves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.model import paths
from lab.model.errors import UsageProblem


def test_folders_of_the_project_hold_what_they_should() -> None:
    assert (paths.shipped_topologies_dir() / "dsl-20.yaml").is_file()
    assert (paths.shipped_suites_dir() / "throttle.robot").is_file()
    assert (paths.project_root() / "pyproject.toml").is_file()


def test_a_checkout_is_its_own_root_and_an_installed_lab_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.checkout() == paths.shipped_root() == paths.package_root() == paths.project_root()
    (tmp_path / "lab" / "shipped").mkdir(parents=True)
    monkeypatch.setattr(paths, "package_root", lambda: tmp_path)
    assert paths.shipped_root() == tmp_path / "lab" / "shipped"
    assert paths.checkout() is None
    with pytest.raises(UsageProblem, match="this lab is installed"):
        paths.project_root()


@pytest.mark.parametrize("kind", ["topologies", "suites", "clients"])
def test_your_own_folders_come_before_the_shipped_one(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = getattr(paths, f"{kind}_dirs")
    shipped = look()[-1]
    here, named = tmp_path / kind, tmp_path / "named"
    for folder in (here, named):
        folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"ROUGHWATER_{kind.upper()}", str(named))
    assert look() == [named, here, shipped]
    monkeypatch.chdir(shipped.parent)
    monkeypatch.setenv(f"ROUGHWATER_{kind.upper()}", "")
    assert look() == [shipped]
    monkeypatch.setenv(f"ROUGHWATER_{kind.upper()}", str(tmp_path / "nothing"))
    with pytest.raises(UsageProblem, match="which is not a folder"):
        look()


def test_results_are_where_the_command_was_given_or_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUGHWATER_RESULTS", "")
    assert paths.checkout(), "this lab runs from a checkout, which makes no difference"
    assert paths.results_dir() == tmp_path / "results"
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "elsewhere"))
    assert paths.results_dir() == tmp_path / "elsewhere"


def test_the_cache_follows_its_own_variable_then_xdg_then_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "own"))
    assert paths.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("ROUGHWATER_CACHE")
    assert paths.cache_dir() == tmp_path / "xdg" / "roughwater"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.cache_dir() == tmp_path / "home" / ".cache" / "roughwater"


def test_relative_folders_are_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUGHWATER_CACHE", "here")
    assert paths.cache_dir() == tmp_path / "here"
