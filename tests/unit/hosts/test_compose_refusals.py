"""The compose backend where it cannot work: a message of one line, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.hosts.compose import network, project, subnets
from lab.hosts.compose.docker import NoEngine, refusal
from lab.hosts.compose.project import Project
from lab.model.errors import LabFault, UsageProblem


@pytest.fixture(autouse=True)
def _docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this machine has no docker, a stand-in that finds no engine."""
    if shutil.which("docker") is None:
        docker = tmp_path / "bin/docker"
        docker.parent.mkdir()
        docker.write_text('#!/bin/sh\necho "Cannot connect to the Docker daemon at $DOCKER_HOST." >&2\nexit 1\n')
        docker.chmod(0o755)
        monkeypatch.setenv("PATH", str(docker.parent), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("environment", "telling"),
    [
        ({"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "container engine is not running"),
        ({"PATH": "/nowhere"}, "no docker on this machine"),
    ],
)
def test_no_engine_is_one_line(environment: dict[str, str], telling: str) -> None:
    argv = [sys.executable, "-m", "lab.cli.main", "calibrate", "--backend", "compose", "--rate", "20mbit"]
    done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert telling in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_every_subnet_taken_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(subnets, "taken", lambda: ["10.0.0.0/8"])
    monkeypatch.setattr(project, "containers", lambda _name: [])
    Project("x").claim()
    with pytest.raises(UsageProblem, match=r"no network of 10\.77\.0\.0/16 is free"):
        Project("x").up({}, "auto")


def test_what_compose_says_is_in_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess(["docker"], 1, b"client started\n", b"ERROR: router is tired\n")
    monkeypatch.setattr(project, "run", lambda *_, **__: refused)
    monkeypatch.setattr(project, "compose_command", lambda: ["docker-compose"])
    monkeypatch.setattr(subnets, "taken", list)
    with pytest.raises(LabFault, match="router is tired"):
        Project("x").up({}, "auto")


def test_the_last_words_of_a_container_that_ended_are_in_the_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(project, "containers", lambda _name: [{"ID": "7", "Names": "x-router", "State": "exited"}])
    logs = subprocess.CompletedProcess(["docker"], 0, b"begun\n", b"no netem\n")
    monkeypatch.setattr(project, "docker", lambda *words, **_: logs if words[-1] == "7" else None)
    with pytest.raises(LabFault, match=r"x-router has not started: begun \| no netem"):
        Project("x").wait_for_agents()


def test_an_engine_that_is_restarted_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(project, "_RETRY_S", 0.0)
    asked: list[str] = []

    def ask(*words: str) -> str:
        asked.append(words[0])
        if len(asked) <= 2:
            raise NoEngine if len(asked) == 1 else LabFault("`docker ps` failed: EOF")
        return ""

    monkeypatch.setattr(project, "ask", ask)
    Project("x").down(patience_s=60.0)
    assert asked == ["ps", "ps", "ps", "network", "volume"]


def test_an_engine_that_ends_while_a_lab_starts_is_a_lab_fault_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(network, "engine_version", lambda: "20")
    monkeypatch.setattr(network, "compose_version", lambda: "1.29")
    monkeypatch.setattr(network.images, "require_all", dict)
    monkeypatch.setattr(project, "containers", lambda _name: [])
    patience: list[float] = []
    monkeypatch.setattr(Project, "down", lambda _project, *, patience_s: patience.append(patience_s))

    def up(*_: object) -> None:
        raise refusal("compose up", "Cannot connect to the Docker daemon at unix:///run/docker.sock.")

    monkeypatch.setattr(Project, "up", up)
    with pytest.raises(LabFault, match="the container engine ended while lab 'x' started"):
        network.open_network(name="x")
    assert patience == [30.0]


def test_an_engine_that_does_not_come_back_is_one_line_with_the_way_to_tidy_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_RETRY_S", 0.0)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(LabFault, match="what is left of lab x cannot be removed: the container engine is not running") as fault:
        Project("x").down(patience_s=0.01)
    assert fault.value.remedy == "run `lab down x` once the container engine runs again"
    with pytest.raises(UsageProblem, match="the container engine is not running"):
        Project("x").down()


def test_a_path_too_long_for_a_socket_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUGHWATER_CACHE", str(tmp_path / ("x" * 100)))
    monkeypatch.setattr(project, "containers", lambda _name: [])
    with pytest.raises(UsageProblem, match="too long for a socket"):
        Project("x").claim()


@pytest.mark.parametrize(
    ("said", "telling"),
    [
        ("Got permission denied while trying to connect to the Docker daemon socket", "no permission"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "is not running"),
        (
            "ERROR: Couldn't connect to Docker daemon at http+docker://x - is it running?\n\nIf it's elsewhere, say so",
            "is not running",
        ),
        ("docker.errors.DockerException: Error while fetching server API version: ('Connection aborted.', x)", "is not running"),
        ("DockerException: Error while fetching server API version: (PermissionError(13, 'Permission denied'))", "no permission"),
        ("write /x: no space left on device", "disk is full"),
        ("Error: No such image: roughwater/client:latest", "an image is missing"),
        ("one\nERROR: for client  it is tired\n\n", "`docker up` failed: ERROR: for client  it is tired"),
        ("", "without a message"),
    ],
)
def test_a_refusal_of_the_engine_becomes_one_line(said: str, telling: str) -> None:
    assert telling in str(refusal("docker up", said))
