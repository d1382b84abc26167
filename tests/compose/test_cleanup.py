"""A killed lab of containers leaves little behind, and `lab down --all` removes only that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.hosts.choose import labs
from lab.hosts.compose.docker import ask, docker
from lab.hosts.compose.network import open_network
from lab.hosts.compose.project import containers
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin

LAB = [sys.executable, "-m", "lab.cli.main"]


def _state() -> dict[str, list[str]]:
    return {
        "containers": sorted(ask("ps", "--all", "--quiet").split()),
        "networks": sorted(ask("network", "ls", "--quiet").split()),
        "volumes": sorted(ask("volume", "ls", "--quiet").split()),
    }


def _settle(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_killed_lab_stops_and_down_takes_the_rest(tmp_path: Path) -> None:
    docker("network", "create", "somebody-elses", "--subnet", "10.78.9.0/24")
    try:
        before = _state()
        env = {**os.environ, "THROUGHLINE_RESULTS": str(tmp_path / "results")}
        argv = [*LAB, "run", "--backend", "compose", "curl--dsl-20--http1-get-5MiB-at-2MBps"]
        lab = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _settle(lambda: len(containers()) == 3 and all(entry["State"] == "running" for entry in containers()), 30)
        assert len(containers()) == 3
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        _settle(lambda: all(entry["State"] == "exited" for entry in containers()), 15)
        assert {entry["State"] for entry in containers()} <= {"exited"}
        done = subprocess.run([*LAB, "down", "--all"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert _state() == before
        assert "compose" not in labs().values()
    finally:
        docker("network", "rm", "somebody-elses")


def test_an_orderly_end_leaves_nothing(tmp_path: Path) -> None:
    before = _state()
    env = {**os.environ, "THROUGHLINE_RESULTS": str(tmp_path / "results")}
    argv = [*LAB, "shell", "--backend", "compose", "--rate", "20mbit", "--", "cat", "/etc/hostname"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _state() == before


def test_two_labs_at_once_keep_apart() -> None:
    one, two = open_network(), open_network()
    try:
        for network in (one, two):
            pin(network, "cubic")
            assert_no_bypass(network)
        assert one.addresses != two.addresses
        one.server.write(f"{one.server.workdir}/mine", b"one")
        assert two.server.run(["cat", f"{one.server.workdir}/mine"], check=False).returncode != 0
        away = one.client.run(["ping", "-n", "-c", "1", "-W", "1", two.addresses.server], check=False)
        assert away.returncode != 0
        one.close()
        assert two.client.run(["ping", "-n", "-c", "1", "-W", "2", two.addresses.server], root=True).returncode == 0
    finally:
        one.close()
        two.close()


def test_up_exec_link_down() -> None:
    before = _state()

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*LAB, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    made = lab("up", "dsl-20", "--backend", "compose", "--name", "Box")
    try:
        assert made.returncode == 0, made.stderr
        got = lab(
            "exec",
            "--lab",
            "Box",
            "client",
            "--",
            "curl",
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{size_download}",
            "http://server/files/5MiB",
        )
        assert got.stdout == str(5 << 20), got.stderr
        assert lab("link", "--lab", "Box", "--rate", "40mbit", "--rtt", "30ms").returncode == 0
        told = json.loads(lab("status", "--json").stdout)
        assert [(entry["name"], entry["backend"], entry["state"]) for entry in told] == [("Box", "compose", "up")]
    finally:
        down = lab("down", "Box")
    assert down.returncode == 0, down.stderr
    assert _state() == before
