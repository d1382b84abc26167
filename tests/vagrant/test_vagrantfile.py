"""The Vagrantfile checked by Vagrant, and its scripts by their linters; skipped if those are not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.model.load import list_topologies
from lab.model.paths import project_root

FOLDER = project_root() / "images" / "vagrant"
MACHINES = ["router", "server", "linux", "windows-2022", "windows-11"]


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: sudo apt-get install --no-install-recommends {program}")


@pytest.fixture
def vagrant(tmp_path: Path):  # type: ignore[no-untyped-def]
    need("vagrant")

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"VAGRANT_DOTFILE_PATH": str(tmp_path / "dot"), "VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_NO_COLOR": "1"}
        environment = {**os.environ, **own, "VAGRANT_CHECKPOINT_DISABLE": "1", **env}
        return subprocess.run(
            ["vagrant", *words], cwd=project_root(), env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.mark.parametrize("topology", ["", "link-local", str(project_root() / "topologies" / "lte.yaml")])
def test_it_is_valid(vagrant, topology: str) -> None:  # type: ignore[no-untyped-def]
    done = vagrant("validate", **({"ROUGHWATER_TOPOLOGY": topology} if topology else {}))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "Vagrantfile validated successfully.", "")


def test_every_machine_is_listed(vagrant) -> None:  # type: ignore[no-untyped-def]
    done = vagrant("status", "--machine-readable")
    named = [line.split(",")[1] for line in done.stdout.splitlines() if ",state," in line]
    assert named == MACHINES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no topology called 'nope' (ROUGHWATER_TOPOLOGY; there are: "),
        ("name: x\nlink: [\n", "nope.yaml: "),
        ("- 1\n", "a topology has a name"),
        ("name: nope\nlink: fast\n", "link: it is not a list of settings"),
        ("name: nope\nlink: {mtu: big}\n", 'mtu: "big" is no number of bytes'),
    ],
)
def test_a_bad_topology_is_reported_in_one_line(vagrant, tmp_path: Path, text: str | None, told: str) -> None:  # type: ignore[no-untyped-def]
    place = tmp_path / "nope.yaml"
    if text is not None:
        place.write_text(text)
    done = vagrant("validate", ROUGHWATER_TOPOLOGY="nope" if text is None else str(place))
    said = [line for line in done.stderr.splitlines() if line.startswith("roughwater: ")]
    assert done.returncode == 1
    assert len(said) == 1
    assert told in said[0]
    assert ".rb:" not in done.stderr, "no backtrace"
    if text is None:
        assert all(name in said[0] for name in list_topologies())


def test_the_ruby_is_clean() -> None:
    need("rubocop")
    done = subprocess.run(
        ["rubocop", "--format", "json", "--cache", "false"],
        cwd=project_root(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(done.stdout)
    assert {"Vagrantfile", "images/vagrant/link.rb", "tests/vagrant/dummy/provider.rb"} <= {
        file["path"] for file in report["files"]
    }
    assert [offence for file in report["files"] for offence in file["offenses"]] == []


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.sh")), ids=lambda path: path.name)
def test_the_shell_is_clean(path: Path) -> None:
    need("shellcheck")
    done = subprocess.run(["shellcheck", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
