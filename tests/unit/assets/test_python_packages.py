"""Versions of clients from PyPI: locks, environments in the cache, and what is said where they are missing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.assets import python_packages
from lab.clients import versions
from lab.clients.described import described_files, load_client
from lab.clients.registry import adapter_for
from lab.model.errors import LabFault, UsageProblem
from tests.support.wheel import lock_wheel, make_wheel

LOCKS = Path(python_packages.__file__).with_name("python")
PACKAGES = sorted(spec.package for path in described_files().values() if (spec := load_client(path)).package)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "cache"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a lock."""
    monkeypatch.setattr(python_packages, "_LOCKS", tmp_path)
    wheel = make_wheel(tmp_path, "fake", "1.5", "said = 'the fake one'\n")
    lock_wheel(wheel, tmp_path)
    return wheel


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_of_a_description_has_versions_in_their_order(package: str) -> None:
    found = list(python_packages.versions(package))
    assert len(found) >= 3
    assert found == sorted(found, key=lambda version: [int(part) for part in version.split(".")])


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.lock")), ids=lambda path: path.stem)
def test_a_lock_names_its_version_and_every_file_by_digest(path: Path) -> None:
    package, _, version = path.stem.rpartition("-")
    text = path.read_text()
    assert re.search(rf"^{re.escape(package)}=={re.escape(version)}\b", text, re.MULTILINE)
    named = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
    assert named
    assert all("--hash=sha256:" in each for each in named)
    assert package in PACKAGES, "a lock that no client asks for"


def test_an_environment_has_the_version_and_is_found_again(fake: Path) -> None:
    said: list[str] = []
    assert python_packages.find("fake", "1.5", "/usr/bin/python3") is None
    python_packages.build("fake", "1.5", said.append)
    program = python_packages.find("fake", "1.5", "/usr/bin/python3")
    assert program is not None
    done = subprocess.run([program, "-c", "import fake; print(fake.said)"], capture_output=True, text=True, check=True)
    assert done.stdout == "the fake one\n"
    assert said == ["installing fake 1.5 from PyPI"]
    python_packages.build("fake", "1.5", said.append)
    assert len(said) == 1, "it is there"


def test_a_file_that_was_changed_makes_it_absent(fake: Path) -> None:
    python_packages.build("fake", "1.5", print)
    (module,) = python_packages.place("fake", "1.5").glob("lib/*/site-packages/fake.py")
    module.write_text("said = 'another'\n")
    assert python_packages.find("fake", "1.5", "/usr/bin/python3") is None


def test_another_file_than_the_lock_has_is_refused(fake: Path, cache: Path) -> None:
    make_wheel(fake.parent, "fake", "1.5", "said = 'another'\n")
    with pytest.raises(LabFault, match=r"^fake 1.5 cannot be installed: "):
        python_packages.build("fake", "1.5", print)
    assert not [path for path in cache.iterdir() if path.is_dir()], "nothing is left of it"


def test_a_version_runs_with_its_own_program_and_says_what_it_is(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: mine\npackage: fake\nprogram: /usr/bin/python3\nprotocols: [http1]\nget: /usr/bin/python3 -m fake {url}\n"
    )
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path))
    with pytest.raises(UsageProblem) as caught:
        adapter_for("mine@1.5")
    assert (caught.value.message, caught.value.remedy) == ("mine 1.5 has not been built", "lab client build mine@1.5")
    versions.build("mine@1.5", print)
    assert versions.program("mine@1.5") == str(python_packages.find("fake", "1.5", "python3"))
    assert adapter_for("mine@1.5").name == "mine@1.5"
    with pytest.raises(UsageProblem, match=re.escape("mine '1.6' has no lock file in the lab")):
        versions.split("mine@1.6")
    assert [row.program is not None for row in versions.available() if row.spec == "mine@1.5"] == [True]


def test_a_package_that_the_lab_has_no_version_of_names_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(
        "name: mine\npackage: mine\nprogram: /usr/bin/mine\nprotocols: [http1]\nget: /usr/bin/mine {url}\n"
    )
    monkeypatch.setenv("ROUGHWATER_CLIENTS", str(tmp_path))
    with pytest.raises(UsageProblem) as caught:
        adapter_for("mine@1.2")
    assert caught.value.message == "mine '1.2' has no lock file in the lab"
    assert caught.value.remedy == "install it, and name its program: mine-1.2=PATH"
