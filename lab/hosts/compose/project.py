"""One lab of containers as Compose and the engine see it: started, found again, and removed with everything it left.

All its containers and networks have two labels: the lab's name, and the user it belongs to. The lab never touches others.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.hosts.compose import content, images, subnets
from lab.hosts.compose.docker import ask, compose_command, docker, refusal, run
from lab.hosts.wiring import Addresses
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir, shipped_root

LAB_LABEL = "org.roughwater.lab"
OWNER_LABEL = "org.roughwater.owner"
PROFILE = "real"
"""The profile of the three containers in docker-compose.yml."""
UP_TIMEOUT_S = 120
CLAIM = "claim"
"""The file in the shared folder that a lab locks until it holds its containers (`lab.hosts.compose.inside.entry`)."""
_PREFIX = "roughwater-"
_RETRY_S = 0.5
# unix(7): sun_path is 108 bytes.
_LONGEST_SOCKET = 107


@dataclass(frozen=True)
class Project:
    """The containers, networks and folder of the lab called `name`."""

    name: str

    @property
    def compose_name(self) -> str:
        """Compose takes lower case only."""
        return _PREFIX + self.name.lower()

    @property
    def folder(self) -> Path:
        return cache_dir() / "compose" / self.name

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def socket(self, role: str) -> str:
        return str(self.shared / f"{role}.socket")

    def claim(self) -> IO[bytes]:
        """Reserve the name before anything is made. Raises UsageProblem where it is taken.

        A container without a `hold` ends when the returned file is closed: a lab may be killed while Compose works.
        """
        if self.folder.exists() or containers(self.name):
            raise UsageProblem(
                f"a lab named {self.name!r} is already there", remedy=f"lab down {self.name}, or choose another --name"
            )
        if len(self.socket("client")) > _LONGEST_SOCKET:
            raise UsageProblem(f"the path {self.folder} is too long for a socket", remedy="set ROUGHWATER_CACHE to a shorter one")
        self.folder.mkdir(parents=True, mode=0o700)
        # The containers' user writes here; the folder above keeps other users out.
        self.shared.mkdir()
        self.shared.chmod(0o777)
        claim = (self.shared / CLAIM).open("wb")
        (self.shared / CLAIM).chmod(0o644)
        fcntl.flock(claim, fcntl.LOCK_EX)
        return claim

    def up(self, made: Mapping[str, images.Image], router: str) -> Addresses:
        """Start the three containers of a claimed name; nothing waits for anything but its start. Returns the networks they got.

        Raises UsageProblem where no network is free, LabFault with the engine's own words.
        """
        said = ""
        for addresses in subnets.free(subnets.taken()):
            said = self._compose(made, router, addresses)
            if not said:
                return addresses
            if "overlap" not in said.lower():
                break
            # Another user's lab took these networks first.
            self._remove()
        raise (
            refusal("compose up", said)
            if said
            else UsageProblem(
                "no network of 10.77.0.0/16 is free", remedy="`docker network ls` and `ip route` show what uses them"
            )
        )

    def _compose(self, made: Mapping[str, images.Image], router: str, addresses: Addresses) -> str:
        """Empty, or what Compose said when it failed."""
        environment = {
            "ROUGHWATER_LAB": self.name,
            "ROUGHWATER_OWNER": str(os.getuid()),
            "ROUGHWATER_DRIVER": "lab",
            "ROUGHWATER_SHARED": str(self.shared),
            "ROUGHWATER_ROUTER": router,
            # The lab's own checks are stricter; one a second would be seen in what it measures.
            "ROUGHWATER_HEALTH_INTERVAL": "1h",
            "CLIENT_NET": addresses.client_net,
            "SERVER_NET": addresses.server_net,
            **{f"ROUGHWATER_{role.upper()}_IMAGE": image.id for role, image in made.items()},
        }
        file = shipped_root() / "docker-compose.yml"
        words = [*compose_command(), "--profile", PROFILE, "-p", self.compose_name, "-f", str(file)]
        words += ["up", "-d", "--no-build", "--no-deps"]
        # The client by itself: together with the others Compose would have it wait for health checks, which are for people.
        for roles in (("router", "server"), ("client",)):
            done = run([*words, *roles], timeout_s=UP_TIMEOUT_S, check=False, env=environment, cwd=str(file.parent))
            if done.returncode:
                return _both(done) or f"exit code {done.returncode}"
        return ""

    def wait_for_agents(self, timeout_s: float = 10.0) -> None:
        """Until every container listens. Raises LabFault with the last words of a container that has ended."""
        deadline = time.monotonic() + timeout_s
        while missing := [role for role in content.ROLES if not Path(self.socket(role)).exists()]:
            ended = [entry for entry in containers(self.name) if entry["State"] == "exited"]
            if ended or time.monotonic() > deadline:
                names = ", ".join(entry["Names"] for entry in ended) or ", ".join(missing)
                raise LabFault(f"container {names} has not started: {self._logs(ended) or 'without a message'}")
            time.sleep(0.02)

    def _logs(self, entries: list[dict[str, str]]) -> str:
        said = "".join(_both(docker("logs", "--tail", "3", entry["ID"], check=False)) for entry in entries)
        return " | ".join(said.split("\n")[-3:]).strip(" |")

    def down(self, *, patience_s: float = 0.0) -> None:
        """Idempotent. An engine that cannot do it, because it is restarted, is waited for that long; then LabFault."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._remove()
                break
            except (UsageProblem, LabFault) as gone:
                if not patience_s:
                    raise
                if time.monotonic() > deadline:
                    left = f"what is left of lab {self.name} cannot be removed: {gone.message}"
                    raise LabFault(left, remedy=f"run `lab down {self.name}` once the container engine runs again") from None
                time.sleep(_RETRY_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove(self) -> None:
        for words, listing in (
            (("rm", "--force", "--volumes"), ("ps", "--all", "--quiet", "--no-trunc")),
            (("network", "rm"), ("network", "ls", "--quiet")),
            (("volume", "rm", "--force"), ("volume", "ls", "--quiet")),
        ):
            filters = _filters(self.name)
            if found := ask(*listing, *filters).split():
                docker(*words, *found, timeout_s=60)


def containers(name: str = "") -> list[dict[str, str]]:
    """This user's containers, running or not: the rows of `docker ps`, for all labs or for one."""
    lines = ask("ps", "--all", *_filters(name), "--format", "{{json .}}").splitlines()
    found: list[dict[str, str]] = [json.loads(line) for line in lines]
    return found


def labs() -> list[str]:
    """Names of this user's labs of containers, and of what is left of them; empty where there is no engine."""
    if shutil.which("docker") is None:
        return []
    try:
        made = {_label(entry["Labels"]) for entry in containers()}
        for kind in ("network", "volume"):
            made |= {_label(line) for line in ask(kind, "ls", *_filters(), "--format", "{{.Labels}}").splitlines()}
    except (UsageProblem, LabFault):
        made = set()
    kept = cache_dir() / "compose"
    return sorted((made | ({path.name for path in kept.iterdir()} if kept.is_dir() else set())) - {""})


def _filters(name: str = "") -> list[str]:
    labels = [f"{OWNER_LABEL}={os.getuid()}", *([f"{LAB_LABEL}={name}"] if name else [])]
    return [word for label in labels for word in ("--filter", f"label={label}")]


def _label(labels: str) -> str:
    pairs = dict(pair.split("=", 1) for pair in labels.split(",") if "=" in pair)
    return pairs.get(LAB_LABEL, "")


def _both(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode(errors="replace")
