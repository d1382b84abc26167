"""This process's own machine as a Host: commands are its children. For containers started by hand, and for tests.

Standard library only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import IO

from lab.hosts.command_host import Command
from lab.hosts.host import Completed
from lab.hosts.posix import PosixHost
from lab.model.errors import LabFault, UsageProblem


class LocalProcess:
    """A child in its own process group, reaped with wait4 for its cost."""

    def __init__(
        self, argv: tuple[str, ...], popen: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], kept: tuple[bool, bool]
    ) -> None:
        self.argv = argv
        self._popen, self._out, self._err, self._kept = popen, out, err, kept
        self._started_ns = time.monotonic_ns()
        self._completed: Completed | None = None

    def running(self) -> bool:
        return not self._reap(os.WNOHANG)

    def wait(self, timeout_s: float) -> Completed:
        deadline = time.monotonic() + timeout_s
        while not self._reap(os.WNOHANG):
            if time.monotonic() > deadline:
                os.killpg(self._popen.pid, signal.SIGKILL)
                self._reap(0)
                assert self._completed is not None
                self._completed = replace(self._completed, timed_out=True)
                break
            time.sleep(0.001)
        assert self._completed is not None
        return self._completed

    def sync(self) -> None:
        """The command writes to the caller's files itself."""

    def stop(self, grace_s: float = 2.0) -> Completed:
        if self.running():
            os.killpg(self._popen.pid, signal.SIGTERM)
        return self.wait(grace_s)

    def _reap(self, flags: int) -> bool:
        if self._completed is not None:
            return True
        pid, status, used = os.wait4(self._popen.pid, flags)
        if pid == 0:
            return False
        ended_ns = time.monotonic_ns()
        self._popen.returncode = code = os.waitstatus_to_exitcode(status)
        texts = []
        for file, kept in zip((self._out, self._err), self._kept, strict=True):
            file.seek(0)
            texts.append(file.read() if kept else b"")
            file.close()
        self._completed = Completed(
            self.argv, code, texts[0], texts[1], self._started_ns, ended_ns, used.ru_utime, used.ru_stime, used.ru_maxrss * 1024
        )
        return True


def find_on_path(name: str) -> str:
    """A program on PATH, or where administrators' programs are."""
    found = shutil.which(name, path=os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin")
    if found is None:
        raise UsageProblem(f"{name} is not installed")
    return found


@dataclass
class LocalHost(PosixHost[LocalProcess]):
    """`programs` finds a program by name. `before` runs in each child before its program does: a system call, and no more."""

    name: str
    workdir: PurePath
    address: str = "127.0.0.1"
    programs: Callable[[str], str] = find_on_path
    before: Callable[[], None] | None = None
    shares_files = True
    ends_orphans = False
    started: list[LocalProcess] = field(default_factory=list)

    def program(self, name: str) -> str:
        return self.programs(name)

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def read(self, path: str | PurePath) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise LabFault(f"{self.name}: {error}") from None

    def close(self) -> None:
        """Stop everything that was started."""
        for process in self.started:
            process.stop()

    def _begin(self, command: Command) -> LocalProcess:
        process = self._spawn(command)
        self.started.append(process)
        return process

    def _complete(self, command: Command) -> Completed:
        try:
            return self._spawn(command).wait(command.timeout_s)
        except FileNotFoundError:
            return Completed(command.argv, 127, b"", f"{command.argv[0]}: not found".encode(), 0, 0, 0.0, 0.0)

    def _failure(self, command: Command, done: Completed) -> str:
        return f"{command.argv[0]} failed ({done.returncode}): {done.error_text}"

    def _spawn(self, command: Command) -> LocalProcess:
        """Start the command as the user of this process, whatever `root` says."""
        Path(self.workdir).mkdir(parents=True, exist_ok=True)
        out = command.stdout.open("w+b") if command.stdout else tempfile.TemporaryFile()  # noqa: SIM115 - LocalProcess closes both
        err = command.stderr.open("w+b") if command.stderr else tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as source:
            source.write(command.stdin)
            source.seek(0)
            popen = subprocess.Popen(
                command.argv,
                stdin=source,
                stdout=out,
                stderr=err,
                env={**os.environ, **command.env},
                cwd=command.cwd or str(self.workdir),
                start_new_session=True,
                preexec_fn=self.before,  # noqa: PLW1509 - a system call
            )
        return LocalProcess(command.argv, popen, out, err, (command.stdout is None, command.stderr is None))
