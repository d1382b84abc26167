"""Each line of `lab doctor`: what it finds, how bad that is and what to do, with every cause planted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.assets import engine, tools
from lab.assets.tools import Tool
from lab.hosts.compose import docker, images
from lab.hosts.namespaces.launch import NamespaceLab
from lab.hosts.vagrant.machines import CLIENT_VARIABLE, CONFIG_VARIABLE
from lab.model.errors import LabFault
from lab.run import doctor
from lab.run.doctor import Check


def raising(problem: Exception) -> Any:
    def act(*_: object, **__: object) -> Any:
        raise problem

    return act


BROKEN = LabFault("it is broken", remedy="mend it")


# --- all checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("virtual", "namespaces", "levels"),
    [("ok", "note", ["ok", "note"]), ("note", "ok", ["note", "ok"]), ("note", "note", ["missing", "missing"])],
)
def test_only_a_machine_without_any_backend_of_its_own_lacks_one(virtual: Any, namespaces: Any, levels: list[str]) -> None:
    checks = [Check("ok", "curl", "there"), Check(virtual, "virtual", ""), Check(namespaces, "namespaces", "why", "do")]
    found = doctor._judged([*checks, Check("note", "compose", "none")])
    assert [each.level for each in found] == ["ok", *levels, "note"]
    assert (found[2].found, found[2].remedy) == ("why", "do")


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Tool]:
    """The only tools; programs of `tmp_path` are there."""
    found: list[Tool] = []
    monkeypatch.setattr(tools, "TOOLS", found)
    monkeypatch.setattr(tools, "find", lambda name: next(tmp_path.glob(name), None))
    monkeypatch.setattr(tools, "remedy", lambda tool: f"install {tool.package}")
    monkeypatch.setattr(tools, "can_provide", lambda tool: tool.name == "fetched")
    monkeypatch.setattr(doctor, "checkout", lambda: True)
    return found


def test_a_tool_is_there_or_missing_and_a_backend_is_left_out(listed: list[Tool], tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    listed += [
        Tool("vagrant", "vagrant", "a backend"),
        Tool("there", "p1", "it is wanted", "cell"),
        Tool("gone", "p2", "it is wanted", "cell"),
        Tool("fetched", "p3", "it is wanted", "cell"),
        Tool("extra", "p4", "it is nice", "peers"),
    ]
    assert list(doctor._tools()) == [
        Check("ok", "there", str(tmp_path / "there")),
        Check("missing", "gone", "not found; it is wanted", "install p2"),
        Check("note", "fetched", "not found; it is wanted", "install p3"),
        Check("note", "extra", "not found; it is nice", "install p4"),
    ]


def test_an_installed_lab_needs_no_tools_of_developers(listed: list[Tool], monkeypatch: pytest.MonkeyPatch) -> None:
    listed += [Tool(group, "p", "why", group) for group in ("lab", "test", "vm-proof", "bench-standards", "cell", "server")]
    assert len(list(doctor._tools())) == 6
    monkeypatch.setattr(doctor, "checkout", lambda: False)
    assert [each.what for each in doctor._tools()] == ["cell", "server"]


# --- ferry ------------------------------------------------------------------------------------------------------------


def test_ferry_is_missing_in_a_checkout_and_only_noted_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_ferry", raising(BROKEN))
    for where, level in ((True, "missing"), (False, "note")):
        monkeypatch.setattr(doctor, "checkout", lambda where=where: where)
        assert list(doctor._engine()) == [Check(level, "ferry", "it is broken", "mend it")]  # type: ignore[arg-type]


@pytest.mark.parametrize(("own", "fresh", "level"), [(True, False, "note"), (True, True, "ok"), (False, False, "ok")])
def test_a_ferry_of_the_checkout_may_be_older_than_its_sources(
    own: bool, fresh: bool, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_ferry", lambda: Path("/ferry"))
    monkeypatch.setattr(engine, "program", lambda: Path("/ferry" if own else "/other"))
    monkeypatch.setattr(engine, "up_to_date", lambda: fresh)
    (found,) = doctor._engine()
    older = "/ferry, older than the sources in engine/"
    assert found == (Check("ok", "ferry", "/ferry") if level == "ok" else Check("note", "ferry", older, "make setup"))


# --- backends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("netem", "uml", "words"),
    [
        (True, None, f"they work; the router is this kernel's own ({os.uname().release} has sch_netem)"),
        (
            False,
            SimpleNamespace(supports_seed=True, kernel_release="6.9"),
            "they work; the router is User-Mode Linux 6.9, netem with seed",
        ),
        (
            False,
            SimpleNamespace(supports_seed=False, kernel_release="5.1"),
            "they work; the router is User-Mode Linux 5.1, no seed: losses cannot be repeated",
        ),
        (False, None, "they work; their router, User-Mode Linux, is downloaded on first use (30 MB)"),
    ],
)
def test_namespaces_say_which_router_they_have(netem: bool, uml: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    agent = SimpleNamespace(shutdown=lambda: ended.append("agent"))
    names: list[str] = []

    def launch(name: str, hosts: object) -> Any:
        names.append(name)
        assert hosts == {}
        return agent

    monkeypatch.setattr(NamespaceLab, "launch", launch)
    monkeypatch.setattr(doctor, "agent_host", lambda *_, **__: "router")
    monkeypatch.setattr(doctor, "kernel_has_netem", lambda host: host == "router" and netem)
    monkeypatch.setattr(doctor, "find_uml", lambda: uml)
    assert list(doctor._namespaces()) == [Check("ok", "namespaces", words)]
    assert (ended, names) == (["agent"], [f"doctor-{os.getpid()}"])


def test_a_lab_that_was_tried_is_ended_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(NamespaceLab, "launch", lambda *_: SimpleNamespace(shutdown=lambda: ended.append("agent")))
    monkeypatch.setattr(doctor, "agent_host", lambda *_, **__: "router")
    monkeypatch.setattr(doctor, "kernel_has_netem", raising(OSError("no tc")))
    with pytest.raises(OSError, match="no tc"):
        list(doctor._namespaces())
    assert ended == ["agent"]


def test_images_of_containers_have_their_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"client": SimpleNamespace(size_bytes=123_400_000), "server": SimpleNamespace(size_bytes=5_600_000)}
    monkeypatch.setattr(docker, "engine_version", lambda: "27.1")
    monkeypatch.setattr(docker, "compose_command", lambda: ["docker", "compose"])
    monkeypatch.setattr(images, "require_all", lambda: made)
    assert list(doctor._compose()) == [Check("ok", "compose", "docker 27.1, docker compose; images: client 123 MB, server 6 MB")]
    monkeypatch.setattr(images, "require_all", raising(BROKEN))
    assert list(doctor._compose()) == [Check("note", "compose", "it is broken", "mend it")]


def test_vagrant_is_noted_where_it_is_not_installed(listed: list[Tool], tmp_path: Path) -> None:
    del listed
    remedy = "sudo apt-get install vagrant vagrant-libvirt; docs/how-to/windows.md"
    assert list(doctor._vagrant()) == [Check("note", "vagrant", "not installed", remedy)]
    (tmp_path / "vagrant").touch()
    assert list(doctor._vagrant()) == [Check("ok", "vagrant", f"{tmp_path / 'vagrant'}; its provider is not checked")]


class FakeWindows:
    facts: Any = None
    closed = 0

    def __init__(self, *_: object) -> None:
        self.connection = self

    def machine_facts(self) -> Any:
        if isinstance(self.facts, Exception):
            raise self.facts
        return self.facts

    def close(self) -> None:
        FakeWindows.closed += 1


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> type[FakeWindows]:
    monkeypatch.setenv(CLIENT_VARIABLE, "windows-11")
    monkeypatch.setattr(doctor, "given_machine", lambda name: f"target of {name}")
    monkeypatch.setattr(doctor, "Connection", lambda target: target)
    monkeypatch.setattr(doctor, "WindowsHost", FakeWindows)
    monkeypatch.setattr(FakeWindows, "closed", 0)
    return FakeWindows


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"curl_alias": "", "curl_program": r"C:\curl.exe"}, Check("ok", "curl on windows-11", r"C:\curl.exe")),
        (
            {"curl_alias": "Invoke-WebRequest", "curl_program": ""},
            Check(
                "note",
                "curl on windows-11",
                "`curl` is PowerShell's alias of Invoke-WebRequest; there is no such program",
                "type curl.exe at its prompt",
            ),
        ),
        (BROKEN, Check("note", "curl on windows-11", "it is broken", "mend it")),
    ],
)
def test_windows_says_what_curl_is_at_its_prompt(
    windows: type[FakeWindows], facts: Any, expected: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "facts", facts)
    assert list(doctor.windows()) == [expected]
    assert windows.closed == 1


def test_windows_is_asked_only_where_a_machine_is_there(windows: type[FakeWindows], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "given_machine", lambda _: None)
    remedy = f"vagrant ssh-config >FILE; {CONFIG_VARIABLE}=FILE lab doctor"
    words = "not asked, because lab doctor brings no machine up"
    assert list(doctor.windows()) == [Check("note", "curl on windows-11", words, remedy)]
    for name in ("", "debian-13"):
        monkeypatch.setenv(CLIENT_VARIABLE, name)
        assert list(doctor.windows()) == []
    assert windows.closed == 0


# --- the machine ------------------------------------------------------------------------------------------------------


class Machine:
    """A machine with two idle cores and enough of everything, whose facts a test changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.user, self.buffer, self.cores, self.load, self.free, self.writable = 1000, 4 << 20, 2, 1.0, 1 << 30, True
        self.results, self.cache = folder / "not" / "yet", folder
        monkeypatch.setattr(os, "geteuid", lambda: self.user)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(self.cores)))
        monkeypatch.setattr(os, "getloadavg", lambda: (self.load, 99.0, 99.0))
        monkeypatch.setattr(os, "access", lambda *_: self.writable)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free))
        monkeypatch.setattr(doctor, "results_dir", lambda: self.results)
        monkeypatch.setattr(doctor, "cache_dir", lambda: self.cache)
        monkeypatch.setattr(doctor, "user_caches", lambda: folder)
        monkeypatch.setattr(Path, "read_text", lambda _: f"{self.buffer}\n")

    def check(self, what: str) -> Check:
        (found,) = [each for each in doctor._machine() if each.what == what]
        return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path)


def test_a_good_machine_is_ok_in_everything(machine: Machine, tmp_path: Path) -> None:
    assert list(doctor._machine()) == [
        Check("ok", "socket buffers", "net.core.rmem_max 4194304"),
        Check("ok", "machine", "2 cores, load 1.00"),
        Check("ok", "results", f"{tmp_path}/not/yet, 1.1 GB free"),
        Check("ok", "cache", f"{tmp_path}, 1.1 GB free"),
    ]


def test_small_buffers_are_noted_unless_the_user_may_exceed_them(machine: Machine) -> None:
    machine.buffer = (4 << 20) - 1
    assert machine.check("socket buffers") == Check(
        "note",
        "socket buffers",
        "net.core.rmem_max is 4194303: bursts above some 100 Mbit/s may be lost before the link",
        "sudo sysctl net.core.rmem_max=4194304",
    )
    machine.user = 0
    assert machine.check("socket buffers") == Check("ok", "socket buffers", "net.core.rmem_max 4194303; root may exceed it")


@pytest.mark.parametrize(("cores", "load", "level"), [(2, 1.01, "note"), (1, 0.0, "note"), (8, 4.0, "ok"), (8, 4.01, "note")])
def test_a_busy_machine_or_one_core_is_noted(machine: Machine, cores: int, load: float, level: str) -> None:
    machine.cores, machine.load = cores, load
    found = machine.check("machine")
    assert (found.level, found.found) == (level, f"{cores} cores, load {load:.2f}")
    assert found.remedy == ("" if level == "ok" else "measure on an idle machine with two cores or more")


def test_little_space_is_noted_and_a_folder_that_cannot_be_written_is_missing(machine: Machine, tmp_path: Path) -> None:
    machine.free -= 1
    assert machine.check("cache") == Check("note", "cache", f"{tmp_path}, 1.1 GB free", "free some space")
    machine.writable = False
    remedy = f"make {tmp_path} writable, or set ROUGHWATER_CACHE"
    assert machine.check("cache") == Check("missing", "cache", f"{tmp_path} cannot be written", remedy)
    remedy = f"make {tmp_path} writable, start the lab in another folder, or set ROUGHWATER_RESULTS"
    assert machine.check("results") == Check("missing", "results", f"{tmp_path}/not/yet cannot be written", remedy)
    machine.writable, machine.cache = True, Path("/proc/self/here")
    remedy = "make /proc/self writable, or set ROUGHWATER_CACHE"
    assert machine.check("cache") == Check("missing", "cache", "/proc/self/here cannot be written", remedy)


# --- the cache of the lab's former name -------------------------------------------------------------------------------


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user's caches, in a folder whose name has blanks and a quote."""
    folder = tmp_path / "the user's caches"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("ROUGHWATER_CACHE", raising=False)
    return folder


def older_cache() -> Check | None:
    found = list(doctor._older_cache())
    assert len(found) <= 1
    return found[0] if found else None


def repair(check: Check) -> None:
    said, _, command = check.remedy.partition(": ")
    assert said == "keep its downloads"
    subprocess.run(["sh", "-c", command], check=True)


def test_without_an_older_cache_nothing_is_said(caches: Path) -> None:
    assert older_cache() is None
    (caches / "roughwater").mkdir()
    assert older_cache() is None


@pytest.mark.parametrize("named", [False, True], ids=["by default", "where ROUGHWATER_CACHE says"])
@pytest.mark.parametrize("both", [False, True], ids=["old only", "both"])
def test_what_an_older_cache_holds_can_be_kept(caches: Path, monkeypatch: pytest.MonkeyPatch, named: bool, both: bool) -> None:
    old, new = caches / "throughline", caches / "roughwater"
    if named:
        new = caches / "of my own" / "cache"
        monkeypatch.setenv("ROUGHWATER_CACHE", str(new))
    for folder in (old, *([new] if both else [])):
        (folder / "curl").mkdir(parents=True)
        (folder / "curl" / "whose").write_text(folder.name)
    (old / "kernel").mkdir()
    found = older_cache()
    assert found is not None
    assert (found.level, found.what) == ("note", "older cache")
    assert found.found == f"{old} is of the time before the lab was called Roughwater; nothing reads it"
    repair(found)
    assert not old.exists()
    assert sorted(each.name for each in new.iterdir()) == ["curl", "kernel"]
    assert (new / "curl" / "whose").read_text() == (new if both else old).name, "what is newer stays"
    assert older_cache() is None


def test_an_older_cache_that_is_in_use_is_left_alone(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (caches / "throughline").mkdir()
    (caches / "roughwater").symlink_to("throughline")
    assert older_cache() is None
    monkeypatch.setenv("ROUGHWATER_CACHE", str(caches / "throughline"))
    assert older_cache() is None


def test_what_must_be_built_again_is_named(caches: Path) -> None:
    (caches / "throughline" / "libcurl-8.4.0-ac0759d85e50").mkdir(parents=True)
    found = older_cache()
    assert found is not None
    assert found.remedy.startswith(
        "keep its downloads, except applications on libcurl, which lab client build makes again: mkdir"
    )


def test_a_user_without_a_home_has_no_older_cache(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("ROUGHWATER_CACHE", str(caches))
    monkeypatch.setattr(Path, "home", raising(RuntimeError("no home")))
    assert older_cache() is None
