"""`vagrant up` with the real Vagrantfile and a provider without machines: what Vagrant asks of the lab, and in which order."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.hosts.ssh.config import parse
from lab.model.paths import project_root
from tests.vagrant.test_vagrantfile import need

PROVIDER = Path(__file__).parent / "dummy" / "provider.rb"
Vagrant = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def vagrant(tmp_path: Path) -> Vagrant:
    """Runs `vagrant WORDS...`. `tmp_path/asked` has a line for each call of the lab, which ends with code LAB_CODE."""
    need("vagrant")
    (tmp_path / "images").symlink_to(project_root() / "images")
    (tmp_path / "Vagrantfile").write_text(vagrantfile())
    lab = tmp_path / "lab"
    lab.write_text(f'#!/bin/sh\necho "$@" >>{shlex.quote(str(tmp_path))}/asked\necho "shaped $2"\nexit ${{LAB_CODE:-0}}\n')
    lab.chmod(0o755)
    own = {"VAGRANT_DOTFILE_PATH": str(tmp_path / "dot"), "VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_NO_COLOR": "1"}
    own |= {"VAGRANT_CHECKPOINT_DISABLE": "1", "ROUGHWATER_LAB": str(lab)}

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["vagrant", *words], cwd=tmp_path, env={**os.environ, **own, **env}, capture_output=True, text=True, check=False
        )

    return run


def vagrantfile() -> str:
    """The real one, with the provider."""
    return f"load '{PROVIDER}'\nload '{project_root() / 'Vagrantfile'}'\n"


def asked(tmp_path: Path) -> list[str]:
    path = tmp_path / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_the_link_is_shaped_once_when_the_last_machine_is_up(vagrant: Vagrant, tmp_path: Path) -> None:
    done = vagrant("up", "--provider", "dummy")
    assert done.returncode == 0, done.stderr
    assert "The link is shaped when server and linux run too." in done.stdout
    assert "shaped dsl-20" in done.stdout
    assert asked(tmp_path) == ["link dsl-20 --backend vagrant"]
    again = vagrant("reload", "router", ROUGHWATER_TOPOLOGY=str(project_root() / "topologies/lte.yaml"))
    assert again.returncode == 0, again.stderr
    assert asked(tmp_path)[1:] == [f"link {project_root()}/topologies/lte.yaml --backend vagrant"]


def test_a_link_that_is_not_shaped_is_an_error_in_one_line(vagrant: Vagrant, tmp_path: Path) -> None:
    done = vagrant("up", "--provider", "dummy", LAB_CODE="4")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line] == ["roughwater: the link is not shaped: `lab link` ended with 4"]
    assert len(asked(tmp_path)) == 1


def test_the_lab_shapes_it_itself_where_it_brings_machines_up(vagrant: Vagrant, tmp_path: Path) -> None:
    assert vagrant("up", "--provider", "dummy", ROUGHWATER_LINK="no").returncode == 0
    assert asked(tmp_path) == []


def test_a_host_that_is_not_linux_gets_a_warning(vagrant: Vagrant, tmp_path: Path) -> None:
    # As Ruby on Windows sees it.
    (tmp_path / "Vagrantfile").write_text(f"RbConfig::CONFIG['host_os'] = 'mingw32'\n{vagrantfile()}")
    done = vagrant("up", "--provider", "dummy")
    assert done.returncode == 0, done.stderr
    assert "The link is not shaped: the lab runs on Linux" in done.stdout + done.stderr
    assert asked(tmp_path) == []


def test_windows_on_libvirt_needs_firmware(vagrant: Vagrant, tmp_path: Path) -> None:
    words = ("up", "windows-11", "--provider", "libvirt")
    done = vagrant(*words, DUMMY_PROVIDER="libvirt", ROUGHWATER_OVMF=str(tmp_path / "none.fd"))
    assert done.returncode == 1
    told = f"Windows on libvirt needs UEFI, and there is no {tmp_path}/none.fd (install ovmf, or set ROUGHWATER_OVMF)"
    assert [line for line in done.stderr.splitlines() if line] == [f"roughwater: {told}"]
    there = vagrant(*words, DUMMY_PROVIDER="libvirt", ROUGHWATER_OVMF=str(PROVIDER))
    assert there.returncode == 0, there.stderr


def test_hyper_v_gets_the_labs_ports_before_a_machine_starts(vagrant: Vagrant) -> None:
    done = vagrant("up", "router", "windows-11", "--provider", "hyperv", DUMMY_PROVIDER="hyperv", ROUGHWATER_LINK="no")
    assert done.returncode == 0, done.stderr
    said = [line.rpartition(": ")[2] for line in done.stdout.splitlines() if not line.startswith("provision")]
    steps = [line for line in said if line.startswith(("start ", "powershell "))]
    assert steps == [
        "powershell hyperv.ps1 -Id an-id -Mac 02544c010001 -Switch roughwater-client",
        "powershell hyperv.ps1 -Id an-id -Mac 02544c020001 -Switch roughwater-server",
        "start router",
        "powershell hyperv.ps1 -Id an-id -Mac 02544c010004 -Switch roughwater-client",
        "start windows-11",
    ]


def test_a_port_that_hyper_v_refuses_ends_it(vagrant: Vagrant) -> None:
    done = vagrant("up", "router", "--provider", "hyperv", DUMMY_PROVIDER="hyperv", DUMMY_CODE="1")
    assert done.returncode == 1
    assert "roughwater: no port on roughwater-client: it refuses\n" in done.stderr


def test_the_lab_has_a_login_key_of_its_own(vagrant: Vagrant, tmp_path: Path) -> None:
    up = vagrant("up", "windows-11", "--provider", "dummy")
    assert up.returncode == 0, up.stderr
    shown = vagrant("ssh-config", "windows-11").stdout
    own, box = parse(shown, "ssh-config")["windows-11"].identities
    assert own == str(tmp_path / "dot/roughwater/login")
    assert box.endswith("insecure_private_key")
    key = Path(own)
    assert key.stat().st_mode & 0o777 == 0o600
    derived = subprocess.run(["ssh-keygen", "-y", "-f", own], capture_output=True, text=True, check=True).stdout.split()
    assert key.with_suffix(".pub").read_text().split()[:2] == derived[:2]
    public = key.with_suffix(".pub").read_text().strip()
    assert f'provision openssh: ["-PublicKey", "{public}"]' in up.stdout.splitlines()
    before = key.read_bytes()
    vagrant("status")
    assert key.read_bytes() == before
