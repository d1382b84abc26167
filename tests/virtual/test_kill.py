"""kill -9 of the `lab` command, at whatever moment, leaves no process, file or mount of a machine in virtual time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from lab.model.paths import cache_dir
from tests.support.own_machine import OwnMachine
from tests.support.processes import adopting, descendants
from tests.support.waiting import until

# KILLS=200 for the long version.
KILLS = int(os.environ.get("KILLS", "4"))
_WORDS = (sys.executable, "-m", "lab.cli.main", "run", "curl--dsl-20--http1-get-5MiB-at-2MBps", "--clock", "virtual")
_LATEST_S = 8.0
_SETTLE_S = 20.0


def begun(lab: subprocess.Popen[bytes]) -> bool:
    return lab.poll() is not None or bool(descendants(lab.pid))


@pytest.mark.timeout(60 + 60 * KILLS)
def test_kill_9_at_random_moments_leaves_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    # A kernel in user mode keeps files in the home folder. The cache stays that of this user.
    home = tmp_path / "home"
    home.mkdir()
    kept = {"ROUGHWATER_CACHE": str(cache_dir())}
    caught = 0
    with adopting(), OwnMachine(tmp_path / "tmp") as machine:
        env = machine.environment(ROUGHWATER_RESULTS=str(tmp_path / "results"), HOME=str(home), **kept)
        before, others = machine.state(), machine.processes()
        for number in range(KILLS):
            lab = subprocess.Popen(machine.command(*_WORDS), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Every other one is killed while it has a machine, however long this host takes to get there.
            if number % 2:
                until(partial(begun, lab), "the lab has begun something or ended", 60)
            moment = time.monotonic() + chance.uniform(0.0, _LATEST_S)
            while time.monotonic() < moment and lab.poll() is None:
                time.sleep(0.02)
            caught += bool(descendants(lab.pid))
            lab.send_signal(signal.SIGKILL)
            lab.wait()
            until(lambda: machine.processes() == others, "the last process of the lab has ended", _SETTLE_S)
            assert machine.state() == before
            assert list(home.iterdir()) == []
    print(f"{caught} of {KILLS} had something to end")
