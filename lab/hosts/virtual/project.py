"""The client's host of a machine in virtual time as a user's own test suite has it: writable folders, its caller's user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.command_host import Command
from lab.hosts.host import Completed
from lab.hosts.virtual.host import VirtualHost, VirtualProcess
from lab.hosts.virtual.network import VirtualNetwork

TMP = Path("/tmp")  # noqa: S108 - the place is the point
_OF_THE_MACHINE = ("/dev", "/proc", "/run", "/sys")
"""Folders that the machine has of its own: what the caller has there is not seen inside."""


@dataclass(frozen=True)
class Caller:
    """The user that the suite runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @classmethod
    def own(cls) -> Caller:
        return cls(os.geteuid(), os.getegid(), tuple(sorted(os.getgroups())))


class ProjectProcess(VirtualProcess):
    """A command of the suite, whose output can be had while it runs."""

    _errors = 0

    def ended(self, timeout_s: float) -> bool:
        """Let the machine run until the command has ended, at most `timeout_s` of its clock."""
        return self._completed is not None or self._ask_end(timeout_s, kill=False)

    def news(self) -> tuple[bytes, bytes]:
        """Output and errors since the last call, of a command that runs."""
        _, (text, errors) = self._machine.ask({"op": "output", "job": self._job, "errors_from": self._errors})
        self._errors += len(errors)
        return text, errors

    def rest(self, done: Completed) -> tuple[bytes, bytes]:
        """Output and errors of the command that has ended which no call of `news` has returned."""
        return done.stdout, done.stderr[self._errors :]


class ProjectHost(VirtualHost):
    """The client as the suite sees it. `project` is the same path as on the caller's machine, and its changes stay inside."""

    def __init__(
        self, network: VirtualNetwork, project: Path, caller: Caller, named: Sequence[str], writable: Sequence[Path] = ()
    ) -> None:
        """`named` are paths of the caller's that the suite's commands name; `writable` folders are covered as the project is."""
        client = network.client
        super().__init__(
            network.machine, client.name, client.address, namespace=client._namespace, on_loopback=client.on_loopback
        )
        self._caller = caller
        in_tmp = any(path.is_relative_to(TMP) for path in (project, *map(Path, named), *writable))
        folders = [*([TMP] if in_tmp and project != TMP else []), project, *writable]
        self._index = folders.index(project)
        self._machine.ask(
            {
                "op": "project",
                "uid": caller.uid,
                "gid": caller.gid,
                "bytes": network.machine.boot.memory_bytes // 2,
                "cover_tmp": not in_tmp,
                "folders": [str(folder) for folder in folders],
            }
        )

    def begin(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> ProjectProcess:
        """Begin a command at the machine's next full second."""
        command = Command(tuple(argv), env={**env, SAMPLE_VARIABLE: "test"}, cwd=str(cwd))
        answer, _ = self._machine.ask({"op": "start", **self._asked(command)}, [b""])
        return ProjectProcess(self._machine, command, int(answer["job"]))

    def reports(self) -> dict[str, str]:
        """The regular files that are new or changed, by their paths in the project, and where the machine has them."""
        found, _ = self._machine.ask({"op": "new_files", "index": self._index})
        return {name: f"{found['folder']}/{name}" for name in found["names"]}

    def _asked(self, command: Command) -> dict[str, Any]:
        caller = self._caller
        return {**super()._asked(command), "user": [caller.uid, caller.gid, list(caller.groups)]}


def hidden(path: Path) -> bool:
    """True for a place that the machine has for itself."""
    return path == Path("/") or any(path.is_relative_to(folder) for folder in _OF_THE_MACHINE)
