"""The container engine and Compose by their command lines; a refusal becomes one clear line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from lab.model.errors import LabFault, UsageProblem

ENGINE_REMEDY = "sudo apt-get install docker.io docker-compose, then sudo systemctl start docker"
_NOT_RUNNING = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    # docker-compose's.
    "couldn't connect to docker daemon",
    "error while fetching server api version",
)
# Words of the engine in lower case, their meaning, and the remedy.
_REFUSALS = (
    (
        "permission denied",
        "no permission to use the container engine's socket",
        "sudo usermod -aG docker $USER, and log in again",
    ),
    ("no space left on device", "the container engine's disk is full", "docker system df tells what takes the room"),
    ("no such image", "an image is missing", "lab images build"),
)


class NoEngine(UsageProblem):
    """None answers: it has not been started, or it has ended."""

    def __init__(self) -> None:
        super().__init__("the container engine is not running", remedy="sudo systemctl start docker")


def docker(*words: str, timeout_s: float = 60, check: bool = True, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """`docker WORDS`. Raises NoEngine without a running engine, LabFault with its own last line when it refuses."""
    program = shutil.which("docker")
    if program is None:
        raise UsageProblem("there is no docker on this machine", remedy=ENGINE_REMEDY)
    return run([program, *words], timeout_s=timeout_s, check=check, stdin=stdin)


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    check: bool = True,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command of the engine or of Compose."""
    what = " ".join([os.path.basename(argv[0]), *argv[1:3]])  # noqa: PTH119 - a word, not a file
    environment = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s, env=environment, cwd=cwd, check=False)
    except subprocess.TimeoutExpired:
        raise LabFault(f"`{what}` has not ended within {timeout_s:g} s", remedy="is the container engine well?") from None
    if check and done.returncode:
        raise refusal(what, (done.stderr + done.stdout).decode(errors="replace"))
    return done


def refusal(what: str, said: str) -> LabFault | UsageProblem:
    """The engine's refusal in one line."""
    low = said.lower()
    for sign, meaning, remedy in _REFUSALS:
        if sign in low:
            return UsageProblem(meaning, remedy=remedy)
    if any(sign in low for sign in _NOT_RUNNING):
        return NoEngine()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()] or lines
    return LabFault(f"`{what}` failed: {telling[-1] if telling else 'without a message'}")


def ask(*words: str, timeout_s: float = 60) -> str:
    """The output of `docker WORDS`."""
    return docker(*words, timeout_s=timeout_s).stdout.decode(errors="replace")


def inspect(kind: str, name: str) -> dict[str, Any] | None:
    """The engine's record of an image, container or network; None when it does not exist."""
    done = docker(kind, "inspect", name, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        if "no such" in said.lower() or "not found" in said.lower():
            return None
        raise refusal(f"docker {kind} inspect", said)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found[0]


def engine_version() -> str:
    """Raises UsageProblem when there is no engine that answers."""
    return ask("version", "--format", "{{.Server.Version}}", timeout_s=20).strip()


@cache
def compose_command() -> tuple[str, ...]:
    """`docker compose` (v2) where it exists, else `docker-compose`. Raises UsageProblem."""
    if shutil.which("docker") and docker("compose", "version", check=False, timeout_s=20).returncode == 0:
        return ("docker", "compose")
    if program := shutil.which("docker-compose"):
        return (program,)
    raise UsageProblem("there is no Compose on this machine", remedy="sudo apt-get install docker-compose")


def compose_version() -> str:
    done = run([*compose_command(), "version", "--short"], timeout_s=20)
    return done.stdout.decode().strip()
