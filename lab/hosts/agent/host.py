"""Hosts that an agent serves: those where it runs commands, and the UML router behind its console."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.protocol import HOME_DIR, LAB_USER, RUN_DIR, Channel
from lab.hosts.command_host import Command
from lab.hosts.host import Completed
from lab.hosts.posix import PosixHost
from lab.model.errors import LabFault

_START_S = 10.0
# The variables that a command inherits from the lab's caller, where both see the same files.
KEPT_ENVIRONMENT = ("PATH", "ROUGHWATER_CACHE")
# The same values as in virtual time.
_FIXED = {"USER": LAB_USER, "LOGNAME": LAB_USER, "TMPDIR": f"{RUN_DIR}/lab/tmp", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


class AgentProcess:
    """A command running under the agent. Output goes to anonymous memory unless the caller gave files.

    Time limits are `patience` times as long: the lab's are for machines that are not emulated.
    """

    def __init__(self, channel: Channel, argv: tuple[str, ...], stdout: int, stderr: int, patience: float = 1.0) -> None:
        self._channel = channel
        self._argv = argv
        self._stdout, self._stderr = stdout, stderr
        self._patience = patience
        self._completed: Completed | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return self._argv

    def running(self) -> bool:
        return not self.ended(0.0)

    def wait(self, timeout_s: float) -> Completed:
        if not self.ended(timeout_s * self._patience):
            self.signal(signal.SIGKILL)
            if not self.ended(5.0):
                raise LabFault(f"{self._argv[0]} cannot be killed; is its disk or network file system stuck?")
            assert self._completed is not None
            self._completed = replace(self._completed, timed_out=True)
        assert self._completed is not None
        return self._completed

    def sync(self) -> None:
        """The command writes to the caller's files itself."""

    def stop(self, grace_s: float = 2.0) -> Completed:
        self.signal(signal.SIGTERM)
        return self.wait(grace_s)

    def signal(self, number: int) -> None:
        if self._completed is None:
            try:
                self._channel.send({"op": "signal", "number": int(number)})
            except OSError as error:
                raise self._gone(str(error)) from None

    def ended(self, timeout_s: float) -> bool:
        if self._completed is not None:
            return True
        try:
            answer = self._channel.receive(timeout_s)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise self._gone(str(error)) from None
        except LabFault as fault:
            raise self._gone(fault.message) from None
        self._channel.close()
        if answer is None:
            raise self._gone("it ended")
        self._completed = Completed(argv=self._argv, stdout=_drain(self._stdout), stderr=_drain(self._stderr), **answer)
        return True

    def _gone(self, why: str) -> LabFault:
        return LabFault(f"the lab is gone while {self._argv[0]} was running: {why}")


class AgentHost(PosixHost[AgentProcess]):
    """A host on which an agent runs commands. `namespace` is the agent's name for it, `programs` finds a program on it, `kept`
    are the variables of this process's environment that its commands get.
    """

    interactive = True

    def __init__(
        self,
        agent: AgentHandle,
        name: str,
        address: str,
        *,
        namespace: str = "",
        programs: Callable[[str], str],
        kept: Sequence[str] = KEPT_ENVIRONMENT,
        patience: float = 1.0,
        on_loopback: bool = False,
    ) -> None:
        self._agent = agent
        self.on_loopback = on_loopback
        self.patience = patience
        self._namespace = namespace or name
        self.program = programs
        self._kept = tuple(kept)
        # True if the host's files are this machine's, so that a person's folder and environment mean something there.
        self.shares_files = "PATH" in self._kept
        # A container has no right to packet sockets, and another machine has another clock.
        self.tap_port = self.capture_port if self.shares_files else ""
        self.name = name
        self.address = address
        self.workdir: PurePath = PurePosixPath(RUN_DIR, "lab", self._namespace)

    def renamed(self, name: str, address: str) -> AgentHost:
        """The same host under another name."""
        return AgentHost(self._agent, name, address, namespace=self._namespace, programs=self.program, kept=self._kept)

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        script = 'set -e; mkdir -p "$(dirname "$1")"; umask 077; cat >"$1.part"; chmod "$2" "$1.part"; mv -f "$1.part" "$1"'
        self.run(["/bin/sh", "-c", script, "write", str(path), f"{mode:o}"], stdin=data)

    def read(self, path: str | PurePath) -> bytes:
        return self.run(["cat", "--", str(path)]).stdout

    def attach(
        self, argv: Sequence[str], fds: tuple[int, int, int], *, env: Mapping[str, str], cwd: str, uid: int, terminal: bool
    ) -> AgentProcess:
        """Run on the caller's own descriptors: `lab exec` and `lab shell`. uid 0 is the lab's root."""
        more = {"uid": uid, "terminal": terminal}
        return self._send(argv, fds, (-1, -1), env=dict(env), cwd=cwd, root=uid == 0, more=more)

    def environment(self, more: Mapping[str, str], *, root: bool = False) -> dict[str, str]:
        """Variables of a command; `more` takes precedence."""
        del root
        kept = {name: os.environ[name] for name in self._kept if name in os.environ}
        found = {**kept, "HOME": HOME_DIR, **_FIXED, **more}
        found["PATH"] = found.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        return found

    def _begin(self, command: Command) -> AgentProcess:
        source = _memory("stdin", command.stdin) if command.stdin else os.open(os.devnull, os.O_RDONLY)
        sinks = (_sink("stdout", command.stdout), _sink("stderr", command.stderr))
        kept_sinks = (-1 if command.stdout else sinks[0], -1 if command.stderr else sinks[1])
        try:
            cwd = command.cwd or str(self.workdir)
            return self._send(
                command.argv, (source, *sinks), kept_sinks, env=self.environment(command.env), cwd=cwd, root=command.root
            )
        finally:
            for fd in {source, *sinks} - set(kept_sinks):
                os.close(fd)

    def _send(
        self,
        argv: Sequence[str],
        fds: tuple[int, int, int],
        kept: tuple[int, int],
        *,
        env: dict[str, str],
        cwd: str,
        root: bool,
        more: dict[str, Any] | None = None,
    ) -> AgentProcess:
        words = tuple(str(word) for word in argv)
        channel = self._agent.connect()
        request = {"op": "run", "host": self._namespace, "argv": words, "env": env, "cwd": cwd, "root": root, **(more or {})}
        channel.send(request, fds)
        answer = channel.receive(_START_S * self.patience)
        if answer is None or "error" in answer:
            channel.close()
            raise LabFault(f"{self.name}: {words[0]} could not be started: {(answer or {}).get('error', 'the lab is gone')}")
        return AgentProcess(channel, words, *kept, self.patience)


class ConsoleHost(PosixHost[AgentProcess]):
    """The UML router: a busybox shell with tc and ip, one command at a time, always root."""

    name = "router"

    def program(self, name: str) -> str:
        return name

    workdir: PurePath = PurePosixPath("/tmp")  # noqa: S108 - the guest's own, without other users

    def __init__(self, agent: AgentHandle, address: str) -> None:
        self._agent = agent
        self.address = address

    def start_boot(self, argv: Sequence[str], *, timeout_s: float) -> Callable[[], str]:
        """Start the guest; the returned function waits for its shell and returns all that it printed."""
        channel = self._agent.connect()
        channel.send({"op": "console", "start": list(argv), "timeout_s": timeout_s})

        def wait() -> str:
            with contextlib.closing(channel):
                try:
                    answer = channel.receive(timeout_s + 5)
                except OSError as error:
                    raise LabFault(f"the User-Mode Linux router did not boot: {error}") from None
            if answer is None or "error" in answer:
                raise LabFault((answer or {}).get("error", "the lab ended while its router booted"))
            return str(answer["output"])

        return wait

    def _begin(self, command: Command) -> AgentProcess:
        del command
        raise LabFault("the User-Mode Linux router runs one command at a time; start it on `wire` instead")

    def _complete(self, command: Command) -> Completed:
        if command.stdin:
            raise ValueError("the router's console has no standard input for a command")
        # busybox's shell prefers its own `ip` and `tc`, which know neither JSON nor netem.
        name, *more = command.argv
        program = f"/sbin/{name}" if name in ("ip", "tc") else name
        words = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()] + [shlex.join([program, *more])]
        line = (f"cd {shlex.quote(command.cwd)}; " if command.cwd else "") + " ".join(words)
        started_ns = time.monotonic_ns()
        asked = {"op": "console", "line": line, "timeout_s": command.timeout_s}
        answer = self._agent.ask(asked, timeout_s=command.timeout_s + 5)
        output = str(answer["output"]).encode()
        return Completed(command.argv, int(answer["returncode"]), output, b"", started_ns, time.monotonic_ns(), 0.0, 0.0)

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        target = shlex.quote(str(path))
        self.run(["/bin/busybox", "sh", "-c", f": >{target}.part"])
        for start in range(0, len(data), 2400):
            text = base64.b64encode(data[start : start + 2400]).decode()
            self.run(["/bin/busybox", "sh", "-c", f"echo {text} | /bin/busybox base64 -d >>{target}.part"])
        self.run(
            ["/bin/busybox", "sh", "-c", f"/bin/busybox chmod {mode:o} {target}.part; /bin/busybox mv -f {target}.part {target}"]
        )

    def read(self, path: str | PurePath) -> bytes:
        return base64.b64decode(self.run(["/bin/busybox", "base64", str(path)]).stdout)


def _memory(name: str, data: bytes) -> int:
    fd = os.memfd_create(name)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _sink(name: str, path: Path | None) -> int:
    """A file for a command's output: the caller's, or memory, which cannot fill up a pipe and stop the command."""
    if path is None:
        return os.memfd_create(name)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def _drain(fd: int) -> bytes:
    if fd < 0:
        return b""
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read()
