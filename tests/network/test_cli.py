"""The command as a person meets it: exit codes, one line per problem, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hosts.namespaces.launch import running_labs
from tests.support.command import lab, one_line
from tests.support.processes import adopting, descendants
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Other labs of this machine do not count: only what descends from the test."""
    with adopting():
        before = descendants(os.getpid())
        yield
        until(lambda: descendants(os.getpid()).keys() <= before.keys(), "what the test has started ends")


SHORT_CELL = "curl--link-local--http1-get-200kB-at-2MBps"


def test_a_typo_in_a_topology_names_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndescription: d\nlink:\n  rate: 50 Mbit/s\n  rt: 20 ms\n")
    done = lab("up", str(path))
    assert done.returncode == 2
    assert f"{path}:5: link.rt" in one_line(done)
    assert "rtt" in one_line(done)


def test_missing_iperf3_is_one_line(tmp_path: Path) -> None:
    """On a machine without apt-get, which would fetch it. The tools' own search of sbin folders is switched off with it."""
    shadow = tmp_path / "sitecustomize.py"
    shadow.write_text(
        "import lab.assets.tools as tools\n"
        "real = tools.find\n"
        "tools.find = lambda name: None if name == 'iperf3' else real(name)\n"
        "which = tools.shutil.which\n"
        "tools.shutil.which = lambda name, **more: None if name == 'apt-get' else which(name, **more)\n"
    )
    env = {"PYTHONPATH": str(tmp_path), "ROUGHWATER_RESULTS": str(tmp_path / "results")}
    done = lab("run", SHORT_CELL, "--clock", "real", env=env)
    assert done.returncode == 4
    assert "this machine has no iperf3, and no apt-get to fetch them with" in one_line(done)


def test_no_user_namespaces_is_one_line(tmp_path: Path) -> None:
    """The limit is per user namespace: an outer one of our own, in which no more may be made, stands for such a machine."""
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
    argv = ["unshare", "-Ur", "sh", "-c", script, "sh", sys.executable, "-m", "lab.cli.main", "shell", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 4, done.stderr
    assert "user namespaces are off" in one_line(done)


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """A results folder on a file system of 128 KiB that is already full, in a mount namespace of the test's own."""
    results = tmp_path / "results"
    results.mkdir()
    script = (
        f"mount -t tmpfs -o size=128k tmpfs {results} && dd if=/dev/zero of={results}/filler bs=1k count=120 2>/dev/null; "
        f'"$@"; code=$?; find {results} -name "*.json*" | sed "s/^/left: /"; exit $code'
    )
    argv = [
        "unshare",
        "-Urm",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-m",
        "lab.cli.main",
        "run",
        SHORT_CELL,
        "--clock",
        "real",
    ]
    env = {**os.environ, "ROUGHWATER_RESULTS": str(results)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=env, stdin=subprocess.DEVNULL)
    assert done.returncode == 4, done.stderr
    assert "space" in one_line(done)
    assert "left:" not in done.stdout


def test_a_cell_by_name_leaves_its_result_and_reports(tmp_path: Path) -> None:
    done = lab("run", SHORT_CELL, "--clock", "real", "--json", env={"ROUGHWATER_RESULTS": str(tmp_path)})
    record = json.loads(done.stdout)
    assert record["cells"] == [SHORT_CELL]
    assert done.returncode == record["exit_code"]
    run = tmp_path / record["run"]
    assert (run / "cells" / f"{SHORT_CELL}.json").is_file()
    assert all((run / name).is_file() for name in ("run.json", "report.html", "junit.xml", "summary.md"))
    assert not (run / "robot").exists(), "only suites run under Robot"
    assert (tmp_path / "latest").resolve() == run.resolve()


def test_up_exec_link_status_down() -> None:
    name = f"t{os.getpid()}"
    assert lab("up", "dsl-20", "--name", name).returncode == 0
    try:
        assert "already running" in one_line(lab("up", "--name", name))
        found = json.loads(lab("status", "--json").stdout)
        assert [entry["topology"] for entry in found if entry["name"] == name] == ["dsl-20"]
        answer = lab("exec", "--lab", name, "client", "--", "curl", "-sS", "-w", "%{http_code}", "http://server/ready")
        assert answer.stdout == "204"
        assert "rate 50000000bit" in lab("link", "--lab", name, "--rate", "50mbit", "--rtt", "20ms").stdout
        assert "rate 50Mbit" in lab("exec", "--lab", name, "router", "--", "tc", "qdisc", "show").stdout
        assert lab("exec", "--lab", name, "client", "--", "sh", "-c", "exit 7").returncode == 7
    finally:
        assert lab("down", name).returncode == 0
    assert name not in running_labs()


def test_shell_gives_the_commands_own_exit_code_and_the_links_round_trip() -> None:
    done = lab("shell", "--rate", "20mbit", "--rtt", "40ms", "--", "ping", "-c", "3", "-i", "0.2", "server")
    assert done.returncode == 0, done.stderr
    times = [float(part.split("=")[1]) for part in done.stdout.split() if part.startswith("time=")]
    assert len(times) == 3
    assert min(times) >= 40
    assert lab("shell", "--", "sh", "-c", "exit 3").returncode == 3


def test_calibrate_prints_errors_and_intervals() -> None:
    done = lab("calibrate", "--rate", "33mbit", "--rtt", "12ms", "-n", "2", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert {"up", "down"} == set(report["directions"])
    for found in report["directions"].values():
        error = found["goodput_error"]
        assert error["n"] == 2
        assert error["low"] <= error["mean"] <= error["high"]
        assert abs(error["mean"]) < 0.01
    assert set(report["rtt_excess_ms"]) >= {"mean", "low", "high", "values"}
