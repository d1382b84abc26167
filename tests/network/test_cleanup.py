"""Whatever happens to the lab, it leaves nothing behind, and the machine is as it was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.hosts.namespaces.launch import running_labs
from lab.hosts.namespaces.network import SERVER_ADDRESS, open_network
from lab.net.pins import pin

# CONTRIBUTING.md: KILLS=50 for the long version.
KILLS = int(os.environ.get("KILLS", "6"))
WATCHED_FOLDERS = ("/run", "/dev/shm", "/var/tmp")


@pytest.fixture(autouse=True)
def _own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes change /tmp. The lab looks for it in a folder of the test's instead, which no other process changes."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))


def _machine() -> dict[str, object]:
    """What a lab must not touch: interfaces, routes, qdiscs, mounts, sysctls, and the places where litter collects."""

    def output(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    sysctls = ("net/ipv4/ip_forward", "net/ipv4/tcp_rmem", "net/ipv4/tcp_congestion_control", "net/core/rmem_max")
    return {
        "links": output("ip", "-o", "link").replace("UNKNOWN", ""),
        "routes": output("ip", "route", "show", "table", "all"),
        "qdiscs": output("tc", "qdisc", "show"),
        "netns": output("ip", "netns", "list"),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "sysctls": [Path("/proc/sys", name).read_text() for name in sysctls],
        "files": {
            folder: sorted(path.name for path in Path(folder).iterdir()) for folder in (*WATCHED_FOLDERS, os.environ["TMPDIR"])
        },
    }


def _left() -> list[str]:
    """Processes of any lab of this user, whatever namespace they are in."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if entry.stat().st_uid != os.getuid():
                    continue
            except OSError:
                continue
            if any(word in command for word in ("lab.hosts.namespaces", "linux.uml", "iperf3 -s", "nginx: ")):
                found.append(command)
    return found


def _namespaces() -> set[str]:
    seen = set()
    for kind in ("net", "mnt", "pid", "user"):
        for path in Path("/proc").glob(f"[0-9]*/ns/{kind}"):
            try:
                seen.add(str(path.readlink()))
            except OSError:
                continue
    return seen


def _settle(condition, seconds: float = 5.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.timeout(600)
def test_kill_9_at_random_moments_leaves_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    machine, namespaces = _machine(), _namespaces()
    env = {**os.environ, "THROUGHLINE_RESULTS": str(tmp_path / "results")}
    cell = "curl--dsl-20--http1-get-5MiB-at-2MBps"
    for _ in range(KILLS):
        argv = [sys.executable, "-m", "lab.cli.main", "run", "--clock", "real", cell]
        lab = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.0, 6.0))
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        _settle(lambda: not _left() and not running_labs())
        assert _left() == []
        assert running_labs() == []
        _settle(lambda: _namespaces() <= namespaces)
        assert _namespaces() <= namespaces
        assert _machine() == machine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_end_leaves_nothing_either(tmp_path: Path, number: signal.Signals) -> None:
    machine = _machine()
    env = {**os.environ, "THROUGHLINE_RESULTS": str(tmp_path / "results")}
    argv = [sys.executable, "-m", "lab.cli.main", "shell", "--rate", "20mbit", "--", "sleep", "60"]
    lab = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    _settle(lambda: bool(_sleepers()), 15)
    assert len(_sleepers()) == 1
    lab.send_signal(number)
    assert lab.wait(10) != 0
    assert _left() == []
    assert _machine() == machine


def _sleepers() -> list[str]:
    commands = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                commands.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return [command for command in commands if command.startswith("sleep 60")]


def test_two_labs_do_not_see_each_other() -> None:
    machine = _machine()
    one, two = open_network(), open_network()
    try:
        for network in (one, two):
            pin(network, "cubic")
        one.server.write(f"{one.server.workdir}/mine", b"one")
        assert two.server.run(["cat", f"{two.server.workdir}/mine"], check=False).returncode != 0
        listener = one.server.start(["python3", "-m", "http.server", "7001"])
        connect = ["bash", "-c", f"exec 3<>/dev/tcp/{SERVER_ADDRESS}/7001"]
        _settle(lambda: one.client.run(connect, check=False).returncode == 0)
        assert one.client.run(connect, check=False).returncode == 0
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
    assert _machine() == machine
