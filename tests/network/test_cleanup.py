"""Whatever happens to the lab, it leaves nothing behind, and the machine is as it was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts.namespaces.launch import running_labs
from lab.hosts.namespaces.network import SERVER_ADDRESS, open_network
from lab.net.pins import pin
from tests.support.own_machine import OwnMachine
from tests.support.processes import adopting, descendants
from tests.support.waiting import until

# CONTRIBUTING.md: KILLS=50 for the long version.
KILLS = int(os.environ.get("KILLS", "6"))
LAB = (sys.executable, "-m", "lab.cli.main")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[OwnMachine]:
    with adopting(), OwnMachine(tmp_path / "tmp") as made:
        yield made


@pytest.mark.timeout(600)
def test_kill_9_at_random_moments_leaves_nothing(machine: OwnMachine, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    before = machine.state()
    others = machine.processes()
    env = machine.environment(ROUGHWATER_RESULTS=str(tmp_path / "results"))
    words = (*LAB, "run", "--clock", "real", "curl--dsl-20--http1-get-5MiB-at-2MBps")
    for _ in range(KILLS):
        lab = subprocess.Popen(machine.command(*words), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.0, 6.0))
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        until(lambda: machine.processes() == others, "the last process of the lab has ended")
        assert machine.state() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_leaves_nothing_either(machine: OwnMachine, tmp_path: Path, number: signal.Signals) -> None:
    before = machine.state()
    others = machine.processes()
    env = machine.environment(ROUGHWATER_RESULTS=str(tmp_path / "results"))
    words = machine.command(*LAB, "shell", "--rate", "20mbit", "--", "sleep", "31536000")
    lab = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    until(lambda: "sleep 31536000" in machine.processes(), "the shell's command runs", 30)
    lab.send_signal(number)
    assert lab.wait(10) != 0
    assert machine.processes() == others
    assert machine.state() == before


def test_two_labs_do_not_see_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with adopting():
        before = descendants(os.getpid())
        one, two = open_network(), open_network()
        try:
            for network in (one, two):
                pin(network, "cubic")
            one.server.write(f"{one.server.workdir}/mine", b"one")
            assert two.server.run(["cat", f"{two.server.workdir}/mine"], check=False).returncode != 0
            listener = one.server.start(["python3", "-m", "http.server", "7001"])
            connect = ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER_ADDRESS}/7001"]
            until(lambda: one.client.run(connect, check=False).returncode == 0, "the server listens")
            assert two.client.run(connect, check=False).returncode != 0
            listener.stop()
            agents = [network.wire.run(["cat", "/proc/1/cmdline"], root=True).text for network in (one, two)]
            assert all("lab.hosts.namespaces.agent" in command for command in agents)
            assert {one.name, two.name} <= set(running_labs())
            two.close()
            assert one.client.run(["true"]).returncode == 0
        finally:
            one.close()
            two.close()
        assert not {one.name, two.name} & set(running_labs())
        until(lambda: descendants(os.getpid()).keys() <= before.keys(), "the last process of both labs has ended")
    assert list(folder.iterdir()) == []
