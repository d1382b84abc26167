"""A Windows machine over SSH as a Host: each command is one PowerShell that starts it, times it and tells what it cost.

CPU seconds are the process's own, not its children's; the memory is its peak working set, looked at every 50 ms.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Literal, NoReturn

from lab.backend.command_host import Command, CommandHost
from lab.backend.host import Completed
from lab.backend.ssh import powershell
from lab.backend.ssh.chores import WindowsChores
from lab.backend.ssh.connection import Connection
from lab.backend.ssh.fitness import architecture_problem, clock_problem, licence_problem
from lab.errors import LabFault, UsageProblem

WORK_FOLDER = "C:\\throughline"
# PowerShell's own start, on a slow machine, and a look whether it still lives.
_START_S = 60.0
_FACTS_S = 120.0
# Crystals of two machines differ by some 50 ppm: 3 ms in a minute.
_CLOCK_HOLDS_NS = 60 * 10**9
_CLOCK_LOOKS = 12


@dataclass
class _Clock:
    """What to add to the machine's nanoseconds for the lab's CLOCK_MONOTONIC.

    By an exchange, wrong by `error_ns` at most. Without one, by answers alone: none comes before it was sent, so the smallest
    difference ever seen is the offset, wrong by one way back.
    """

    offset_ns: int | None = None
    error_ns: int = 0
    set_ns: int | None = None

    def learn(self, theirs_ns: int, received_ns: int) -> int:
        seen = received_ns - theirs_ns
        self.offset_ns = seen if self.offset_ns is None else min(seen, self.offset_ns)
        return self.offset_ns

    def set_by(self, exchanges: Sequence[tuple[int, int, int]], now_ns: int) -> None:
        """Of (asked, theirs, received), the quickest counts: their instant was somewhere between the other two."""
        asked, theirs, received = min(exchanges, key=lambda each: each[2] - each[0])
        self.error_ns = (received - asked + 1) // 2
        self.offset_ns = (asked + received) // 2 - theirs
        self.set_ns = now_ns


class WindowsProcess:
    """A command running on Windows. What it printed is there when it has ended."""

    def __init__(
        self, host: WindowsHost, argv: tuple[str, ...], asked: bytes, files: tuple[Path | None, Path | None], limit_s: float
    ) -> None:
        self._host, self._argv, self._files = host, argv, files
        self._limit_s = limit_s
        self._pid: int | None = None
        self._done: dict[str, object] | None = None
        self._received_ns = 0
        self._problem = ""
        self._completed: Completed | None = None
        self._ssh = subprocess.Popen(
            host.connection.command(powershell.boot_command()),
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
            self._threads[1].join(_START_S)
            if self.running():
                raise LabFault(f"{self._host.name}: {self._argv[0]} cannot be ended")
            return self._result(timed_out=True)
        return self._result()

    def sync(self) -> None:
        """Its output comes when it has ended, and not before."""

    def stop(self, grace_s: float = 2.0) -> Completed:
        """Windows has no SIGTERM: the process and its children are ended at once."""
        if self.running():
            self._kill()
        self._threads[1].join(grace_s + _START_S)
        return self._result()

    def _kill(self) -> None:
        if self._pid is not None:
            self._host.script(f"& taskkill.exe /PID {self._pid} /T /F 2>&1 | Out-Null; exit 0", timeout_s=_START_S)
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
            return self._host.connection.refused(said)
        last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), f"exit code {self._ssh.returncode}")
        return LabFault(f"{self._host.name}: {self._argv[0]} did not run: {self._problem or last[:200]}")

    def _make(self, done: Mapping[str, object], timed_out: bool) -> Completed:
        try:
            out, err = (base64.b64decode(str(done[name])) for name in ("stdout", "stderr"))
            clock = self._host.clock
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
            raise LabFault(f"{self._host.name}: {self._argv[0]}: its runner's answer cannot be read: {error}") from None
        for path, data in zip(self._files, (out, err), strict=True):
            if path is not None:
                path.write_bytes(data)
        return completed


@dataclass
class WindowsHost(CommandHost[WindowsProcess]):
    """`mac` is that of its port on the lab's network; `workdir` is below the folder that provision.ps1 made."""

    connection: Connection
    name: str
    address: str
    mac: str = ""
    gateway: str = ""
    server_address: str = ""
    workdir: PurePath = field(default_factory=lambda: PureWindowsPath(WORK_FOLDER, f"run-{secrets.token_hex(4)}"))
    platform: Literal["windows"] = "windows"
    clock: _Clock = field(default_factory=_Clock)
    _programs: dict[str, str] = field(default_factory=dict)
    _setting_clock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def chores(self) -> WindowsChores:
        """What the lab elsewhere does by shell and Python (`lab.backend.chores`)."""
        return self._chores

    def __post_init__(self) -> None:
        self._chores = WindowsChores(self, self.gateway)

    def program(self, name: str) -> str:
        if name not in self._programs:
            done = self.run(["where.exe", name], cwd=WORK_FOLDER, check=False)
            found = done.text.splitlines()
            if done.returncode or not found:
                raise UsageProblem(
                    f"{name} is not on machine {self.name}", remedy=f"put it on the PATH there, or into {WORK_FOLDER}"
                )
            self._programs[name] = found[0].strip()
        return self._programs[name]

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:  # noqa: ARG002 - Windows has no such modes
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "data")
            source.write_bytes(data)
            self.put({PureWindowsPath(path): source})

    def put(self, files: Mapping[PurePath, Path]) -> None:
        """Copy files of this machine there over one SFTP, each whole or not at all, parents made."""
        targets = {PureWindowsPath(path): source for path, source in files.items()}
        parents = dict.fromkeys(
            each for path in targets for each in reversed(path.parents) if each != PureWindowsPath(path.anchor)
        )
        lines = [f"-mkdir {_remote(each)}" for each in parents]
        for target, source in targets.items():
            part = target.with_name(target.name + ".part")
            # A rename does not replace there: what was before is removed first, as far as there was something.
            lines += [
                f'put "{source}" {_remote(part)}',
                f"-rm {_remote(target)}",
                f"rename {_remote(part)} {_remote(target)}",
            ]
        self.connection.copy("\n".join(lines) + "\n")

    def read(self, path: str | PurePath) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "data")
            self.connection.copy(f'get {_remote(PureWindowsPath(path))} "{target}"\n')
            return target.read_bytes()

    def script(self, text: str, *, arguments: Mapping[str, str] | None = None, timeout_s: float = _FACTS_S) -> str:
        """What a PowerShell script prints. Raises LabFault with its last line of error."""
        words = self.connection.command(powershell.boot_command(arguments))
        try:
            done = subprocess.run(words, input=powershell.line(text), capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise LabFault(f"{self.name}: PowerShell does not answer in {timeout_s:g} s") from None
        said = done.stderr.decode(errors="replace")
        if done.returncode == 255:
            raise self.connection.refused(said)
        if done.returncode:
            lines = [line.strip() for line in said.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            raise LabFault(f"{self.name}: a script failed there: {lines[0][:300]}")
        return done.stdout.decode(errors="replace").lstrip("\ufeff")

    def set_clock(self) -> None:
        """Ask for the machine's clock until `clock` is known as well as the connection allows. Raises LabFault."""
        words = self.connection.command(powershell.boot_command())
        exchanges: list[tuple[int, int, int]] = []
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ssh:
            assert ssh.stdin is not None
            assert ssh.stdout is not None
            assert ssh.stderr is not None
            guard = threading.Timer(_START_S, ssh.kill)
            guard.start()
            try:
                ssh.stdin.write(powershell.line(powershell.script("clock.ps1")))
                for _ in range(_CLOCK_LOOKS):
                    asked = time.monotonic_ns()
                    ssh.stdin.write(b"\n")
                    ssh.stdin.flush()
                    text = ssh.stdout.readline().decode(errors="replace").strip().lstrip("\ufeff")
                    received = time.monotonic_ns()
                    if not text.isdigit() and not text.removeprefix("-").isdigit():
                        ssh.stdin.close()
                        self._no_clock(ssh, text)
                    exchanges.append((asked, int(text), received))
                ssh.stdin.close()
            except BrokenPipeError:
                self._no_clock(ssh, "")
            finally:
                guard.cancel()
        # The first waits for PowerShell itself.
        self.clock.set_by(exchanges[1:], time.monotonic_ns())

    def _no_clock(self, ssh: subprocess.Popen[bytes], text: str) -> NoReturn:
        assert ssh.stderr is not None
        said = ssh.stderr.read().decode(errors="replace")
        if ssh.wait() == 255:
            raise self.connection.refused(said)
        last = next((line.strip() for line in said.splitlines() if line.strip()), text)
        raise LabFault(f"{self.name}: the machine does not tell its clock: {last[:200]!r}")

    def facts(self) -> dict[str, object]:
        """Version, build, edition, NIC, driver, power plan, licence, what may disturb; None for what it does not tell."""
        text = self.script(powershell.script(powershell.FACTS), arguments={"Mac": self.mac, "WorkFolder": WORK_FOLDER})
        try:
            found = json.loads(text)
        except ValueError:
            raise LabFault(f"{self.name}: its facts are not JSON: {text[:80]!r}") from None
        if not isinstance(found, dict):
            raise LabFault(f"{self.name}: its facts are no facts: {text[:80]!r}")
        return found

    def assert_fit(self, *, ours_utc_s: float | None = None) -> dict[str, object]:
        """The facts of a machine that may be measured on. Raises UsageProblem or LabFault with the first thing that is wrong."""
        asked = time.time()
        facts = self.facts()
        now = time.time() if ours_utc_s is None else ours_utc_s
        theirs = float(str(facts.get("utc_ms") or 0)) / 1000
        minutes, status = (
            None if facts.get(key) is None else int(str(facts[key])) for key in ("licence_minutes_left", "licence_status")
        )
        for problem in (
            architecture_problem(self.name, str(facts.get("architecture"))),
            clock_problem(self.name, theirs, now if ours_utc_s is not None else min(max(theirs, asked), now)),
            licence_problem(self.name, status, minutes),
        ):
            if problem:
                raise problem
        return facts

    def close(self) -> None:
        """Its work folder goes; idempotent."""
        with contextlib.suppress(LabFault):
            folder = powershell.literal(str(self.workdir))
            self.script(f"if (Test-Path -LiteralPath {folder}) {{ Remove-Item -LiteralPath {folder} -Recurse -Force }}")
        self.connection.close()

    def _begin(self, command: Command) -> WindowsProcess:
        """Whoever logs in there is an administrator: `root` is nothing else."""
        words = command.argv
        if words[0].startswith("/"):
            raise UsageProblem(
                f"this needs {words[0]} on the client's machine, which Windows has not", remedy="use a Linux client for it"
            )
        if "/" in words[0]:
            words = (str(PureWindowsPath(words[0])), *words[1:])
        with self._setting_clock:
            if self.clock.set_ns is not None and time.monotonic_ns() - self.clock.set_ns > _CLOCK_HOLDS_NS:
                self.set_clock()
        cwd = command.cwd or str(self.workdir)
        asked = powershell.request(words, env=command.env, cwd=cwd, timeout_s=command.timeout_s, stdin=command.stdin)
        return WindowsProcess(self, words, asked, (command.stdout, command.stderr), command.timeout_s)

    def _complete(self, command: Command) -> Completed:
        return self._begin(command).wait(command.timeout_s + _START_S)

    def _quoted(self, argv: tuple[str, ...]) -> str:
        return powershell.arguments(argv)


def _remote(path: PureWindowsPath) -> str:
    """As Windows' sftp-server names it: /C:/folder/file, in quotes for sftp's batch language."""
    text = path.as_posix()
    if any(letter in text for letter in '"\r\n'):
        raise UsageProblem(f"a file on Windows cannot be called {text!r}")
    return f'"/{text}"' if path.drive else f'"{text}"'


def open_windows(
    connection: Connection, *, name: str, address: str, mac: str = "", gateway: str = "", server_address: str = ""
) -> tuple[WindowsHost, dict[str, object]]:
    """A machine that is fit, and its facts; its clock is known and its work folder made. Raises as `assert_fit`."""
    host = WindowsHost(connection, name, address, mac, gateway, server_address)
    try:
        facts = host.assert_fit()
        host.set_clock()
        host.script(f"New-Item -ItemType Directory -Force -Path {powershell.literal(str(host.workdir))} | Out-Null")
    except BaseException:
        connection.close()
        raise
    return host, facts
