"""requirements.lock and requirements-test.lock: what setup.sh installs. The latter has the extra `distributed` too."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.model.paths import project_root

PROJECT = tomllib.loads((project_root() / "pyproject.toml").read_text())["project"]
LAB: list[str] = PROJECT["dependencies"]
TEST: list[str] = [line for extra in ("test", "distributed") for line in PROJECT["optional-dependencies"][extra]]


def locked(name: str) -> dict[str, str]:
    """Package -> version. A package that has several versions, by Python, is left with its last."""
    text = (project_root() / name).read_text()
    entries = re.findall(r"^([a-z0-9.-]+)==(\S+)((?:.*\\\n)+.*)$", text, re.M)
    assert all("--hash=sha256:" in rest for *_, rest in entries)
    return {package: version for package, version, _ in entries}


@pytest.mark.parametrize(("name", "wanted"), [("requirements.lock", LAB), ("requirements-test.lock", [*LAB, *TEST])])
def test_the_lock_covers_what_pyproject_asks_for(name: str, wanted: Sequence[str]) -> None:
    found = locked(name)
    for requirement in (Requirement(line) for line in (*wanted, "hatchling>=1.25")):
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{name} has no {requirement.name}: make lock"
        assert requirement.specifier.contains(version), f"{name} has {requirement.name} {version}: make lock"


def test_tests_run_with_the_versions_of_the_lab() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-test.lock").items()


def test_the_lab_is_installed_without_what_only_tests_need() -> None:
    assert not {"pytest", "mypy", "playwright", "distributed"} & locked("requirements.lock").keys()
