"""A Linux machine over SSH as a Host: an agent's host at the far end of a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from lab.hosts.agent.host import AgentHost
from lab.hosts.ssh.connection import Connection
from lab.hosts.ssh.link import AgentLink, Clock, Identity
from lab.model.errors import LabFault, UsageProblem

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LinuxHost(AgentHost):
    """`open_host` makes one. Its commands run as `user`, in network namespace `namespace`, on the lab's clock."""

    interactive = False

    def __init__(self, link: AgentLink, identity: Identity, name: str, address: str, patience: float = 1.0) -> None:
        super().__init__(link, name, address, programs=self._find, kept=(), patience=patience)
        self._link = link
        self.identity = identity
        self.workdir = PurePosixPath(identity.workdir)
        self._found: dict[str, str] = {"python3": identity.python}

    @property
    def clock(self) -> Clock:
        return self._link.clock

    def renamed(self, name: str, address: str) -> LinuxHost:
        return LinuxHost(self._link, self.identity, name, address, self.patience)

    def close(self) -> None:
        """End the connection and everything started over it; idempotent."""
        self._link.close()

    def environment(self, more: Mapping[str, str], *, root: bool = False) -> dict[str, str]:
        who = "root" if root else self.identity.user
        own = {"HOME": self.identity.home, "TMPDIR": self.identity.tmp, "USER": who, "LOGNAME": who, "LANG": "C.UTF-8"}
        return {"PATH": _PATH, **own, **more}

    def _find(self, name: str) -> str:
        if name not in self._found:
            done = self.run(["/bin/sh", "-c", 'command -v -- "$1"', "find", name], check=False)
            if done.returncode:
                raise UsageProblem(f"{name} is not on machine {self.name}", remedy="vagrant provision")
            self._found[name] = done.text.strip()
        return self._found[name]


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
    """Log in and start an agent. `user` runs ordinary commands (empty: the user who logs in); `setup` runs first.

    Raises LabFault with one line: unreachable, refused, another machine, or not fit.
    """
    link, identity = AgentLink.open(connection, name=name, user=user, namespace=namespace, setup=setup)
    if link.clock.offset_ns and not identity.clocks:
        link.close()
        raise LabFault(
            f"{name}: the machine cannot use the lab's clock: it lacks time namespaces, or the user cannot become root",
            remedy="use a kernel with CONFIG_TIME_NS (5.6 and later), and sudo without password",
        )
    return LinuxHost(link, identity, name, address, patience)
