"""The agent at the far end of an ssh: the same requests (`lab.hosts.agent.protocol`), all over one connection. Stdlib only.

It comes as a zip over standard input and leaves nothing behind: as root its files are on a tmpfs in a mount namespace of its own.
It ends with the connection, together with what it runs. Frames in on fd 0, frames out on fd 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.hosts.agent import frames, syscalls
from lab.hosts.agent.protocol import RUN_DIR, Channel, Message
from lab.hosts.agent.serve import Agent
from lab.hosts.agent.spawn import wake_on_children

# <linux/sched.h>
_CLONE_NEWTIME = 0x00000080
_CHUNK = 1 << 18
_PYTHON = "/usr/bin/python3"
# A pipe that had little rests that long: a line every 10 ms (the port sampler's) would cost an emulated machine half of its
# processor for frames and encryption.
_LITTLE_BYTES = 4096
_REST_S = 0.05
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class StreamChannel:
    """One request's share of the connection: its replies, and its command's output from two pipes."""

    def __init__(self, agent: RemoteAgent, number: int) -> None:
        self.number = number
        self.pipes: dict[int, int] = {}
        self._agent = agent

    def stdio(self, stdin: bytes) -> list[int]:
        """Descriptors for a command, whose output goes to the lab."""
        source, (out, out_end), (err, err_end) = os.memfd_create("stdin"), os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        frames.write(source, [stdin])
        os.lseek(source, 0, os.SEEK_SET)
        self.pipes = {out: 1, err: 2}
        for fd in self.pipes:
            os.set_blocking(fd, False)
            self._agent.watch(self, fd)
        return [source, out_end, err_end]

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        del fds
        if "returncode" in message or "error" in message:
            self.finish()
        self._agent.write(self.number, message)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        raise NotImplementedError  # the agent's loop reads the connection

    def close(self) -> None:
        self.finish()

    def pass_on(self, fd: int) -> int:
        """Pass on the next bytes; their number, 0 when there is nothing more for now."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self._agent.write(self.number, {"stream": self.pipes[fd]}, [data])
        else:
            self._drop(fd)
        return len(data)

    def finish(self) -> None:
        """Pass on what was printed before, and close the pipes, which another process may still hold."""
        for fd in [*self.pipes]:
            while fd in self.pipes and self.pass_on(fd):
                pass
        for fd in [*self.pipes]:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        self._agent.unwatch(fd)
        os.close(fd)
        del self.pipes[fd]


class RemoteAgent(Agent):
    """The agent of one connection."""

    def __init__(self, wake: int) -> None:
        super().__init__(wake)
        self.operations |= {"hello": self._hello, "clock": self._clock}
        self.folder = ""
        self.namespace = -1
        self.person: pwd.struct_passwd = pwd.getpwuid(os.getuid())
        self.mounted = False
        self.channels: dict[int, StreamChannel] = {}
        # Pipes that rest: until when, and whose.
        self.resting: dict[int, tuple[float, StreamChannel]] = {}
        self._decoder = frames.Decoder(json.loads)
        self.selector.register(0, selectors.EVENT_READ, self._receive)

    # the connection ----------------------------------------------------------------------------------------------------

    def write(self, number: int, message: Message, blobs: Sequence[bytes] = ()) -> None:
        head = {**message, "channel": number}
        frames.write(1, frames.encode(lambda each: json.dumps(each).encode(), head, blobs))

    def _receive(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self.stopping = True
        for message, blobs in self._decoder.feed(data):
            number = int(message["channel"])
            channel = self.channels.setdefault(number, StreamChannel(self, number))
            if message["op"] == "close":
                self.hang_up(channel)
                channel.close()
                del self.channels[number]
            else:
                self.request(channel, message, channel.stdio(blobs[0]) if blobs else [])

    def watch(self, channel: StreamChannel, fd: int) -> None:
        self.selector.register(fd, selectors.EVENT_READ, lambda each: self._pass_on(channel, each))

    def unwatch(self, fd: int) -> None:
        if not self.resting.pop(fd, None):
            self.selector.unregister(fd)

    def _pass_on(self, channel: StreamChannel, fd: int) -> None:
        if fd in channel.pipes and 0 < channel.pass_on(fd) < _LITTLE_BYTES:
            self.selector.unregister(fd)
            self.resting[fd] = (time.monotonic() + _REST_S, channel)

    def timeout_s(self) -> float | None:
        now = time.monotonic()
        for fd, (until, channel) in [*self.resting.items()]:
            if until <= now:
                del self.resting[fd]
                self.watch(channel, fd)
        return min((until - now for until, _ in self.resting.values()), default=None)

    # operations --------------------------------------------------------------------------------------------------------

    def _clock(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        """This machine's CLOCK_MONOTONIC; with `offset_ns`, what makes it the lab's from now on."""
        del channel, fds
        self.offset_ns = int(message.get("offset_ns", self.offset_ns))
        return {"now_ns": time.monotonic_ns()}

    def _hello(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        del channel, fds
        try:
            return self._set_up(message)
        except (OSError, KeyError, ValueError) as error:
            return {"problem": str(error)}

    def _set_up(self, wanted: Message) -> Message:
        """Set the user, network namespace and folder of commands; an empty `user` or `namespace` means the login's.

        `setup` is a command that comes first: it makes the namespace and the user, where they do not exist.
        """
        root = os.geteuid() == 0
        if wanted["setup"]:
            set_up(wanted["setup"])
        user = str(wanted["user"]) or os.environ.get("SUDO_USER", "")
        if user:
            self.person = pwd.getpwnam(user)
        if not root and self.person.pw_uid != os.getuid():
            raise PermissionError(f"commands must run as {user}, and {pwd.getpwuid(os.getuid()).pw_name} may not become that")
        if wanted["namespace"]:
            if not root:
                raise PermissionError("no root here, which a network namespace needs: let sudo work without a password")
            self.namespace = os.open(f"/run/netns/{wanted['namespace']}", os.O_RDONLY | os.O_CLOEXEC)
        self._make_folder(str(wanted["name"]), root)
        return {
            "root": root,
            "user": self.person.pw_name,
            "workdir": self.folder,
            "home": self.place("home"),
            "tmp": self.place("tmp"),
            "boot_id": Path(_BOOT_ID).read_text().strip(),
            "clocks": root and Path("/proc/self/ns/time_for_children").exists(),
            # The system's: root's own may be where ordinary users cannot go.
            "python": _PYTHON if Path(_PYTHON).exists() else sys.executable,
            "machine": os.uname().machine,
            "utc_s": time.time(),
        }

    def place(self, name: str) -> str:
        return str(Path(self.folder).parent / name)

    def _make_folder(self, name: str, root: bool) -> None:
        base = Path(RUN_DIR, "lab")
        if root:
            # Debian's /run is noexec, and what is on this one ends with the agent.
            syscalls.unshare(syscalls.CLONE_NEWNS)
            syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
            base.mkdir(exist_ok=True)
            syscalls.mount("lab", str(base), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
            self.mounted = True
        else:
            base = Path(tempfile.mkdtemp(prefix="roughwater-"))
        self.folder = str(base / name)
        for each in (name, "home", "tmp"):
            (base / each).mkdir()
            if root:
                os.chown(base / each, self.person.pw_uid, self.person.pw_gid)

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        del host
        person, namespace, offset_ns, root = self.person, self.namespace, self.offset_ns, uid is None

        def go() -> None:
            if namespace >= 0:
                syscalls.setns(namespace, syscalls.CLONE_NEWNET)
            if offset_ns:
                enter_clock(offset_ns)
            if os.geteuid() == 0 and not root:
                os.initgroups(person.pw_name, person.pw_gid)
                os.setgid(person.pw_gid)
                os.setuid(person.pw_uid)
            elif root and os.geteuid():
                raise PermissionError("not root on this machine, and sudo asks for a password")

        return go

    def close(self) -> None:
        for job in self.jobs.values():
            job.child.kill(signal.SIGKILL)
        if self.folder and not self.mounted:
            shutil.rmtree(Path(self.folder).parent, ignore_errors=True)


def set_up(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env={**os.environ, "PATH": _PATH})
    if done.returncode:
        lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise ValueError(f"it cannot be set up: {lines[-1][:300]}")


def enter_clock(offset_ns: int) -> None:
    """Set CLOCK_MONOTONIC of this process `offset_ns` ahead of the machine's (time_namespaces(7)); needs root."""
    seconds, nanoseconds = divmod(offset_ns, 1_000_000_000)
    syscalls.unshare(_CLONE_NEWTIME)
    with open("/proc/self/timens_offsets", "w") as file:  # noqa: PTH123 - in every command's start
        file.write(f"monotonic {seconds} {nanoseconds}\n")
    inner = os.open("/proc/self/ns/time_for_children", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(inner, _CLONE_NEWTIME)
    os.close(inner)


def main() -> None:
    # A terminal's Ctrl-C is the lab's business.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    agent = RemoteAgent(wake_on_children())
    with contextlib.suppress(BrokenPipeError):
        try:
            agent.serve()
        finally:
            agent.close()
