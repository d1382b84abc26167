"""The checks of `make release` refuse what must not be published. The release itself is a command of its own, not part of CI."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab import __version__
from lab.assets.release import checks, inventory, packages, versions, workshop
from lab.assets.release.__main__ import listing, main
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import project_root
from tests.support.wheel import make_wheel

CHANGELOG = """# Changelog

## [Unreleased]

{unreleased}## [1.2.0] - {date}

### Added
- A thing.

## [1.1.0] - 2026-01-02

- Old.
"""
TRACKED = [
    "lab/__init__.py",
    "lab/assets/release/checks.py",
    "reports/page.html",
    "images/lab/Dockerfile",
    "suites/throttle.robot",
    "topologies/dsl.yaml",
    "Vagrantfile",
    "docker-compose.yml",
    "requirements.lock",
    "tests/conftest.py",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of a project that has a version in three places, all 1.2.0."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "engine").mkdir()
    (tmp_path / "lab/__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "engine/Cargo.toml").write_text('[workspace.package]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased="", date="2026-02-03"))
    return tmp_path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path / "repository"
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", root], check=True)
    (root / "file").write_text("one\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "One"], check=True, env={"GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"})
    return root


def lab_wheel(folder: Path, without: str = "") -> Path:
    """A wheel with everything that TRACKED asks for, except one place."""
    wheel = make_wheel(folder, "roughwater", "1.2.0", "")
    with zipfile.ZipFile(wheel, "a") as out:
        for name in ("lab/__init__.py", "reports/page.html"):
            if name != without:
                out.writestr(name, "")
        for name in TRACKED[3:-1]:
            if name != without:
                out.writestr(f"lab/shipped/{name}", "")
    return wheel


def test_this_project_has_one_version() -> None:
    assert versions.agreed(project_root()) == __version__


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("lab/__init__.py", '__version__ = "1.2.1"\n'),
        ("lab/__init__.py", ""),
        ("engine/Cargo.toml", '[workspace.package]\nversion = "1.1.0"\n'),
        ("CHANGELOG.md", "## [Unreleased]\n\n## [1.1.0] - 2026-01-02\n"),
        ("CHANGELOG.md", "## [Unreleased]\n"),
    ],
)
def test_versions_that_differ_are_refused_in_one_line(project: Path, file: str, text: str) -> None:
    assert versions.agreed(project) == "1.2.0"
    (project / file).write_text(text)
    with pytest.raises(UsageProblem, match="differ") as refused:
        versions.agreed(project)
    assert file in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_tag_may_be_published_only_with_a_complete_and_dated_changelog(project: Path) -> None:
    versions.require_tag(project, "v1.2.0")
    assert versions.notes(project) == "### Added\n- A thing."
    with pytest.raises(UsageProblem, match=r"v1\.3\.0"):
        versions.require_tag(project, "v1.3.0")
    (project / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased="- More.\n\n", date="2026-02-03"))
    assert versions.unreleased(project)
    with pytest.raises(UsageProblem, match="unreleased"):
        versions.require_tag(project, "v1.2.0")
    (project / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased="", date="soon"))
    with pytest.raises(UsageProblem, match="date"):
        versions.require_tag(project, "v1.2.0")


def test_a_checkout_with_changes_is_refused(repository: Path) -> None:
    workshop.require_clean(repository)
    (repository / "new").write_text("")
    with pytest.raises(UsageProblem, match="new"):
        workshop.require_clean(repository)


def test_a_refusal_is_exit_code_2_and_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "lab/__init__.py").write_text('__version__ = "9.9.9"\n')
    monkeypatch.setattr("lab.assets.release.__main__.project_root", lambda: project)
    monkeypatch.setattr(sys, "argv", ["release"])
    assert main() == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "9.9.9 in lab/__init__.py" in said


def test_a_missing_program_is_exit_code_2_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lab.assets.tools._FOLDERS", ())
    with pytest.raises(UsageProblem, match="lintian") as refused:
        workshop.require_tools(with_windows=False)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


def test_a_release_needs_what_tries_its_package_before_it_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh clone's environment had no pytest, which showed after an hour of building."""
    monkeypatch.setattr(workshop, "find_spec", lambda _: None)
    with pytest.raises(UsageProblem, match=r"with pytest, and \.venv has none \(make release\)"):
        workshop.require_tools(with_windows=False)


def test_a_clone_has_the_commit_and_its_time(repository: Path, tmp_path: Path) -> None:
    (repository / "file").write_text("not committed\n")
    shop = workshop.clone(repository, tmp_path / "clone", cargo=Path("/bin/cargo"), bin_folder=tmp_path, keep_compiled=False)
    assert (shop.root / "file").read_text() == "one\n"
    assert shop.environment["SOURCE_DATE_EPOCH"] == "1767323045"
    assert str(shop.cargo_build) in shop.rust_environment["RUSTFLAGS"]
    with pytest.raises(LabFault, match="exit code 3"):
        shop.run(["sh", "-c", "exit 3"])


def test_a_release_after_the_beginning_of_virtual_time_is_refused(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workshop, "EPOCH_S", 1767323044)
    with pytest.raises(UsageProblem, match="begin before this release's files"):
        workshop.clone(repository, tmp_path / "clone", cargo=Path("/bin/cargo"), bin_folder=tmp_path, keep_compiled=False)


@pytest.mark.parametrize("without", ["", *(name for name in TRACKED if name not in (TRACKED[1], TRACKED[-1]))])
def test_a_wheel_that_lacks_a_part_of_the_lab_is_refused(tmp_path: Path, without: str) -> None:
    found = checks.contents(lab_wheel(tmp_path, without), TRACKED)
    assert found.ok is not bool(without)
    assert without in found.found


def test_a_commit_without_suites_is_refused_too(tmp_path: Path) -> None:
    found = checks.contents(lab_wheel(tmp_path), [name for name in TRACKED if not name.startswith("suites/")])
    assert not found.ok


def test_a_wheel_of_another_version_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "roughwater", "1.2.0", "")
    assert checks.version_of_wheel(wheel, "1.2.0").ok
    assert not checks.version_of_wheel(wheel, "1.2.1").ok
    renamed = wheel.rename(tmp_path / "roughwater-1.2.1-py3-none-any.whl")
    assert not checks.version_of_wheel(renamed, "1.2.1").ok


def test_digests_find_a_file_that_was_changed_added_or_lost(tmp_path: Path) -> None:
    for name in ("a.whl", "b.deb"):
        (tmp_path / name).write_text(name)
    checks.write_sums(tmp_path)
    assert checks.sums(tmp_path).ok
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
    (tmp_path / "a.whl").write_text("other")
    assert "a.whl" in checks.sums(tmp_path).found
    (tmp_path / "a.whl").write_text("a.whl")
    (tmp_path / "c").touch()
    assert not checks.sums(tmp_path).ok
    (tmp_path / "c").unlink()
    (tmp_path / "b.deb").unlink()
    assert not checks.sums(tmp_path).ok


def test_a_second_build_with_other_bytes_is_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    assert not checks.reproduced(one, two).ok
    two.write_text("1")
    assert checks.reproduced(one, two).ok
    two.write_text("2")
    assert not checks.reproduced(one, two).ok


def test_dependencies_are_the_lock_without_what_only_the_builder_needs() -> None:
    lock = (project_root() / "requirements.lock").read_text()
    kept = inventory.locked(inventory.dependencies(lock))
    gone = inventory.locked(lock).keys() - kept.keys()
    assert {"hatchling", "pathspec", "trove-classifiers"} <= gone
    assert {"numpy", "scipy", "typer", "rich"} <= kept.keys()
    assert kept.items() <= inventory.locked(lock).items()
    shared = "hatchling==1 \\\n    --hash=a\nplug==1 \\\n    --hash=b\n    # via\n    #   hatchling\n    #   typer\n"
    both = inventory.dependencies(f"{shared}typer==1 \\\n    --hash=c\n")
    assert inventory.locked(both) == {"plug": "1", "typer": "1"}


def test_an_inventory_that_differs_from_the_lock_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.cdx.json"
    path.write_text(json.dumps({"components": [{"name": "scipy", "version": "1.0"}]}))
    assert checks.inventory_of_lab(path, "scipy==1.0 \\\n    --hash=a\n").ok
    assert not checks.inventory_of_lab(path, "scipy==1.1 \\\n    --hash=a\n").ok
    assert not checks.inventory_of_lab(path, "scipy==1.0 \\\n    --hash=a\nrich==1 \\\n    --hash=b\n").ok
    crates = '[[package]]\nname = "scipy"\nversion = "1.0"\n'
    assert checks.inventory_of_ferry(path, crates).ok
    assert not checks.inventory_of_ferry(path, crates.replace("1.0", "2.0")).ok


def test_the_wheel_for_windows_is_the_one_for_linux_with_ferry_exe(tmp_path: Path) -> None:
    linux = make_wheel(tmp_path, "roughwater_ferry", "1.2.0", "")
    program = tmp_path / "ferry.exe"
    program.write_bytes(b"MZ")
    with pytest.raises(LabFault, match="no program"):
        packages.for_windows(linux, program, tmp_path, 0)
    with zipfile.ZipFile(linux, "a") as out:
        out.writestr("roughwater_ferry-1.2.0.data/scripts/ferry", b"\x7fELF")
    made = packages.for_windows(linux, program, tmp_path, 1_800_000_000)
    first = made.read_bytes()
    assert packages.for_windows(linux, program, tmp_path, 1_800_000_000).read_bytes() == first
    assert made.name == "roughwater_ferry-1.2.0-py3-none-win_amd64.whl"
    # pip refuses a wheel whose RECORD does not fit its files.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--only-binary=:all:"]
    target = ["--platform", "win_amd64", "--target", str(tmp_path / "target"), str(made)]
    subprocess.run([*pip, *target], check=True)
    with zipfile.ZipFile(made) as wheel:
        assert wheel.read("roughwater_ferry-1.2.0.data/scripts/ferry.exe") == b"MZ"
        assert "roughwater_ferry-1.2.0.data/scripts/ferry" not in wheel.namelist()


def test_the_list_marks_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    path.write_text("")
    text = listing({path: [checks.Check("one", True, "fine"), checks.Check("two", False, "broken")]})
    assert [line.split()[0] for line in text.splitlines() if ":" in line] == ["ok", "FAIL"]
    assert "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" in text
