"""What `lab doctor` reports about backends, with each cause of failure planted."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from lab.assets import kernel
from lab.hosts.namespaces.launch import NamespaceLab
from lab.hosts.virtual.machine import Machine
from lab.model.errors import LabFault
from lab.run import doctor


def refuse_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*_: object) -> None:
        raise LabFault("the lab cannot make its user and network namespaces: No space left on device", remedy="sysctl")

    monkeypatch.setattr(NamespaceLab, "launch", launch)


def the(what: str) -> doctor.Check:
    found = [check for check in doctor.examine() if check.what == what]
    assert len(found) == 1
    assert "\n" not in found[0].found
    return found[0]


def test_virtual_time_really_boots_a_machine() -> None:
    found = the("virtual")
    assert found.level == "ok", found
    assert kernel.facts().release in found.found
    assert found.found.endswith(" ms")


def test_arm64_has_no_port_of_user_mode_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    [found] = doctor.virtual()
    assert (found.level, found.found) == ("note", "User-Mode Linux has no port to arm64")
    assert found.remedy


def test_a_kernel_that_may_not_be_executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "linux"
    program.write_bytes(kernel.packed().read_bytes())  # not marked executable, as on a file system without the right
    monkeypatch.setattr(kernel, "kernel_fd", lambda: os.open(program, os.O_RDONLY))
    [found] = doctor.virtual()
    assert found.level == "note"
    assert "cannot be executed: Permission denied" in found.found
    assert "ROUGHWATER_CACHE" in found.remedy


def test_a_kernel_that_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "kernel_fd", lambda: os.open("/bin/false", os.O_RDONLY))
    [found] = doctor.virtual()
    assert found.level == "note"
    assert "ended" in found.found


def test_one_backend_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_namespaces(monkeypatch)
    found = the("namespaces")
    assert (found.level, found.remedy) == ("note", "sysctl")


def test_without_any_backend_the_lab_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise LabFault("no place for the kernel")

    refuse_namespaces(monkeypatch)
    monkeypatch.setattr(Machine, "start", start)
    assert the("namespaces").level == "missing"
    assert the("virtual").level == "missing"


def test_no_container_engine_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [found] = doctor._compose()
    assert (found.level, found.found) == ("note", "there is no docker on this machine")
