"""Every machine has a kernel: from the cache, or from memory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.assets import kernel
from lab.model.errors import LabFault


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in a file's place: not even root can write there."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / "file" / "cache"))


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of what is shipped, which a test may spoil."""
    copy = tmp_path / "kernel"
    shutil.copytree(kernel.recipe_dir(), copy)
    monkeypatch.setattr(kernel, "recipe_dir", lambda: copy)
    kernel.facts.cache_clear()
    yield copy
    kernel.facts.cache_clear()


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_kernel_is_unpacked_once() -> None:
    first = kernel.find()
    assert digest(first) == kernel.facts().sha256
    written = first.stat().st_mtime_ns
    assert kernel.find() == first
    assert first.stat().st_mtime_ns == written


def test_a_damaged_kernel_is_unpacked_again() -> None:
    found = kernel.find()
    found.write_bytes(b"half of it")
    assert digest(kernel.find()) == kernel.facts().sha256


@pytest.mark.usefixtures("no_cache")
def test_cache_that_cannot_be_written_is_a_fault_of_find_alone() -> None:
    with pytest.raises(LabFault, match="cannot write"):
        kernel.find()
    fd = kernel.kernel_fd()
    try:
        assert digest(f"/proc/self/fd/{fd}") == kernel.facts().sha256
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("place", ["cache", "memory"])
def test_kernel_runs_from_its_descriptor(place: str, request: pytest.FixtureRequest) -> None:
    if place == "memory":
        request.getfixturevalue("no_cache")
    fd = kernel.kernel_fd()
    try:
        done = subprocess.run([f"/proc/self/fd/{fd}", "--version"], pass_fds=(fd,), capture_output=True, text=True, check=True)
    finally:
        os.close(fd)
    assert done.stdout.strip() == kernel.facts().release


def test_folder_that_nothing_can_be_executed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(LabFault, match="noexec"):
        kernel.find()
    fd = kernel.kernel_fd()
    assert "memfd" in str(Path(f"/proc/self/fd/{fd}").readlink())
    os.close(fd)


def test_another_packed_kernel_is_refused(shipped: Path) -> None:
    digests = json.loads((shipped / "digests.json").read_text())
    digests["shipped"]["sha256"] = "0" * 64
    (shipped / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(LabFault, match="not the kernel"):
        kernel.find()


@pytest.mark.parametrize(("name", "words"), [("linux-virtual.xz", "cannot unpack"), ("digests.json", "cannot read")])
def test_damaged_checkout_is_one_line(shipped: Path, name: str, words: str) -> None:
    (shipped / name).write_bytes(b"x")
    with pytest.raises(LabFault, match=words) as fault:
        kernel.find()
    assert "git checkout" in str(fault.value)
