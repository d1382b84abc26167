"""Network, mounts and temporary folders of a test's own, in which a lab must leave everything as it was.

On the machine itself other programs come and go: containers with their interfaces, mounts, servers. In namespaces of a test's own
whatever is left is the lab's. They are held by a process that does nothing, and end with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support import entering
from tests.support.processes import command, descendants

FOLDERS = ("/run", "/dev/shm", "/var/tmp")
_SYSCTLS = ("net/ipv4/ip_forward", "net/ipv4/tcp_rmem", "net/ipv4/tcp_congestion_control")
_MOUNTS = "".join(f"mount -t tmpfs own {folder}\n" for folder in FOLDERS)
_HOLD = f"ip link set lo up\n{_MOUNTS}echo ready; exec sleep infinity"


class OwnMachine:
    """A context manager. `command` starts a program in it; `state` is what a lab must not change."""

    def __init__(self, temporary: Path) -> None:
        self.temporary = temporary
        self._holder: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.temporary.mkdir(exist_ok=True)
        # Root has the right to make them; an ordinary user has it in a user namespace.
        user = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        words = ["unshare", "--net", "--mount", "--propagation", "private", *user, "--", "/bin/sh", "-ec", _HOLD]
        self._holder = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self._holder.stdout
        assert self._holder.stdout.readline() == "ready\n", "this user may not make namespaces"
        self._given = self.said("cat", "/proc/self/mountinfo")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.communicate()

    @property
    def holder(self) -> int:
        """The process that holds its namespaces."""
        assert self._holder is not None
        return self._holder.pid

    def command(self, *words: str) -> list[str]:
        """A command that enters its namespaces and becomes the program, so that a signal meets the program."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self.holder), "--net", "--mount", *user, "--", *words]

    def command_with_rights(self, *words: str) -> list[str]:
        """As `command`, with all rights on its network, which a program of an ordinary user's has not."""
        if os.geteuid() == 0:
            return self.command(*words)
        return [sys.executable, "-E", "-S", str(Path(entering.__file__)), str(self.holder), *words]

    def environment(self, **more: str) -> dict[str, str]:
        """Measurements wait for each other; those in here wait for none."""
        return {**os.environ, "TMPDIR": str(self.temporary), "ROUGHWATER_LOCK": f"{self.temporary}.lock", **more}

    def said(self, *words: str) -> str:
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=True).stdout

    def state(self) -> dict[str, object]:
        """Interfaces, routes, qdiscs, mounts, sysctls, and the places where litter collects."""
        return {
            "links": self.said("ip", "-o", "link"),
            "routes": self.said("ip", "route", "show", "table", "all"),
            "qdiscs": self.said("tc", "qdisc", "show"),
            "mounts": new_mounts(self._given, self.said("cat", "/proc/self/mountinfo")),
            "sysctls": self.said("cat", *(f"/proc/sys/{name}" for name in _SYSCTLS)),
            "files": self.said("find", *FOLDERS, str(self.temporary), "-mindepth", "1"),
            "names": self.labs(),
        }

    def labs(self) -> list[str]:
        """The sockets by which labs are found are of a network namespace: here those of labs that were started here."""
        return [line.split()[-1] for line in self.said("cat", "/proc/net/unix").splitlines() if "@roughwater/" in line]

    def processes(self) -> list[str]:
        """What descends from this process, but the holder: a lab's, if `adopting` was on when the lab was started."""
        return sorted(command(pid) for pid in descendants(os.getpid()) if pid != self.holder)


def new_mounts(given: str, now: str) -> list[str]:
    """The lines of the second mountinfo that the first does not have. Ids tell mounts apart.

    A mount that was given may go: the folder of a container's layer, or of a Debian that is being built, goes from every
    namespace that has it.
    """
    return [line for line in now.splitlines() if line not in given.splitlines()]
