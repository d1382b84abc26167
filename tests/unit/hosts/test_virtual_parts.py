"""Parts of the machine in virtual time that need no kernel: cores, processes, patience, frames, words, environment."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.agent.places import MARSHAL_VERSION
from lab.hosts.virtual import guest, processes
from lab.hosts.virtual.cores import Core
from lab.hosts.virtual.host import environment
from lab.hosts.virtual.machine import Boot, Patience, derived_seed
from lab.hosts.virtual.network import assert_deterministic
from lab.hosts.virtual.program import bootstrap, first_program
from lab.model.errors import LabFault


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 9})
    monkeypatch.setattr(Core, "_taken", {})


@pytest.mark.usefixtures("two_cores")
def test_each_machine_has_the_core_with_the_fewest() -> None:
    first, second = Core.take(), Core.take()
    assert {first.number, second.number} == {4, 9}
    second.give_back()
    assert Core.take().number == second.number


@pytest.mark.usefixtures("two_cores")
def test_processes_begin_with_different_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    for pid in (10, 11):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        core = Core.take()
        begun.append(core.number)
        core.give_back()
    assert set(begun) == {4, 9}


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process with three children, one of which spins."""
    script = "sleep 100 & sleep 100 & while :; do :; done & wait; echo ended; sleep 100"
    made = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    while len(processes.children(made.pid)) < 3:
        assert made.poll() is None
    yield made
    os.killpg(made.pid, signal.SIGKILL)
    made.wait()
    assert made.stdout
    made.stdout.close()


def running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if processes.state(pid) not in ("", "Z")]


def test_only_what_has_begun_since_is_ended(parent: subprocess.Popen[bytes]) -> None:
    found = processes.children(parent.pid)
    assert processes.end_children(parent.pid, found) is False
    assert processes.end_children(parent.pid, found[:1]) is True
    while len(running(found)) > 1:
        pass
    assert running(found) == found[:1]
    assert processes.state(parent.pid) not in ("", "Z", "T"), "the parent goes on"


def test_the_busiest_is_ended(parent: subprocess.Popen[bytes]) -> None:
    found = processes.children(parent.pid)
    while not max(map(processes.cpu_s, found)):
        pass
    busiest = max(found, key=processes.cpu_s)
    assert processes.tree_cpu_s(parent.pid)[1] > 0
    assert processes.end_busiest_child(parent.pid)
    while busiest in running(found):
        pass
    assert len(running(found)) == 2


def test_nothing_is_known_about_a_process_that_is_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert (processes.children(gone.pid), processes.cpu_s(gone.pid), processes.state(gone.pid)) == ([], 0.0, "")
    assert processes.end_busiest_child(gone.pid) is False
    assert processes.end_children(gone.pid, ()) is False


def test_a_larger_machine_has_more_patience_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUGHWATER_PATIENCE_S", raising=False)
    small, large = (Patience.for_machine(Boot(1, size << 20)) for size in (768, 4096))
    assert 60 < small.cpu_s < 90 < large.cpu_s < 300
    monkeypatch.setenv("ROUGHWATER_PATIENCE_S", "2.5")
    assert Patience.for_machine(Boot(1)).cpu_s == 2.5


def test_a_frame_is_a_head_and_the_blobs_it_counts() -> None:
    read_end, write_end = os.pipe()
    try:
        guest.send(write_end, {"word": 1}, [b"one", b"", b"three"])
        assert guest.receive(read_end) == ({"word": 1, "blobs": [3, 0, 5]}, [b"one", b"", b"three"])
        head = marshal.dumps({"word": 2}, MARSHAL_VERSION)
        os.write(write_end, len(head).to_bytes(4, "big") + head)
        assert guest.receive(read_end) == ({"word": 2}, [])
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_frame_does_not_depend_on_who_else_refers_to_what_is_in_it() -> None:
    """marshal's later formats mark an object that has other references: with threads, the same request had other bytes."""
    word = "".join(["some", "thing"])
    frames = []
    for others in ([], [word] * 9):
        read_end, write_end = os.pipe()
        guest.send(write_end, {"word": word, "again": word}, [])
        os.close(write_end)
        with os.fdopen(read_end, "rb") as stream:
            frames.append(stream.read())
        del others
    lone = marshal.dumps({"word": "".join(["some", "thing"]), "again": "".join(["some", "thing"]), "blobs": []}, MARSHAL_VERSION)
    assert frames == [len(lone).to_bytes(4, "big") + lone] * 2


def test_only_so_much_of_an_output_is_read() -> None:
    fd = guest.memory("output", b"0123456789")
    try:
        assert guest.content(fd) == b"0123456789"
        assert guest.content(fd, 4) == b"456789"
        assert guest.content(fd, 4, 3) == b"456"
        assert guest.content(fd, 10, 3) == b""
    finally:
        os.close(fd)


def test_every_condition_of_determinism_is_a_word_of_the_kernels() -> None:
    words = Boot(seed=77, memory_bytes=1 << 30, charge_ns=200, charge_most_ns=9000).words((3, 4))
    for word in (
        "mem=1024M",
        "random-seed=1",
        "norandmaps",
        "time-travel=inf-cpu",
        "time-travel-charge=200,9000",
        "hostchan=3,4",
    ):
        assert word in words
    assert words.index("--") < len(words) - 1


@given(st.integers(0, 1 << 62), st.text(max_size=20), st.integers(0, 100))
def test_another_purpose_has_another_seed(seed: int, word: str, number: int) -> None:
    found = derived_seed(seed, word, number)
    assert 0 <= found < 1 << 63
    assert found == derived_seed(seed, word, number)
    assert found != derived_seed(seed, word, number + 1)
    assert found != derived_seed(seed + 1, word, number)


def test_no_variable_of_the_callers_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """But folders that the lab has filled with programs: without them a machine that has only those would have none."""
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", f"/somewhere:/usr/bin:{tmp_path}/tools/shown")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("SECRET", "x")
    found = environment({"MORE": "1", "HOME": "/else"})
    assert found["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/lab/cache/tools/shown"
    assert (found["TZ"], found["PYTHONHASHSEED"], found["MORE"], found["HOME"]) == ("UTC", "0", "1", "/else")
    assert "SECRET" not in found


def test_the_first_program_is_the_same_wherever_the_lab_lies() -> None:
    """A path in it would be read, and memory for it taken, in the machine's time."""
    assert str(Path(__file__).parents[3]).encode() not in first_program()
    assert not {'"', "="} & set(bootstrap()), "words of a kernel's command line cannot have them"


@pytest.mark.parametrize(
    ("lacking", "has_hwrng", "told"),
    [
        ("random-seed=1", False, "entropy from the seed"),
        ("norandmaps", False, "addresses not randomised"),
        ("time-travel=inf-cpu", False, "a clock that no processing moves"),
        ("", True, "no entropy of the host's devices"),
    ],
)
def test_a_machine_that_lacks_a_condition_of_determinism_is_refused(lacking: str, has_hwrng: bool, told: str) -> None:
    boot = Boot(seed=7)
    words = [word for word in boot.words((3, 4)) if word != lacking]
    with pytest.raises(LabFault, match=f"deterministic without: {told}$"):
        assert_deterministic(words, has_hwrng=has_hwrng)
    assert all(assert_deterministic(boot.words((3, 4)), has_hwrng=False).values())
