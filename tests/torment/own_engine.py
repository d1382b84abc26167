"""An engine of containers of the torment's own: network, mounts and data end with it, and the machine's own engine goes on.

Needs root, and the images of `make images`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from lab.hosts.compose import content, images
from lab.hosts.compose.docker import run
from lab.hosts.compose.project import OWNER_LABEL
from lab.model.errors import RoughwaterError
from tests.support.own_machine import OwnMachine
from tests.support.waiting import until

_READY_S = 60.0
_LOAD_S = 300.0


class Engine:
    """A context manager. It keeps its data in a folder. As with systemd, containerd runs on while dockerd is restarted."""

    def __init__(self, machine: OwnMachine, folder: Path) -> None:
        self._machine = machine
        self._folder = folder
        self._containerd: subprocess.Popen[bytes] | None = None
        self._dockerd: subprocess.Popen[bytes] | None = None
        self.environment = {"DOCKER_HOST": f"unix://{folder}/sock"}

    def __enter__(self) -> Self:
        self._folder.mkdir()
        (self._folder / "dockerd.json").write_text("{}")
        (self._folder / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        # containerd's own, whatever else is said to it.
        self._machine.said("mkdir", "-p", "/run/containerd/s")
        try:
            places = {"root": "containers", "state": "running", "address": "containerd.sock", "config": "containerd.toml"}
            self._containerd = self._started("containerd", *self._options(places))
            self.start()
            names = [images.image_name(role) for role in content.ROLES]
            with subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE) as saved:
                words = self._machine.command("docker", "load", "--quiet")
                env = {**os.environ, **self.environment}
                subprocess.run(words, stdin=saved.stdout, stdout=subprocess.DEVNULL, env=env, check=True, timeout=_LOAD_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._dockerd is not None:
            self.end(signal.SIGTERM)
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait(timeout=_READY_S)

    def start(self) -> None:
        """Returns when it answers."""
        places = {"data-root": "data", "exec-root": "run", "pidfile": "pid", "config-file": "dockerd.json"}
        places["containerd"] = "containerd.sock"
        self._dockerd = self._started("dockerd", f"--host=unix://{self._folder}/sock", *self._options(places))
        until(lambda: self._asked("version").returncode == 0, f"the engine answers: {self._folder}/log", _READY_S)

    def end(self, by: signal.Signals) -> None:
        """Returns when it has ended."""
        assert self._dockerd is not None
        self._dockerd.send_signal(by)
        self._dockerd.wait(timeout=_READY_S)

    def _options(self, places: Mapping[str, str]) -> list[str]:
        return [f"--{option}={self._folder / name}" for option, name in places.items()]

    def _started(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(self._machine.command(*words), stdout=log, stderr=log)

    def labs(self) -> list[str]:
        """Containers with their states, networks and volumes of labs."""
        return [*self.containers(), *(name for kind in ("network", "volume") for name in self._listed(kind, "ls", "{{.Name}}"))]

    def containers(self) -> list[str]:
        return self._listed("ps", "--all", "{{.State}} {{.Names}}")

    def _listed(self, kind: str, option: str, form: str) -> list[str]:
        done = self._asked(kind, option, "--format", form, "--filter", f"label={OWNER_LABEL}={os.getuid()}")
        assert done.returncode == 0, done.stderr.decode()
        return sorted(done.stdout.decode().splitlines())

    def _asked(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return run(self._machine.command("docker", *words), timeout_s=_READY_S, check=False, env=self.environment)


def lacking() -> str:
    """Why there can be no engine of one's own; empty if there can."""
    if os.geteuid():
        return "only root may start an engine of containers"
    if shutil.which("dockerd") is None:
        return "there is no dockerd: apt-get install docker.io"
    try:
        images.require_all()
    except RoughwaterError as fault:
        return fault.message
    return ""
