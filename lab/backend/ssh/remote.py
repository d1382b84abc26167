"""The agent at the far end of an ssh: runs commands for the lab, and takes them along when the connection ends. Stdlib only.

It comes as a zip over standard input and leaves nothing behind: as root its files are on a tmpfs in a mount namespace of its own.
One thread; frames in on fd 0, frames out on fd 1.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.backend.agent import spawn, syscalls
from lab.backend.agent.protocol import RUN_DIR
from lab.backend.ssh.frames import ANSWER, CLOCK, END, HELLO, RUN, SIGNAL, STDERR, STDOUT, Unpacker, send

# <linux/sched.h>
_CLONE_NEWTIME = 0x00000080
_CHUNK = 1 << 18
_PYTHON = "/usr/bin/python3"
# A pipe that had little is left alone for so long: a line every 10 ms (the port sampler's) would cost an emulated machine half
# of its processor for frames and encryption.
_LITTLE_BYTES = 4096
_REST_S = 0.05
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass
class _Job:
    """A command, and the ends of its pipes that are still open."""

    child: spawn.Child
    pidfd: int
    pipes: dict[int, int] = field(default_factory=dict)


class RemoteAgent:
    """One connection's. `offset_ns` makes this machine's CLOCK_MONOTONIC the lab's."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.jobs: dict[int, _Job] = {}
        self.folder = ""
        self.namespace = -1
        self.person: pwd.struct_passwd = pwd.getpwuid(os.getuid())
        self.offset_ns = 0
        self.mounted = False
        # Pipes that rest: until when, and whose.
        self.resting: dict[int, tuple[float, int]] = {}

    # ---- what it is asked --------------------------------------------------------------------------------------------

    def hello(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Who and where commands are: `user` (empty: whoever logged in), `namespace` (empty: the machine's own), `name`.

        `setup` is a command that comes first: it makes the namespace and the user, where they are not there.
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
            base = Path(tempfile.mkdtemp(prefix="throughline-"))
        self.folder = str(base / name)
        for each in (name, "home", "tmp"):
            (base / each).mkdir()
            if root:
                os.chown(base / each, self.person.pw_uid, self.person.pw_gid)

    def run(self, number: int, data: bytes) -> None:
        line, _, stdin = data.partition(b"\n")
        asked: dict[str, Any] = json.loads(line)
        source = os.memfd_create("stdin")
        pipes = [os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)]
        try:
            written = 0
            while written < len(stdin):
                written += os.write(source, stdin[written:])
            os.lseek(source, 0, os.SEEK_SET)
            stdio = (source, pipes[0][1], pipes[1][1])
            enter = self._entrance(bool(asked["root"]))
            child = spawn.fork_into(asked["argv"], env=asked["env"], cwd=asked["cwd"], stdio=stdio, enter=enter, terminal=False)
        finally:
            for fd in (source, pipes[0][1], pipes[1][1]):
                os.close(fd)
        job = _Job(child, os.pidfd_open(child.pid), {pipes[0][0]: STDOUT, pipes[1][0]: STDERR})
        self.jobs[number] = job
        for fd in job.pipes:
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, (number, "pipe"))
        self.selector.register(job.pidfd, selectors.EVENT_READ, (number, "end"))

    def _entrance(self, root: bool) -> Callable[[], None]:
        person, namespace, offset_ns = self.person, self.namespace, self.offset_ns

        def enter() -> None:
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

        return enter

    # ---- what happens -------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the connection ends."""
        frames = Unpacker()
        self.selector.register(0, selectors.EVENT_READ, (0, "frames"))
        while True:
            self._wake()
            timeout = min((until for until, _ in self.resting.values()), default=None)
            for key, _ in self.selector.select(timeout and max(0.0, timeout - time.monotonic())):
                number, what = key.data
                if what == "frames":
                    data = os.read(0, _CHUNK)
                    if not data:
                        return
                    for frame in frames.feed(data):
                        self._take(*frame)
                elif number in self.jobs and what == "pipe" and key.fd in self.jobs[number].pipes:
                    if 0 < self._pass_on(number, key.fd) < _LITTLE_BYTES:
                        self.selector.unregister(key.fd)
                        self.resting[key.fd] = (time.monotonic() + _REST_S, number)
                elif number in self.jobs:
                    self._end(number)

    def _wake(self) -> None:
        now = time.monotonic()
        for fd, (until, number) in [*self.resting.items()]:
            if until <= now:
                del self.resting[fd]
                self.selector.register(fd, selectors.EVENT_READ, (number, "pipe"))

    def _take(self, kind: int, number: int, data: bytes) -> None:
        if kind == CLOCK:
            if data:
                self.offset_ns = int(data)
            send(1, ANSWER, number, str(time.monotonic_ns()).encode())
        elif kind == SIGNAL and number in self.jobs:
            self.jobs[number].child.kill(int(data))
        elif kind in (HELLO, RUN):
            try:
                if kind == RUN:
                    self.run(number, data)
                    return
                answer = self.hello(json.loads(data))
            except (OSError, KeyError, ValueError) as error:
                answer = {"error": str(error)}
            send(1, END if kind == RUN else ANSWER, number, json.dumps(answer).encode())

    def _pass_on(self, number: int, fd: int) -> int:
        """How many bytes; 0 when there is nothing more for now."""
        job = self.jobs[number]
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if data:
            send(1, job.pipes[fd], number, data)
        else:
            self._close_pipe(job, fd)
        return len(data)

    def _close_pipe(self, job: _Job, fd: int) -> None:
        if not self.resting.pop(fd, None):
            self.selector.unregister(fd)
        os.close(fd)
        del job.pipes[fd]

    def _end(self, number: int) -> None:
        """Reaped with what it cost. What it left in its group is killed; what was printed before is passed on."""
        job = self.jobs[number]
        _, status, used = os.wait4(job.child.pid, 0)
        ended_ns = time.monotonic_ns()
        job.child.kill_rest()
        for fd in [*job.pipes]:
            while self._pass_on(number, fd):
                pass
        for fd in [*job.pipes]:
            self._close_pipe(job, fd)
        self.selector.unregister(job.pidfd)
        os.close(job.pidfd)
        del self.jobs[number]
        done = {
            "returncode": os.waitstatus_to_exitcode(status),
            "started_ns": job.child.started_ns + self.offset_ns,
            "ended_ns": ended_ns + self.offset_ns,
            "user_s": used.ru_utime,
            "system_s": used.ru_stime,
            "max_rss_bytes": used.ru_maxrss * 1024,
        }
        send(1, END, number, json.dumps(done).encode())

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
    """CLOCK_MONOTONIC of this process is `offset_ns` ahead of the machine's from now on (time_namespaces(7)); needs root."""
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
    agent = RemoteAgent()
    with contextlib.suppress(BrokenPipeError):
        try:
            agent.serve()
        finally:
            agent.close()
