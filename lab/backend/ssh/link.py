"""The lab's end of an agent over ssh: starts it, knows its clock, and hands its frames to whoever waits for them."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from lab.backend.ssh.connection import Connection
from lab.backend.ssh.frames import ANSWER, CLOCK, END, HELLO, Unpacker, send
from lab.errors import LabFault
from lab.paths import project_root

# What runs over there, and the packages it is in.
_SHIPPED = (
    "lab/__init__.py",
    "lab/backend/__init__.py",
    "lab/backend/agent/__init__.py",
    "lab/backend/agent/places.py",
    "lab/backend/agent/protocol.py",
    "lab/backend/agent/spawn.py",
    "lab/backend/agent/syscalls.py",
    "lab/backend/ssh/__init__.py",
    "lab/backend/ssh/frames.py",
    "lab/backend/ssh/remote.py",
)
_BOOT = """\
import os, sys
left = int(sys.argv[1]); fd = os.memfd_create("agent")
while left:
    data = os.read(0, min(left, 65536))
    if not data: sys.exit(1)
    os.write(fd, data); left -= len(data)
sys.path.insert(0, "/proc/self/fd/%d" % fd)
from lab.backend.ssh.remote import main
main()
"""
# Root, where one login or a sudo without password gives it; else whoever logged in.
_AS_ROOT = 'if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n -- "$@"; fi; exec "$@"'
_HELLO_S = 60.0
# The best of so many looks, fewer where one is good enough.
_CLOCK_LOOKS = 60
_GOOD_CLOCK_NS = 500_000
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Identity:
    """What the agent said of itself."""

    root: bool
    user: str
    workdir: str
    home: str
    tmp: str
    python: str
    clocks: bool
    boot_id: str
    machine: str
    utc_s: float


@dataclass(frozen=True)
class Clock:
    """`offset_ns` added to that machine's CLOCK_MONOTONIC is the lab's; wrong by at most `error_ns`."""

    offset_ns: int
    error_ns: int


Sink = Callable[[int, bytes], None]


@cache
def agent_zip() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _SHIPPED:
            archive.write(project_root() / name, name)
    return memory.getvalue()


def boot_command(size: int) -> str:
    """The line for the far end's shell, whatever POSIX shell that is."""
    return shlex.join(["/bin/sh", "-c", _AS_ROOT, "sh", "python3", "-I", "-S", "-c", _BOOT, str(size)])


class AgentLink:
    """Use `open`; `close` ends the agent and all that it runs."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.clock = Clock(0, 0)
        self._numbers = count(1)
        self._sinks: dict[int, Sink] = {}
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._heard = threading.Event()
        self._gone = ""
        image = agent_zip()
        self._ssh = subprocess.Popen(
            connection.command(boot_command(len(image)), shared=False),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._said = bytearray()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._read)]
        for thread in self._threads:
            thread.start()
        self._write(image)

    @classmethod
    def open(
        cls, connection: Connection, *, name: str, user: str = "", namespace: str = "", setup: Sequence[str] = ()
    ) -> tuple[AgentLink, Identity]:
        """Raises LabFault with one line where there is no way in, or the machine is not fit for it."""
        link = cls(connection)
        try:
            wanted = {"name": name, "user": user, "namespace": namespace, "setup": [*setup]}
            answer = json.loads(link.ask(HELLO, json.dumps(wanted).encode()))
            if "error" in answer:
                raise LabFault(f"{connection.target.name}: {answer['error']}", remedy="has the machine been provisioned?")
            identity = Identity(**answer)
            link.set_clock(same_machine=identity.boot_id == _boot_id())
        except BaseException:
            link.close()
            raise
        return link, identity

    def new(self, sink: Sink) -> int:
        """A number for a command; `sink` gets its frames, in a thread of the link's."""
        number = next(self._numbers)
        with self._guard:
            if self._gone:
                raise LabFault(self._gone)
            self._sinks[number] = sink
        return number

    def send(self, kind: int, number: int, data: bytes = b"") -> None:
        with self._writing:
            assert self._ssh.stdin is not None
            try:
                send(self._ssh.stdin.fileno(), kind, number, data)
            except OSError:
                raise self._lost() from None

    def ask(self, kind: int, data: bytes = b"", *, timeout_s: float = _HELLO_S) -> bytes:
        """One answer."""
        answers: list[bytes] = []
        there = threading.Event()

        def sink(kind: int, data: bytes) -> None:
            if kind == ANSWER:
                answers.append(data)
            there.set()

        self.send(kind, self.new(sink), data)
        if not there.wait(timeout_s):
            raise LabFault(f"{self.connection.target.name}: no answer in {timeout_s:g} s: does the machine hang?")
        if not answers:
            raise self._lost()
        return answers[0]

    def set_clock(self, *, same_machine: bool) -> None:
        """Cristian's algorithm: of several looks the one that was quickest."""
        if same_machine:
            return
        looks = []
        for _ in range(_CLOCK_LOOKS):
            asked = time.monotonic_ns()
            theirs = int(self.ask(CLOCK))
            answered = time.monotonic_ns()
            looks.append(Clock((asked + answered) // 2 - theirs, (answered - asked) // 2))
            if looks[-1].error_ns < _GOOD_CLOCK_NS:
                break
        self.clock = min(looks, key=lambda look: look.error_ns)
        self.ask(CLOCK, str(self.clock.offset_ns).encode())

    def close(self) -> None:
        """Idempotent."""
        assert self._ssh.stdin is not None
        with self._guard:
            self._gone = self._gone or f"{self.connection.target.name}: the connection to the machine is closed"
        with self._writing:
            self._ssh.stdin.close()
        try:
            self._ssh.wait(5)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)

    # ---- the link's own threads ------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        assert self._ssh.stdin is not None
        try:
            self._ssh.stdin.write(data)
            self._ssh.stdin.flush()
        except OSError:
            raise self._lost() from None

    def _read(self) -> None:
        assert self._ssh.stdout is not None
        frames, fd = Unpacker(), self._ssh.stdout.fileno()
        while data := os.read(fd, _CHUNK):
            for kind, number, content in frames.feed(data):
                self._heard.set()
                with self._guard:
                    sink = self._sinks.pop(number, None) if kind in (ANSWER, END) else self._sinks.get(number)
                if sink:
                    sink(kind, content)
        problem = self._lost().args[0]
        with self._guard:
            problem = self._gone = self._gone or problem
            left, self._sinks = list(self._sinks.values()), {}
        for sink in left:
            sink(END, json.dumps({"error": problem}).encode())

    def _listen(self) -> None:
        assert self._ssh.stderr is not None
        while data := os.read(self._ssh.stderr.fileno(), 4096):
            self._said += data
            del self._said[:-8192]

    def _lost(self) -> LabFault:
        """Why there is no connection: ssh's own words, where it never came to one."""
        try:
            code = self._ssh.wait(5)
        except subprocess.TimeoutExpired:
            code = None
        if threading.current_thread() is not self._threads[0]:
            self._threads[0].join(1)
        said, name = self._said.decode(errors="replace"), self.connection.target.name
        if self._heard.is_set():
            return LabFault(
                f"{name}: the connection to the machine is lost: {said.strip().splitlines()[-1] if said.strip() else code}"
            )
        if code == 255:
            return self.connection.refused(said)
        if ("python3" in said and "not found" in said) or code == 127:
            return LabFault(f"{name}: there is no python3 on the machine", remedy=f"vagrant provision {name}")
        last = said.strip().splitlines()[-1] if said.strip() else f"exit code {code}"
        return LabFault(f"{name}: the lab's agent does not start there: {last[:200]}")


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "not Linux"
