"""An ordinary Linux machine over SSH, as far as one can be had here: OpenSSH's sshd on the loopback, with keys of its own."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from lab.assets.tools import require
from lab.hosts.ssh.config import Target
from lab.servers.sshd import KeyPair, known_hosts, make_key, render_config
from tests.support.ports import free_port
from tests.support.waiting import until

# Root's sshd wants a user and a folder that exist only where openssh-server is installed: here they exist for it alone.
_AS_ROOT = """\
mount -t tmpfs -o mode=755 none /run
mkdir /run/sshd
cp /etc/passwd "$1/passwd"
echo 'sshd:x:7022:65534::/run/sshd:/usr/sbin/nologin' >>"$1/passwd"
mount --bind "$1/passwd" /etc/passwd
shift
exec "$@"
"""


@dataclass
class Machine:
    folder: Path
    port: int = field(default_factory=free_port)
    host_key: KeyPair = field(default_factory=make_key)
    user_key: KeyPair = field(default_factory=make_key)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        files = {"host_key": self.host_key.private, "key": self.user_key.private}
        files |= {"authorized_keys": self.user_key.public.encode() + b"\n"}
        files |= {"known_hosts": known_hosts(["127.0.0.1"], self.port, self.host_key).encode()}
        for name, data in files.items():
            path = self.folder / "sshd" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
        config = render_config(PurePosixPath(self.folder / "sshd"), port=self.port, bind="127.0.0.1")
        # The server of a lab gives files only to its client; a machine's own takes commands, as it does by default.
        (self.folder / "sshd" / "sshd_config").write_text(config)
        argv = [str(require("sshd")), "-D", "-E", str(self.folder / "log"), "-f", str(self.folder / "sshd" / "sshd_config")]
        if os.geteuid() == 0:
            unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
            argv = [*unshare, "/bin/sh", "-ec", _AS_ROOT, "sh", str(self.folder), *argv]
        self.process = subprocess.Popen(argv, start_new_session=True, stdin=subprocess.DEVNULL)
        until(self._answers, "sshd answers")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def stop(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(10)
            self.process = None

    def target(self, **other: object) -> Target:
        own: dict[str, object] = {
            "name": "machine",
            "host": "127.0.0.1",
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "port": self.port,
            "identities": (str(self.folder / "sshd" / "key"),),
            "known_hosts": str(self.folder / "sshd" / "known_hosts"),
        }
        return Target(**(own | other))  # type: ignore[arg-type]
