"""`run` and `start` in terms of one method that begins a command.

Standard library only: it runs inside containers too.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Generic, Self, TypeVar

from lab.hosts.host import AttachedProcess, Completed, Process
from lab.model.errors import LabFault, UsageProblem
from lab.model.image import ImageConfig

# A started command may run as long as any lab.
_LONGEST_S = 24 * 3600.0

Started_co = TypeVar("Started_co", bound=Process, covariant=True)


@dataclass(frozen=True)
class Command:
    """A command for a host, with the options of `Host.run` and `Host.start`."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_s: float = _LONGEST_S
    root: bool = False
    stdout: Path | None = None
    stderr: Path | None = None


class CommandHost(ABC, Generic[Started_co]):
    """The part of a Host that follows from `_begin` and `write`."""

    name: str
    reads_host_files = False
    shares_files = False
    interactive = False
    image: ImageConfig | None = None
    ends_orphans = True

    @cached_property
    def under_test(self) -> Self:
        return self

    def place(self, program: str) -> str:
        return program

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float = 30.0,
        check: bool = True,
        root: bool = False,
    ) -> Completed:
        command = Command(tuple(map(str, argv)), stdin, env or {}, cwd, timeout_s, root)
        done = self._complete(command)
        if check and (done.returncode or done.timed_out):
            raise LabFault(f"{self.name}: {self._failure(command, done)}")
        return done

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        root: bool = False,
        stdout: Path | None = None,
        stderr: Path | None = None,
    ) -> Started_co:
        words = tuple(map(str, argv))
        return self._begin(Command(words, env=env or {}, cwd=cwd, root=root, stdout=stdout, stderr=stderr))

    def copy(self, source: Path, path: str | PurePath, *, mode: int = 0o644) -> None:
        self.write(path, source.read_bytes(), mode=mode)

    def attach(
        self, argv: Sequence[str], fds: tuple[int, int, int], *, env: Mapping[str, str], cwd: str, uid: int, terminal: bool
    ) -> AttachedProcess:
        del argv, fds, env, cwd, uid, terminal
        raise UsageProblem(f"{self.name} has no terminal", remedy="run one command at a time")

    @abstractmethod
    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None: ...

    @abstractmethod
    def _begin(self, command: Command) -> Started_co: ...

    def _complete(self, command: Command) -> Completed:
        return self._begin(command).wait(command.timeout_s)

    def _failure(self, command: Command, done: Completed) -> str:
        what = f"took longer than {command.timeout_s:g} s" if done.timed_out else f"failed ({done.returncode}): {done.error_text}"
        return f"`{self._quoted(command.argv)[:200]}` {what}"

    def _quoted(self, argv: tuple[str, ...]) -> str:
        return shlex.join(argv)
