"""A killed lab of containers leaves little behind, and `lab down --all` removes only that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from lab.hosts.choose import labs
from lab.hosts.compose.docker import ask, docker
from lab.hosts.compose.network import open_network
from lab.hosts.compose.project import LAB_LABEL, containers
from lab.net.guard import assert_no_bypass
from lab.net.pins import pin
from tests.support.waiting import until

LAB = [sys.executable, "-m", "lab.cli.main"]


# A machine's engine has containers of others: only what the lab marks as its own may have come or gone.
OURS = ("--filter", f"label={LAB_LABEL}")


def _state() -> dict[str, list[str]]:
    return {
        "containers": sorted(ask("ps", "--all", "--quiet", *OURS).split()),
        "networks": sorted(ask("network", "ls", "--quiet", *OURS).split()),
        "volumes": sorted(ask("volume", "ls", "--quiet", *OURS).split()),
    }


def _has_ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_killed_lab_stops_and_down_takes_the_rest(tmp_path: Path) -> None:
    others = f"somebody-elses-{os.getpid()}"
    docker("network", "create", others)
    try:
        before = _state()
        env = {**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")}
        argv = [*LAB, "run", "--backend", "compose", "curl--dsl-20--http1-get-5MiB-at-2MBps"]
        lab = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: [entry["State"] for entry in containers()] == ["running"] * 3, "three containers run", 30)
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        until(lambda: {entry["State"] for entry in containers()} <= {"exited"}, "they have stopped", 15)
        done = subprocess.run([*LAB, "down", "--all"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert _state() == before
        assert "compose" not in labs().values()
        assert others in ask("network", "ls", "--format", "{{.Name}}").split(), "what is not a lab's stays"
    finally:
        docker("network", "rm", others)


def test_a_lab_killed_before_it_holds_its_containers_stops(tmp_path: Path) -> None:
    """Compose goes on by itself: it starts containers for a lab that is no more."""
    before = _state()
    env = {**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")}
    argv = [*LAB, "run", "--backend", "compose", "curl--dsl-20--http1-get-5MiB-at-2MBps"]
    lab = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: _state()["containers"] != before["containers"], "the first container is made", 30)
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    until(lambda: _has_ended(lab.pid), "Compose is done, or has given up", 60)
    until(lambda: {entry["State"] for entry in containers()} <= {"exited", "created"}, "none runs", 15)
    done = subprocess.run([*LAB, "down", "--all"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _state() == before


def test_an_orderly_end_leaves_nothing(tmp_path: Path) -> None:
    before = _state()
    env = {**os.environ, "ROUGHWATER_RESULTS": str(tmp_path / "results")}
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
    box = f"Box{os.getpid()}"

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*LAB, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    made = lab("up", "dsl-20", "--backend", "compose", "--name", box)
    try:
        assert made.returncode == 0, made.stderr
        got = lab(
            "exec",
            "--lab",
            box,
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
        assert lab("link", "--lab", box, "--rate", "40mbit", "--rtt", "30ms").returncode == 0
        told = json.loads(lab("status", "--json").stdout)
        assert [(entry["backend"], entry["state"]) for entry in told if entry["name"] == box] == [("compose", "up")]
    finally:
        down = lab("down", box)
    assert down.returncode == 0, down.stderr
    assert _state() == before
