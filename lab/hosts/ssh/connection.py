"""The OpenSSH client without prompts, with strict host keys; a refusal becomes one clear line."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from lab.hosts.ssh.config import Target
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

CONNECT_S = 15
# Words of the ssh client, message and remedy; the first match counts. {place}, {name}, {pin} and {said} are filled in.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed|No .* host key is known",
        "{name}: the host key of {place} differs from the known one: another machine, or an intercepted connection",
        "if the machine was rebuilt, remove {pin}",
    ),
    (
        "Permission denied|Too many authentication failures",
        "{name}: {place} refuses the login with its key",
        "vagrant ssh-config {name}; vagrant provision {name}",
    ),
    ("Connection refused", "{name}: no SSH server answers at {place}: the machine or its sshd is down", "vagrant up {name}"),
    (
        "timed out|No route to host|Network is unreachable|Host is down|Could not resolve",
        "{name}: the machine cannot be reached at {place}",
        "vagrant status; vagrant up {name}",
    ),
    (
        "kex_exchange_identification|banner exchange|Connection (closed|reset) by",
        "{name}: {place} accepts the connection and closes it: the machine is still booting, or its sshd does not work",
        "try again in a minute; vagrant reload {name}",
    ),
    (
        "bad permissions|UNPROTECTED PRIVATE KEY|invalid format|no such identity",
        "{name}: the key for {place} cannot be used: {said}",
        "vagrant ssh-config {name}",
    ),
)


def refusal(target: Target, said: str, pin: str = "") -> LabFault:
    """The error for an `ssh` that ended without a connection, in one line."""
    lines = [line.strip(" @\r") for line in said.splitlines() if line.strip(" @\r")]
    last = lines[-1][:200] if lines else "ssh printed nothing"
    for pattern, message, remedy in _REFUSALS:
        if re.search(pattern, said):
            words = {"name": target.name, "place": target.place, "pin": pin or target.known_hosts, "said": last}
            return LabFault(message.format(**words), remedy=remedy.format(**words))
    return LabFault(f"{target.name}: no SSH to {target.place}: {last}", remedy=f"vagrant ssh {target.name}")


def pin_file(target: Target, machine_id: str = "") -> Path:
    """The file for a host key that the machine's maker did not give; by the machine's id, so that a rebuilt one is new."""
    key = hashlib.sha256(f"{target.name}\0{target.place}\0{machine_id}".encode()).hexdigest()[:16]
    return cache_dir() / "ssh" / f"{target.name}-{key}.known_hosts"


@dataclass
class Connection:
    """One machine. `command` makes command lines for any number of sessions, which share a connection once there is one."""

    target: Target
    machine_id: str = ""
    _folder: str = field(default="", repr=False)

    @property
    def known_hosts(self) -> Path:
        return Path(self.target.known_hosts) if self.target.known_hosts else pin_file(self.target, self.machine_id)

    def options(self, *, shared: bool) -> list[str]:
        """ssh_config(5) settings of every session; the user's own configuration plays no part."""
        pins = self.known_hosts
        given = bool(self.target.known_hosts)
        if not given:
            pins.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": f'"{pins}"',
            "GlobalKnownHostsFile": "none",
            # Without a key from its maker a machine is trusted once, and from then on only with the same key.
            "StrictHostKeyChecking": "yes" if given or pins.exists() else "accept-new",
            "CheckHostIP": "no",
            "UpdateHostKeys": "no",
            "ConnectTimeout": str(CONNECT_S),
            "ServerAliveInterval": "10",
            "ServerAliveCountMax": "6",
            "LogLevel": "ERROR",
            "ForwardAgent": "no",
            "ForwardX11": "no",
            "ClearAllForwardings": "yes",
            "Port": str(self.target.port),
            "User": self.target.user,
        }
        if not given:
            settings["HostKeyAlias"] = f"roughwater-{self.target.name}"
        if self.target.jump:
            settings["ProxyCommand"] = self.target.jump
        if shared:
            # Short: a socket's path has 108 bytes. It ends by itself, should the lab be killed.
            self._folder = self._folder or tempfile.mkdtemp(prefix="tl-ssh-")
            settings |= {"ControlMaster": "auto", "ControlPath": f"{self._folder}/s", "ControlPersist": "60"}
        words = ["-F", "none"]
        for path in self.target.identities:
            words += ["-i", path]
        return words + [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def command(self, remote: str, *, shared: bool = True) -> list[str]:
        """An `ssh` that runs a line of the far end's shell. Raises UsageProblem where there is no OpenSSH."""
        return [_program("ssh"), *self.options(shared=shared), "-T", self.target.host, remote]

    def refused(self, said: str) -> LabFault:
        return refusal(self.target, said, str(self.known_hosts))

    def copy(self, batch: str, *, timeout_s: float = 600.0) -> None:
        """Commands of sftp(1), run to the first that fails. Raises LabFault."""
        words = [_program("sftp"), *self.options(shared=True), "-q", "-b", "-", self.target.host]
        try:
            done = subprocess.run(words, input=batch.encode(), capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise LabFault(f"{self.target.name}: copying took longer than {timeout_s:g} s") from None
        said = done.stderr.decode(errors="replace")
        if done.returncode == 255:
            raise self.refused(said)
        if done.returncode:
            lines = [line for line in said.splitlines() if line.strip()] or ["sftp printed nothing"]
            raise LabFault(f"{self.target.name}: a file cannot be copied: {lines[-1][:200]}")

    def close(self) -> None:
        """End the shared connection; idempotent."""
        if not self._folder:
            return
        if Path(self._folder, "s").exists():
            words = [_program("ssh"), *self.options(shared=True), "-O", "exit", self.target.host]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(words, capture_output=True, timeout=10, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = ""


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise UsageProblem(f"{name} is not installed", remedy="sudo apt-get install openssh-client")
    return found
