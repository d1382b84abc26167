"""A command running on Windows: one PowerShell starts it, times it and reports what it cost.

CPU seconds are the process's own, not its children's; the memory is its peak working set, sampled every 50 ms.
"""

from __future__ import annotations

import base64
import contextlib
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from lab.hosts.host import Completed
from lab.hosts.windows import powershell
from lab.hosts.windows.shell import START_S, PowerShell
from lab.model.errors import LabFault


class WindowsProcess:
    """A command running on Windows. Its output arrives when it has ended."""

    def __init__(
        self, shell: PowerShell, argv: tuple[str, ...], asked: bytes, files: tuple[Path | None, Path | None], limit_s: float
    ) -> None:
        self._shell, self._argv, self._files = shell, argv, files
        self._limit_s = limit_s
        self._pid: int | None = None
        self._done: dict[str, object] | None = None
        self._received_ns = 0
        self._problem = ""
        self._completed: Completed | None = None
        self._ssh = subprocess.Popen(
            shell.connection.command(powershell.boot_command()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said = b""
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._read)]
        for thread in self._threads:
            thread.start()
        assert self._ssh.stdin is not None
        # A connection that was refused says why on its stderr.
        with contextlib.suppress(BrokenPipeError):
            self._ssh.stdin.write(asked)
            self._ssh.stdin.close()

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    def running(self) -> bool:
        return self._threads[1].is_alive()

    def wait(self, timeout_s: float) -> Completed:
        self._threads[1].join(timeout_s)
        if self.running():
            self._kill()
            self._threads[1].join(START_S)
            if self.running():
                raise LabFault(f"{self._shell.name}: {self._argv[0]} cannot be ended")
            return self._result(timed_out=True)
        return self._result()

    def sync(self) -> None:
        """Its output arrives only when it has ended."""

    def stop(self, grace_s: float = 2.0) -> Completed:
        """Windows has no SIGTERM: the process and its children are ended at once."""
        if self.running():
            self._kill()
        self._threads[1].join(grace_s + START_S)
        return self._result()

    def _kill(self) -> None:
        if self._pid is not None:
            self._shell.script(f"& taskkill.exe /PID {self._pid} /T /F 2>&1 | Out-Null; exit 0", timeout_s=START_S)
        else:
            self._ssh.kill()

    def _read(self) -> None:
        assert self._ssh.stdout is not None
        for raw in self._ssh.stdout:
            text = raw.decode(errors="replace").lstrip("\ufeff")
            self._pid = powershell.parse_pid(text) or self._pid
            try:
                done = powershell.parse_done(text)
            except ValueError:
                self._problem = f"its runner printed {text[:60]!r}"
                continue
            if done is not None:
                self._done, self._received_ns = done, time.monotonic_ns()
        self._ssh.wait()
        self._threads[0].join(2)

    def _listen(self) -> None:
        assert self._ssh.stderr is not None
        self._said = self._ssh.stderr.read()[-8192:]

    def _result(self, *, timed_out: bool = False) -> Completed:
        if self._completed is None:
            if self._done is None:
                raise self._why()
            self._completed = self._make(self._done, timed_out)
        return self._completed

    def _why(self) -> LabFault:
        said = self._said.decode(errors="replace")
        if self._ssh.returncode == 255:
            return self._shell.connection.refused(said)
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), f"exit code {self._ssh.returncode}")
        return LabFault(f"{self._shell.name}: {self._argv[0]} did not run: {self._problem or last[:200]}")

    def _make(self, done: Mapping[str, object], timed_out: bool) -> Completed:
        try:
            out, err = (base64.b64decode(str(done[name])) for name in ("stdout", "stderr"))
            clock = self._shell.clock
            offset = clock.learn(int(str(done["now"])), self._received_ns) if clock.set_ns is None else clock.offset_ns or 0
            peak = int(str(done["peak"] or 0))
            completed = Completed(
                self._argv,
                int(str(done["returncode"])),
                out,
                err,
                int(str(done["started"])) + offset,
                int(str(done["ended"])) + offset,
                float(str(done["user"])),
                float(str(done["system"])),
                peak or None,
                timed_out or bool(done["timedOut"]),
            )
        except (KeyError, ValueError) as error:
            raise LabFault(f"{self._shell.name}: {self._argv[0]}: its runner's answer cannot be read: {error}") from None
        for path, data in zip(self._files, (out, err), strict=True):
            if path is not None:
                path.write_bytes(data)
        return completed
