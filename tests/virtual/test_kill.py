"""kill -9 of the `lab` command, at whatever moment, leaves no process, file or mount of a machine in virtual time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# KILLS=200 for the long version.
KILLS = int(os.environ.get("KILLS", "4"))
_CELL = "curl--dsl-20--http1-get-5MiB-at-2MBps"
_LATEST_S = 8.0
_SETTLE_S = 20.0


def descendants(pid: int, found: dict[int, str]) -> dict[int, str]:
    """All descendants of `pid`: process ids with their start times."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # it has ended between the look at its parent and this one
        return found
    for thread in threads:
        try:
            words = (thread / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, words):
            if born := birth(child):
                found[child] = born
                descendants(child, found)
    return found


def birth(pid: int) -> str:
    """Start time of a process; empty if it is gone or a zombie."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] == "Z" else words[19]


def litter(folder: Path) -> set[str]:
    shared = {f"/dev/shm/{path.name}" for path in Path("/dev/shm").glob("*uml*")} | {
        str(path) for path in Path.home().glob(".uml*")
    }
    return shared | {str(path) for path in folder.rglob("*")}


def mounted() -> set[str]:
    """This host's mounts without those of a container engine, because another test may run containers at the same time."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return {line for line in lines if "overlay" not in line and "/docker/" not in line}


@pytest.mark.timeout(60 + 60 * KILLS)
def test_kill_9_at_random_moments_leaves_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {**os.environ, "THROUGHLINE_RESULTS": str(tmp_path / "results"), "TMPDIR": str(temporary)}
    argv = [sys.executable, "-m", "lab.cli.main", "run", _CELL, "--clock", "virtual"]
    mounts, before = mounted(), litter(temporary)
    caught = 0
    for number in range(KILLS):
        lab = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun: dict[int, str] = {}
        # Every other one is killed while it has a machine, however long this host takes to get there.
        if number % 2:
            while lab.poll() is None and not descendants(lab.pid, {}):
                time.sleep(0.01)
        moment = time.monotonic() + chance.uniform(0.0, _LATEST_S)
        while time.monotonic() < moment and lab.poll() is None:
            time.sleep(0.02)
        # Stopped, so that what it begins between the look and the kill is seen too.
        lab.send_signal(signal.SIGSTOP)
        descendants(lab.pid, begun)
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        caught += bool(begun)
        deadline = time.monotonic() + _SETTLE_S
        while (left := [pid for pid, born in begun.items() if birth(pid) == born]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == []
        assert litter(temporary) == before
        assert mounted() <= mounts
    print(f"{caught} of {KILLS} had something to end")
