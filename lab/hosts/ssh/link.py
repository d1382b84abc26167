"""The lab's end of an agent over ssh: starts it, sets its clock, and carries every channel of the protocol over one connection.

Descriptors cannot travel: a command's input is sent with its request, its output is written to the caller's descriptors here as
it comes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import threading
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue

from lab.hosts.agent import frames
from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.protocol import Message
from lab.hosts.ssh.connection import Connection
from lab.model.ended import wait_for_end
from lab.model.errors import LabFault
from lab.model.paths import package_root

# The modules that run at the far end, and the packages that hold them.
_SHIPPED = (
    "lab/__init__.py",
    "lab/hosts/__init__.py",
    *(
        f"lab/hosts/agent/{name}.py"
        for name in ("__init__", "console", "frames", "places", "protocol", "serve", "spawn", "syscalls")
    ),
    "lab/hosts/ssh/__init__.py",
    "lab/hosts/ssh/remote.py",
)
_BOOT = """\
import os, sys
left = int(sys.argv[1]); fd = os.memfd_create("agent")
while left:
    data = os.read(0, min(left, 65536))
    if not data: sys.exit(1)
    os.write(fd, data); left -= len(data)
sys.path.insert(0, "/proc/self/fd/%d" % fd)
from lab.hosts.ssh.remote import main
main()
"""
# Root, where the login or a sudo without password gives it; else the user who logged in.
_AS_ROOT = 'if [ "$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then exec sudo -n -- "$@"; fi; exec "$@"'
_HELLO_S = 60.0
# The best exchange counts; the first good one ends the series.
_CLOCK_LOOKS = 60
_GOOD_CLOCK_NS = 500_000
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Identity:
    """The agent's report about itself and its machine."""

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


@cache
def agent_zip() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _SHIPPED:
            archive.write(package_root() / name, name)
    return memory.getvalue()


def boot_command(size: int) -> str:
    """The line for the far end's shell, whatever POSIX shell that is."""
    return shlex.join(["/bin/sh", "-c", _AS_ROOT, "sh", "python3", "-I", "-S", "-c", _BOOT, str(size)])


class LinkChannel:
    """One request and its replies; the link's thread fills it."""

    def __init__(self, link: AgentLink, number: int) -> None:
        self._link, self._number = link, number
        self._replies: SimpleQueue[Message | LabFault] = SimpleQueue()
        self._sinks: dict[int, int] = {}

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        if fds:
            self._sinks = {stream: os.dup(fds[stream]) for stream in (1, 2)}
        self._link.send(self._number, message, [_content(fds[0])] if fds else [])

    def receive(self, timeout_s: float | None = None) -> Message | None:
        try:
            found = self._replies.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError from None
        if isinstance(found, LabFault):
            raise found
        return found

    def close(self) -> None:
        self._link.forget(self._number)
        self.close_sinks()

    def deliver(self, message: Message | LabFault, blobs: Sequence[bytes] = ()) -> None:
        """Pass a reply or a piece of output on. Called in the link's thread."""
        if isinstance(message, LabFault) or "stream" not in message:
            self._replies.put(message)
        elif message["stream"] in self._sinks:
            frames.write(self._sinks[message["stream"]], blobs)

    def close_sinks(self) -> None:
        for fd in self._sinks.values():
            os.close(fd)
        self._sinks = {}


class AgentLink(AgentHandle):
    """Use `open`; `close` ends the agent and all that it runs."""

    def __init__(self, connection: Connection) -> None:
        self.name = connection.target.name
        self.connection = connection
        self.clock = Clock(0, 0)
        self._numbers = count(1)
        self._channels: dict[int, LinkChannel] = {}
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
        self._write([image])

    @classmethod
    def open(
        cls, connection: Connection, *, name: str, user: str = "", namespace: str = "", setup: Sequence[str] = ()
    ) -> tuple[AgentLink, Identity]:
        """Raises LabFault with one line when the login fails or the machine is not fit."""
        link = cls(connection)
        try:
            hello = {"op": "hello", "name": name, "user": user, "namespace": namespace, "setup": [*setup]}
            answer = link.ask(hello, timeout_s=_HELLO_S)
            if "problem" in answer:
                raise LabFault(f"{link.name}: {answer['problem']}", remedy="has the machine been provisioned?")
            identity = Identity(**answer)
            link.set_clock(same_machine=identity.boot_id == _boot_id())
        except BaseException:
            link.close()
            raise
        return link, identity

    def connect(self) -> LinkChannel:
        with self._guard:
            if self._gone:
                raise LabFault(self._gone)
            number = next(self._numbers)
            self._channels[number] = channel = LinkChannel(self, number)
        return channel

    def send(self, number: int, message: Message, blobs: Sequence[bytes] = ()) -> None:
        self._write(frames.encode(_dumps, {**message, "channel": number}, blobs))

    def forget(self, number: int) -> None:
        """Close the channel; the lab expects nothing more on it."""
        with self._guard:
            channel = self._channels.pop(number, None)
        if channel:
            with contextlib.suppress(LabFault):
                self.send(number, {"op": "close"})

    def set_clock(self, *, same_machine: bool) -> None:
        """Cristian's algorithm: the quickest of several exchanges counts."""
        if same_machine:
            return
        looks = []
        for _ in range(_CLOCK_LOOKS):
            asked = time.monotonic_ns()
            theirs = int(self.ask({"op": "clock"})["now_ns"])
            answered = time.monotonic_ns()
            looks.append(Clock((asked + answered) // 2 - theirs, (answered - asked) // 2))
            if looks[-1].error_ns < _GOOD_CLOCK_NS:
                break
        self.clock = min(looks, key=lambda look: look.error_ns)
        self.ask({"op": "clock", "offset_ns": self.clock.offset_ns})

    def close(self) -> None:
        """Idempotent."""
        assert self._ssh.stdin is not None
        with self._guard:
            self._gone = self._gone or f"{self.connection.target.name}: the connection to the machine is closed"
        with self._writing:
            self._ssh.stdin.close()
        try:
            wait_for_end(self._ssh, 5)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)

    # ---- the link's own threads ------------------------------------------------------------------------------------------

    def _write(self, parts: Sequence[bytes]) -> None:
        assert self._ssh.stdin is not None
        with self._writing:
            try:
                frames.write(self._ssh.stdin.fileno(), parts)
            except (OSError, ValueError):
                raise self._lost() from None

    def _read(self) -> None:
        assert self._ssh.stdout is not None
        decoder, fd = frames.Decoder(json.loads), self._ssh.stdout.fileno()
        while data := os.read(fd, _CHUNK):
            for message, blobs in decoder.feed(data):
                self._heard.set()
                with self._guard:
                    channel = self._channels.get(message.pop("channel"))
                del message["blobs"]
                if channel:
                    channel.deliver(message, blobs)
        problem = self._lost().args[0]
        with self._guard:
            self._gone = self._gone or problem
            left, self._channels = list(self._channels.values()), {}
        for channel in left:
            channel.close_sinks()
            channel.deliver(LabFault(self._gone))

    def _listen(self) -> None:
        assert self._ssh.stderr is not None
        while data := os.read(self._ssh.stderr.fileno(), 4096):
            self._said += data
            del self._said[:-8192]

    def _lost(self) -> LabFault:
        """The error for a missing connection, in ssh's own words where there never was a connection."""
        try:
            code = wait_for_end(self._ssh, 5)
        except subprocess.TimeoutExpired:
            code = None
        if threading.current_thread() is not self._threads[0]:
            self._threads[0].join(1)
        said, name = self._said.decode(errors="replace"), self.connection.target.name
        if self._heard.is_set():
            why = said.strip().splitlines()[-1] if said.strip() else f"ssh ended with exit code {code} and gave no reason"
            return LabFault(f"{name}: the connection to the machine is lost: {why}", remedy="is it still running, and reachable?")
        if code == 255:
            return self.connection.refused(said)
        if ("python3" in said and "not found" in said) or code == 127:
            return LabFault(f"{name}: there is no python3 on the machine", remedy=f"vagrant provision {name}")
        last = said.strip().splitlines()[-1] if said.strip() else f"exit code {code}"
        return LabFault(f"{name}: the lab's agent does not start on the machine: {last[:200]}")


def _dumps(message: Message) -> bytes:
    return json.dumps(message).encode()


def _content(fd: int) -> bytes:
    """All that is left to read from a descriptor."""
    parts = []
    while data := os.read(fd, _CHUNK):
        parts.append(data)
    return b"".join(parts)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "not Linux"
