"""Three machines that are namespaces, each with an sshd, its lab ports and a management port. Needs root."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from lab.assets.tools import find, require
from lab.hosts.ssh.config import Target, render
from lab.hosts.vagrant import network
from lab.servers.sshd import known_hosts, make_key, render_config

NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make machines of namespaces with users of their own"),
    pytest.mark.skipif(find("sshd") is None, reason="no sshd: make setup downloads it"),
]
_MACHINE = """\
mount -t tmpfs none /run
mount -t tmpfs none /home
mkdir /run/etc /run/sshd
cp -a /etc/. /run/etc/
mount --bind /run/etc /etc
sed -i '/^lab:/d' /etc/passwd /etc/shadow /etc/group
echo 'sshd:x:7022:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
ip link set lo up
ip link add management type veth peer name outside
ip link set management up
echo ready
exec sleep 600
"""
_ROLES = {"router": "router", "server": "server", "linux": "client"}


@dataclass
class Three:
    """Machines by name; their networks are veth pairs between them."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        for name in _ROLES:
            words = ["unshare", "--mount", "--net", "--propagation", "private", "/bin/sh", "-ec", _MACHINE]
            self.processes[name] = subprocess.Popen(
                words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True
            )
        for process in self.processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        pids = {name: process.pid for name, process in self.processes.items()}
        for end, leaf, number in (("linux", "client", 0), ("server", "server", 1)):
            words = [
                "ip",
                "link",
                "add",
                "ens5",
                "address",
                network.MACS[leaf][0],
                "netns",
                str(pids[end]),
                "type",
                "veth",
                "peer",
            ]
            words += ["name", f"ens{number + 5}", "address", network.MACS["router"][number], "netns", str(pids["router"])]
            subprocess.run(words, check=True)
        host_key, user_key = make_key(), make_key()
        self._write("key", user_key.private)
        for name in _ROLES:
            own = self.folder / name
            files = {"host_key": host_key.private, "authorized_keys": user_key.public.encode() + b"\n"}
            files |= {"sshd_config": render_config(PurePosixPath(own), port=22, bind="127.0.0.1").encode()}
            files |= {"known_hosts": known_hosts([name], 22, host_key).encode()}
            for file, data in files.items():
                self._write(f"{name}/{file}", data)
        self._write("config", "\n".join(render(self.target(name)) for name in _ROLES).encode())

    def target(self, name: str, **other: str) -> Target:
        """Its sshd is started for each connection, inside: nothing listens anywhere."""
        own = self.folder / name
        enter = ["nsenter", "-t", str(self.processes[name].pid), "-m", "-n", "--", str(require("sshd")), "-i", "-f"]
        jump = shlex.join([*enter, str(own / "sshd_config")])
        user = pwd.getpwuid(0).pw_name
        return Target(name, name, user, 22, (str(self.folder / "key"),), other.get("known_hosts", str(own / "known_hosts")), jump)

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)

    def stop(self) -> None:
        for process in self.processes.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
