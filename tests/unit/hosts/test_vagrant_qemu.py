"""Three machines by QEMU alone: their command lines and what happens when one does not boot. QEMU is a shell script here."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from images.guest.image import Image
from images.vagrant.machines import ROLES, Machines
from lab.hosts.ssh.config import parse
from lab.hosts.vagrant.network import MACS, wire_script
from lab.model.errors import LabFault

# Writes its arguments to WORDS.PID and the given text to its console, and keeps running.
_QEMU = """\
#!/bin/sh
for word; do echo "$word"; done >"{folder}/words.$$"
for word; do case $word in file,id=serial,path=*) console=${{word#file,id=serial,path=}} ;; esac; done
echo "$@" >>"{folder}/starts"
{says}
exec sleep 60
"""
_READY = 'echo "guest-init: ready" >"$console"'


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a QEMU on PATH that prints this; returns the folder with its recorded arguments."""

    def make(says: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "qemu-system-x86_64").write_text(_QEMU.format(folder=folder, says=says))
        (folder / "qemu-system-x86_64").chmod(0o755)
        image = Image(tmp_path, "6.12", "6.15", True, "bookworm")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setattr("images.vagrant.machines.images.build", lambda _: image)
        return folder

    return make


def words_of(folder: Path) -> dict[str, list[str]]:
    """By machine: its job's disk has its name."""
    found = {}
    for path in folder.glob("words.*"):
        words = path.read_text().splitlines()
        disk = next(word for word in words if ".tar" in word)
        found[disk.partition("file=")[2].rpartition(".tar")[0].rpartition("/")[2]] = words
    return found


def test_networks_meet_only_in_the_router_and_touch_nothing(qemu: Callable[[str], Path]) -> None:
    folder = qemu(_READY)
    with Machines(lambda _: None) as machines:
        words = words_of(folder)
        networks = {
            name: [word for word in each if word.startswith(("user,", "stream,", "tap,", "bridge,"))]
            for name, each in words.items()
        }
        assert {name: len(each) for name, each in networks.items()} == {"router": 3, "server": 2, "linux": 2}
        for name, (way_in, *cables) in networks.items():
            port = machines.guests[name].port
            assert way_in == f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22"
            assert all(cable.startswith("stream,") and "addr.type=fd" in cable for cable in cables)
        for name, each in words.items():
            for mac in MACS[ROLES[name]]:
                assert any(word.endswith(f",mac={mac}") for word in each)


def test_the_backend_finds_them_by_what_vagrant_would_print(qemu: Callable[[str], Path]) -> None:
    qemu(_READY)
    with Machines(lambda _: None) as machines:
        found = parse(machines.config.read_text())
        assert list(found) == ["router", "server", "linux"]
        for target in found.values():
            assert target.host == "127.0.0.1"
            assert Path(target.known_hosts).read_text().startswith(f"[127.0.0.1]:{target.port} ssh-ed25519 ")
            assert Path(target.identities[0]).stat().st_mode & 0o777 == 0o600
        with tarfile.open(machines.folder / "router.tar") as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
        assert files["lab-job/wire.sh"].decode() == wire_script()
        assert json.loads(files["lab-job/machine.json"])["role"] == "router"
        folder = machines.folder
    assert not folder.exists(), "its keys are gone with it"


def test_nothing_is_left_running(qemu: Callable[[str], Path]) -> None:
    qemu(_READY)
    with Machines(lambda _: None) as machines:
        processes = [guest.process for guest in machines.guests.values()]
        assert all(process and process.poll() is None for process in processes)
    assert all(process and process.returncode is not None for process in processes)


def test_machines_that_die_while_booting_are_restarted_and_reported(qemu: Callable[[str], Path]) -> None:
    folder = qemu('echo "Kernel panic - not syncing" >"$console"; exit 1')
    told: list[str] = []
    with pytest.raises(LabFault, match=r"the machines do not boot: .*Kernel panic - not syncing"), Machines(told.append):
        pass
    assert len((folder / "starts").read_text().splitlines()) <= 4 * 3
    assert sum(line.startswith("once more: ") for line in told) == 3


def test_a_machine_that_boots_the_second_time(qemu: Callable[[str], Path]) -> None:
    qemu('if [ -e "$console.seen" ]; then echo "guest-init: ready" >"$console"; else touch "$console.seen"; exit 1; fi')
    told: list[str] = []
    with Machines(told.append):
        pass
    assert any(line.startswith("once more: ") for line in told)
