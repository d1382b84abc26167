"""Each fact of the machine from its file in /proc, and the revision of the lab's own code."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lab
from lab.store import provenance
from lab.store.provenance import WORKER, git_revision, machine_facts

FILES = {
    "loadavg": "0.25 1.50 2.00 1/234 5678\n",
    "stat": "cpu  1 2 3 4 5 6 7 8 90 90\ncpu0 9 9 9 9 9 9 9 9\n",
    "cpuinfo": "processor\t: 0\nmodel name\t: A: fast one \nmodel name\t: another\n",
    "meminfo": "MemTotal:       2048 kB\nMemFree:        1024 kB\n",
    "sys/net/core/rmem_max": "212992\n",
    "sys/net/ipv4/tcp_congestion_control": "cubic\n",
}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_fact_has_its_place_and_its_unit(proc: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    found = machine_facts(proc)
    assert {name: found[name] for name in found if name not in ("lab_version", "git_revision", "git_dirty")} == {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": "A: fast one",
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": 2_097_152,
        "load_1min": 0.25,
        "load_5min": 1.5,
        "steal_s": 8 / ticks,
        "cpu_s": 36 / ticks,
        "python": platform.python_version(),
        "net.core.rmem_max": 212_992,
        "net.ipv4.tcp_congestion_control": "cubic",
    }
    assert found["lab_version"] == lab.__version__


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("0.5", {"load_1min": 0.5, "load_5min": None}),
        ("0.5 0.75", {"load_1min": 0.5, "load_5min": 0.75}),
        ("", {"load_1min": None, "load_5min": None}),
    ],
)
def test_a_load_that_is_cut_short_is_read_as_far_as_it_goes(proc: Path, text: str, facts: dict[str, Any]) -> None:
    (proc / "loadavg").write_text(text)
    found = machine_facts(proc)
    assert {name: found[name] for name in facts} == facts


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("cpu 1 2 3 4 5 6 7 8", True),
        ("cpu 1 2 3 4 5 6 7", False),
        ("cpu0 1 2 3 4 5 6 7 8", False),
        ("intr 1 2 3 4 5 6 7 8\ncpu 1 2 3 4 5 6 7 8", False),
        ("\n", False),
    ],
)
def test_times_are_read_from_a_complete_first_line_of_all_cores(proc: Path, text: str, known: bool) -> None:
    (proc / "stat").write_text(text)
    found = machine_facts(proc)
    assert ((found["steal_s"] is not None), (found["cpu_s"] is not None)) == (known, known)


def test_a_field_without_a_value_is_not_known(proc: Path) -> None:
    for name, text in (("meminfo", "MemTotal:\n"), ("cpuinfo", "model: x\n"), ("sys/net/core/rmem_max", "\n")):
        (proc / name).write_text(text)
    found = machine_facts(proc)
    assert (found["memory_bytes"], found["cpu_model"], found["net.core.rmem_max"]) == (None, None, None)


def test_bytes_that_are_not_text_are_replaced(proc: Path) -> None:
    (proc / "cpuinfo").write_bytes(b"model name: A\xff\n")
    assert machine_facts(proc)["cpu_model"] == "A\ufffd"


def test_a_worker_adds_its_own_facts(proc: Path) -> None:
    token = WORKER.set({"worker": "w1", "kernel": "9"})
    try:
        found = machine_facts(proc)
    finally:
        WORKER.reset(token)
    assert (found["worker"], found["kernel"]) == ("w1", "9")
    assert "worker" not in machine_facts(proc)


# --- the code -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout of a lab with one commit."""
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "lab" / "__init__.py"))
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "__init__.py").write_text("one\n")
    provenance._code_facts.cache_clear()
    yield tmp_path
    provenance._code_facts.cache_clear()


def git(folder: Path, *words: str) -> str:
    own = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
    return subprocess.run(own, check=True, capture_output=True, text=True).stdout.strip()


def facts() -> dict[str, object]:
    """As a new process would find them."""
    provenance._code_facts.cache_clear()
    return dict(provenance._code_facts())


def test_outside_a_checkout_there_is_no_revision(checkout: Path) -> None:
    assert facts() == {"lab_version": lab.__version__, "git_revision": None, "git_dirty": None}
    assert git_revision() is None


def test_a_checkout_has_a_revision_and_perhaps_changes(checkout: Path) -> None:
    git(checkout, "init", "--quiet")
    git(checkout, "add", "lab")
    git(checkout, "commit", "--quiet", "--message=first")
    head = git(checkout, "rev-parse", "HEAD")
    clean = {"lab_version": lab.__version__, "git_revision": head, "git_dirty": False}
    (checkout / "results").mkdir()
    (checkout / "results" / "new").write_text("")
    assert facts() == clean, "a file that git does not know is no change of the code"
    assert git_revision() == head
    (checkout / "lab" / "__init__.py").write_text("two\n")
    assert dict(provenance._code_facts()) == clean, "a change during a run does not change what is running"
    assert facts() == {**clean, "git_dirty": True}


def test_git_is_asked_without_a_lock_and_may_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the name git, that tells how it was called."""
    (tmp_path / ".git").mkdir()
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$GIT_OPTIONAL_LOCKS $*"\n[ "$5" != status ]\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert provenance._git(tmp_path, "log") == f"0 -c safe.directory={tmp_path} -C {tmp_path} log"
    assert provenance._git(tmp_path, "status") is None


def test_without_git_or_without_its_answer_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance._git(tmp_path, "rev-parse", "HEAD") is None
    limits: list[float] = []

    def wait(command: list[str], *, timeout: float, **_: object) -> None:
        limits.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", wait)
    assert provenance._git(tmp_path, "rev-parse", "HEAD") is None
    assert limits == [10], "a run does not wait longer for it"
