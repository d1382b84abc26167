"""A Linux machine over SSH as a Host: everything an agent's host does, at the far end of a connection."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Never

from lab.backend.agent.host import AgentHost, AgentProcess
from lab.backend.command_host import Command
from lab.backend.host import Completed
from lab.backend.ssh.connection import Connection
from lab.backend.ssh.frames import END, RUN, SIGNAL, STDERR, STDOUT
from lab.backend.ssh.link import AgentLink, Clock, Identity
from lab.errors import LabFault, UsageProblem

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SshProcess(AgentProcess):
    """A command at the far end. Its output comes as it is printed: into memory, or into the files that the caller named."""

    def __init__(
        self, link: AgentLink, argv: tuple[str, ...], request: bytes, files: Mapping[int, Path], patience: float = 1.0
    ) -> None:
        self._link = link
        self._patience = patience
        self._argv = argv
        self._completed: Completed | None = None
        self._ended = threading.Event()
        self._end: dict[str, object] = {}
        self._kept: dict[int, bytearray] = {}
        self._files = {
            kind: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644) for kind, path in files.items()
        }
        try:
            self._number = link.new(self._take)
            link.send(RUN, self._number, request)
        except BaseException:
            self._close_files()
            raise

    def fileno(self) -> int:
        raise UsageProblem("a command over SSH cannot be waited for by its descriptor")

    def wait(self, timeout_s: float) -> Completed:
        return super().wait(timeout_s * self._patience)

    def signal(self, number: int) -> None:
        if self._completed is None and not self._ended.is_set():
            self._link.send(SIGNAL, self._number, str(int(number)).encode())

    def _take(self, kind: int, data: bytes) -> None:
        """In the link's thread."""
        if kind == END:
            self._end = json.loads(data)
            self._close_files()
            self._ended.set()
        elif kind in self._files:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._files[kind], rest) :]
        else:
            self._kept.setdefault(kind, bytearray()).extend(data)

    def _close_files(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files = {}

    def _receive(self, timeout_s: float) -> bool:
        if self._completed is not None:
            return True
        if not self._ended.wait(max(0.0, timeout_s)):
            return False
        if "error" in self._end:
            raise LabFault(f"{self._argv[0]}: {self._end['error']}")
        out, err = (bytes(self._kept.get(kind, b"")) for kind in (STDOUT, STDERR))
        self._completed = Completed(argv=self._argv, stdout=out, stderr=err, **self._end)  # type: ignore[arg-type]
        return True


class LinuxHost(AgentHost):
    """`open_host` makes one. Its commands run as `user`, in network namespace `namespace`, on the lab's clock.

    Time limits of commands are `patience` times as long: the lab's are meant for machines that are not emulated.
    """

    def __init__(self, link: AgentLink, identity: Identity, name: str, address: str, patience: float = 1.0) -> None:
        # Not AgentHost's own: what that needs is an agent of this machine.
        self._link = link
        self.identity = identity
        self.patience = patience
        self.name = name
        self.address = address
        self.workdir = PurePosixPath(identity.workdir)
        self.shares_files = False
        self._found: dict[str, str] = {"python3": identity.python}
        self.program = self._program

    @property
    def clock(self) -> Clock:
        return self._link.clock

    def called(self, name: str, address: str) -> LinuxHost:
        return LinuxHost(self._link, self.identity, name, address, self.patience)

    def close(self) -> None:
        """End the connection and everything started over it; idempotent."""
        self._link.close()

    def attach(self, *_: object, **__: object) -> Never:
        raise UsageProblem(f"{self.name} is a machine over SSH: the lab has no terminal there", remedy="vagrant ssh NAME")

    def _program(self, name: str) -> str:
        if name not in self._found:
            done = self.run(["/bin/sh", "-c", 'command -v -- "$1"', "find", name], check=False)
            if done.returncode:
                raise UsageProblem(f"{name} is not on machine {self.name}", remedy="vagrant provision")
            self._found[name] = done.text.strip()
        return self._found[name]

    def _begin(self, command: Command) -> SshProcess:
        who = "root" if command.root else self.identity.user
        own = {"HOME": self.identity.home, "TMPDIR": self.identity.tmp, "USER": who, "LOGNAME": who, "LANG": "C.UTF-8"}
        request = {
            "argv": command.argv,
            "env": {"PATH": _PATH, **own, **command.env},
            "cwd": command.cwd or str(self.workdir),
            "root": command.root,
        }
        files = {kind: path for kind, path in ((STDOUT, command.stdout), (STDERR, command.stderr)) if path is not None}
        asked = json.dumps(request).encode() + b"\n" + command.stdin
        return SshProcess(self._link, command.argv, asked, files, self.patience)


def open_host(
    connection: Connection,
    *,
    name: str,
    address: str = "",
    user: str = "",
    namespace: str = "",
    setup: Sequence[str] = (),
    patience: float = 1.0,
) -> LinuxHost:
    """Log in and put an agent there. `user` is who ordinary commands run as (empty: whoever logs in); `setup` runs first.

    Raises LabFault with one line: unreachable, refused, another machine, or not fit.
    """
    link, identity = AgentLink.open(connection, name=name, user=user, namespace=namespace, setup=setup)
    if link.clock.offset_ns and not identity.clocks:
        link.close()
        raise LabFault(
            f"{name}: this machine's clock cannot be made the lab's: it has no time namespaces, or gives no root",
            remedy="use a kernel with CONFIG_TIME_NS (5.6 and later), and sudo without password",
        )
    return LinuxHost(link, identity, name, address, patience)
