"""Which process holds the machine, as the kernel prints it, and what a second command reads."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.model.errors import UsageProblem
from lab.run import lock
from lab.run.lock import MachineLock, describe, holders, measuring, parse_holders


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time passes only where something sleeps."""
    made = SimpleNamespace(now=100.0, slept=0)

    def sleep(seconds: float) -> None:
        assert seconds > 0
        made.now, made.slept = made.now + seconds, made.slept + 1

    monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=lambda: made.now, sleep=sleep))
    return made


def held(monkeypatch: pytest.MonkeyPatch, *takes: int | None) -> None:
    """What each attempt comes to; the last one stays."""
    left = list(takes)
    monkeypatch.setattr(lock, "_take", lambda *_: left.pop(0) if len(left) > 1 else left[0])


def test_a_wait_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, place: Path) -> None:
    said: list[str] = []
    held(monkeypatch, None)
    monkeypatch.setattr(lock, "holders", lambda _: [])
    with pytest.raises(UsageProblem) as caught, measuring(1.0, said.append, path=place):
        pass
    who = "a process that this user cannot see"
    assert caught.value.message == f"this machine is measuring already: {who}"
    assert caught.value.remedy == "wait for it with --wait TIME, or give both the option --beside"
    assert said == [f"waiting, at most 1 s, for another measurement on this machine: {who}"]
    assert clock.now == pytest.approx(101.0, abs=0.25)


def test_a_turn_that_comes_is_taken_and_given_back(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, place: Path) -> None:
    file = os.open("/dev/null", os.O_RDONLY)
    held(monkeypatch, None, None, file)
    monkeypatch.setattr(lock, "holders", lambda _: [1, 2])
    monkeypatch.setattr(lock, "describe", lambda pid: f"process {pid}")
    said: list[str] = []
    with measuring(600.0, said.append, path=place):
        os.fstat(file)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
    assert (clock.slept, said) == (
        2,
        ["waiting, at most 10 min, for another measurement on this machine: process 1; process 2"],
    )


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (119.5, "119.5 s"), (120, "2 min"), (90 * 60, "90 min")])
def test_a_span_is_in_seconds_or_in_minutes(seconds: float, words: str) -> None:
    assert lock._span(seconds) == words


@pytest.mark.parametrize(("beside", "kind"), [(True, fcntl.LOCK_SH), (False, fcntl.LOCK_EX)])
def test_only_measurements_that_allow_others_share(monkeypatch: pytest.MonkeyPatch, place: Path, beside: bool, kind: int) -> None:
    asked: list[Any] = []

    def take(path: Path, wanted: int) -> int:
        asked.append((path, wanted))
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(lock, "_take", take)
    with measuring(0, pytest.fail, beside=beside, path=place):
        pass
    monkeypatch.setenv("ROUGHWATER_LOCK", str(place))
    with MachineLock(0, beside=beside) as made, made.take():
        pass
    assert asked == [(place, kind)] * 2


def test_a_lock_says_its_waiting_apart_from_the_results(capfd: pytest.CaptureFixture[str]) -> None:
    lock._on_stderr("waiting")
    assert capfd.readouterr() == ("", "lab: waiting\n")


ROWS = """\
1: FLOCK  ADVISORY  WRITE 30 fe:00:77 0 EOF
2: FLOCK  ADVISORY  WRITE 20 fe:00:77 0 EOF
3: FLOCK  ADVISORY  WRITE 20 fe:00:77 0 EOF
4: FLOCK  ADVISORY  WRITE 10 fe:01:77 0 EOF
5: FLOCK  ADVISORY  WRITE 40 01:00:77 0 EOF
"""


def test_holders_are_sorted_and_of_the_device_if_it_is_known() -> None:
    assert parse_holders(ROWS, os.makedev(0xFE, 0), 77) == [20, 30]
    assert parse_holders(ROWS, os.makedev(0xFE, 1), 77) == [10]
    assert parse_holders(ROWS, os.makedev(9, 9), 77) == [10, 20, 30, 40]
    assert parse_holders(ROWS, os.makedev(0xFE, 0), 78) == []


def test_without_the_file_or_the_kernels_list_no_holder_is_known(place: Path, tmp_path: Path) -> None:
    assert holders(place) == []
    place.touch()
    assert holders(place, tmp_path) == []
    stat = place.stat()
    (tmp_path / "locks").write_text(
        f"1: FLOCK  ADVISORY  WRITE 5 {os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino} 0 EOF\n"
    )
    assert holders(place, tmp_path) == [5]


def process(proc: Path, words: bytes, *, ticks: str = "500", booted: str = "btime 1000000\n") -> str:
    folder = proc / "7"
    folder.mkdir(exist_ok=True)
    (folder / "cmdline").write_bytes(words)
    (folder / "stat").write_text("7 (a) b) S" + " 1" * 18 + f" {ticks} 2")
    (proc / "stat").write_text(f"cpu 1\n{booted}x 1\n")
    return describe(7, proc)


def test_a_command_is_named_without_the_folders_of_its_first_two_words(tmp_path: Path) -> None:
    text = process(tmp_path, b"/usr/bin/python3\0/opt/lab/bin/lab\0run\0/a/b\0\0")
    assert text.startswith("process 7 (python3 lab run /a/b), since ")
    assert process(tmp_path, b"a\0b\0" + b"x" * 200).startswith(f"process 7 (a b {'x' * 76}), since ")


def test_a_process_began_some_ticks_after_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _: 100)
    process(tmp_path, b"a")
    assert lock._started_s(tmp_path / "7", tmp_path) == 1_000_005.0
    process(tmp_path, b"a", booted="")
    assert lock._started_s(tmp_path / "7", tmp_path) == 5.0


@pytest.mark.parametrize("damage", ["ticks", "stat"])
def test_a_process_that_cannot_be_read_is_its_number(tmp_path: Path, damage: str) -> None:
    process(tmp_path, b"a", ticks="soon" if damage == "ticks" else "1")
    if damage == "stat":
        (tmp_path / "7" / "stat").write_text("7 (a) S 1")
    assert describe(7, tmp_path) == "process 7"
