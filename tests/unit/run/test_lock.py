"""One measurement at a time on a machine; a second process learns who holds it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.main import app, register
from lab.model.errors import EXIT_USAGE, UsageProblem
from lab.model.paths import lock_path
from lab.run.lock import describe, holders, measuring, parse_holders

LOCKS = """\
1: FLOCK  ADVISORY  WRITE 1445 fe:00:753898 0 EOF
1: -> FLOCK  ADVISORY  WRITE 99 fe:00:753898 0 EOF
2: FLOCK  ADVISORY  READ 1430 fe:00:753938 0 EOF
3: FLOCK  ADVISORY  READ 1431 fe:00:753938 0 EOF
4: POSIX  ADVISORY  WRITE 1432 fe:00:753938 0 EOF
5: OFDLCK ADVISORY  READ -1 00:06:3 0 EOF
6: FLOCK  ADVISORY  READ 1433 00:1f:753938 0 EOF
"""
HOLD = """
import sys
from pathlib import Path
from lab.run.lock import measuring
with measuring(0, print, beside=sys.argv[2] == "beside", path=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@contextmanager
def holder(place: Path, kind: str = "alone") -> Iterator[subprocess.Popen[str]]:
    """Another process that has the machine."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_alone_it_says_nothing_and_leaves_a_file_that_everybody_can_lock(place: Path) -> None:
    before = os.umask(0o077)
    try:
        with measuring(0, pytest.fail, path=place):
            assert holders(place) == [os.getpid()]
    finally:
        os.umask(before)
    assert holders(place) == []
    assert place.stat().st_mode & 0o777 == 0o644
    with measuring(0, pytest.fail, path=place):
        assert holders(place) == [os.getpid()]


def test_a_second_process_learns_who_measures(place: Path) -> None:
    with holder(place) as first:
        with pytest.raises(UsageProblem) as found, measuring(0, pytest.fail, path=place):
            pass
        assert f"already: process {first.pid} (" in found.value.message
        assert ", since " in found.value.message
        assert "--beside" in (found.value.remedy or "")


def test_a_second_process_that_may_wait_says_so_once_and_gets_its_turn(place: Path) -> None:
    said: list[str] = []
    with holder(place) as first:

        def say(text: str) -> None:
            said.append(text)
            first.kill()  # as hard as a holder can end

        with measuring(60, say, path=place):
            assert holders(place) == [os.getpid()]
    assert len(said) == 1
    assert said[0].startswith(f"waiting, at most 60 s, for another measurement on this machine: process {first.pid} (")


def test_processes_share_the_machine_only_if_both_allow_it(place: Path) -> None:
    with holder(place, "beside") as other:
        with measuring(0, pytest.fail, beside=True, path=place):
            assert set(holders(place)) == {os.getpid(), other.pid}
        with pytest.raises(UsageProblem, match=f"process {other.pid}"), measuring(0, pytest.fail, path=place):
            pass
    with holder(place), pytest.raises(UsageProblem), measuring(0, pytest.fail, beside=True, path=place):
        pass


def test_a_file_that_was_removed_meanwhile_does_not_lock(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise two processes would hold the machine: one by the old file, one by the new."""
    real, taken = fcntl.flock, []

    def flock(held: int, kind: int) -> None:
        if not taken:
            taken.append(place.unlink())
        real(held, kind)

    monkeypatch.setattr("lab.run.lock.fcntl.flock", flock)
    monkeypatch.setattr("lab.run.lock.time.sleep", lambda _: None)
    with measuring(60, lambda _: None, path=place):
        assert holders(place) == [os.getpid()]


@pytest.mark.parametrize("odd", ["link", "pipe", "folder", "nowhere"])
def test_a_path_that_is_not_a_file_is_refused_in_one_line(odd: str, place: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if odd == "link":
        place.symlink_to(target)
    elif odd == "pipe":
        os.mkfifo(place)
    elif odd == "folder":
        place.mkdir()
    else:
        place = place / "below"
    with pytest.raises(UsageProblem, match="the lock between measurements") as found, measuring(0, pytest.fail, path=place):
        pass
    assert "ROUGHWATER_LOCK" in (found.value.remedy or "")
    assert not target.exists(), "nothing is made where a link leads"


def test_holders_are_those_of_the_file_and_not_who_waits_for_it() -> None:
    device = os.makedev(0xFE, 0)
    assert parse_holders(LOCKS, device, 753938) == [1430, 1431]
    assert parse_holders(LOCKS, device, 753898) == [1445]
    assert parse_holders(LOCKS, os.makedev(0, 99), 753898) == [1445], "overlay tells another device"
    assert parse_holders(LOCKS, device, 1) == []


def test_a_process_is_described_on_one_line_whatever_it_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"lab\0run\0two\nlines\x1b[31m\0" + b"x" * 500)
    (folder / "stat").write_text("7 (lab) S" + " 1" * 18 + " 100 1")
    (tmp_path / "stat").write_text("btime 1000000\n")
    text = describe(7, tmp_path)
    assert text.startswith("process 7 (lab run ? x")
    assert text.isprintable()
    assert len(text) < 130
    assert describe(8, tmp_path) == "process 8"


def test_the_place_is_the_same_for_every_user_or_what_the_variable_names(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.delenv("ROUGHWATER_LOCK", raising=False)
    assert lock_path() in (Path("/run/lock/roughwater"), Path("/tmp/roughwater"))
    monkeypatch.setenv("ROUGHWATER_LOCK", str(place))
    assert lock_path() == place


@pytest.mark.parametrize(
    "words",
    [
        ["run", "curl--dsl-20--http1-get-1MiB"],
        ["calibrate", "--rate", "20mbit"],
        ["qualify", "curl", "--quick"],
        ["bisect", "curl--dsl-20--http1-get-1MiB", "--good", "curl@8.17.0", "--bad", "curl@8.22.0"],
    ],
)
def test_every_command_that_measures_asks_first(
    words: list[str], place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUGHWATER_LOCK", str(place))
    monkeypatch.setenv("ROUGHWATER_RESULTS", str(tmp_path / "results"))
    with holder(place) as first:
        register(words)
        done = CliRunner().invoke(app, [*words, "--clock", "real", "--wait", "0"])
    assert isinstance(done.exception, UsageProblem)
    assert done.exception.exit_code == EXIT_USAGE
    assert f"process {first.pid}" in done.exception.message
    assert list((tmp_path / "results").glob("2*")) == [], "nothing is left of a run that never began"
