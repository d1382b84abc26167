"""PID 1 of a lab: owns its namespaces, runs commands in them, and takes everything along when it dies.

Stdlib only and single-threaded, so that forking is safe and start-up is quick. Protocol (`protocol.py`): one
connection on an abstract Unix socket per request; the peer must be the user who made the lab. Closing the connection of
a running command kills its process group.

    A  the process the lab started: enters the namespaces, forks B, waits
    B  PID 1: mounts, then serves until it is told to stop or its parent dies
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.backend.namespaces import syscalls
from lab.backend.namespaces.console import Console
from lab.backend.namespaces.protocol import LAB_UID, RUN_DIR, receive, send
from lab.backend.namespaces.spawn import Child, fork_into


@dataclass
class Job:
    """A command somebody waits for."""

    child: Child
    connection: socket.socket
    kept: bool = False  # lives on when nobody waits any more: the servers of `lab up`


class Agent:
    """Serves requests until `shutdown`. Every handler answers at once or leaves a Job behind."""

    def __init__(self, listener: socket.socket, wake: socket.socket) -> None:
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.namespaces: dict[str, int] = {"router": os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)}
        self.jobs: dict[int, Job] = {}
        self.console: Console | None = None
        self.note: dict[str, Any] = {}
        self.started = time.time()
        self.stopping = False
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.selector.register(wake, selectors.EVENT_READ, self._reap)
        self._wake = wake

    def serve(self) -> None:
        while not self.stopping:
            timeout = self.console.seconds_to_deadline() if self.console else None
            for key, _ in self.selector.select(timeout):
                key.data(key.fileobj)
            if self.console:
                self.console.expire()

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.geteuid():
            connection.close()
            return
        self.selector.register(connection, selectors.EVENT_READ, self._request)

    def _request(self, connection: socket.socket) -> None:
        message, fds = receive(connection)
        if message is None:
            self._hang_up(connection)
            return
        handler = getattr(self, f"_op_{message.get('op')}", None)
        try:
            if handler is None:
                raise ValueError(f"unknown request {message.get('op')!r}")
            answer = handler(connection, message, fds)
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            for fd in fds:
                os.close(fd)
        if answer is not None:
            with contextlib.suppress(OSError):
                send(connection, answer)

    def _hang_up(self, connection: socket.socket) -> None:
        self.selector.unregister(connection)
        for job in self.jobs.values():
            if job.connection is connection and not job.kept:
                job.child.kill(signal.SIGKILL)
        if self.console:
            self.console.forget(connection)
        connection.close()

    def _reap(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            wake.recv(4096)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended_ns = time.monotonic_ns()
            job = self.jobs.pop(pid, None)
            if job is None:
                continue
            job.child.kill_rest()
            with contextlib.suppress(OSError):
                send(
                    job.connection,
                    {
                        "returncode": os.waitstatus_to_exitcode(status),
                        "started_ns": job.child.started_ns,
                        "ended_ns": ended_ns,
                        "user_s": usage.ru_utime,
                        "system_s": usage.ru_stime,
                    },
                )

    # requests ------------------------------------------------------------------------------------------------------

    def _op_run(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        child = fork_into(
            message["argv"],
            env=message["env"],
            cwd=message["cwd"],
            stdio=(fds[0], fds[1], fds[2]),
            namespace=self.namespaces[message["host"]],
            hostname=message["host"],
            uid=None if message["root"] else int(message.get("uid", LAB_UID)),
            terminal=bool(message.get("terminal")),
        )
        self.jobs[child.pid] = Job(child, connection)
        return {"pid": child.pid}

    def _op_signal(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        del fds
        for job in self.jobs.values():
            if job.connection is connection:
                job.child.kill(int(message["number"]))

    def _op_namespace(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """A new network namespace, by descriptor and as /run/netns/NAME for `ip -n`."""
        del connection, fds
        own = self.namespaces["router"]
        syscalls.unshare(syscalls.CLONE_NEWNET)
        fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        name = str(message["name"])
        link_namespace(name)
        syscalls.setns(own, syscalls.CLONE_NEWNET)
        self.namespaces[name] = fd
        return {}

    def _op_console(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        """One line for the UML router's shell; started first with `{"start": argv}`."""
        del fds
        if "start" in message:
            self.console = Console.start(message["start"], self.selector)
            self.console.wait_ready(connection, float(message["timeout_s"]))
            return None
        if self.console is None:
            return {"error": "this lab has no User-Mode Linux router"}
        self.console.ask(connection, str(message["line"]), float(message["timeout_s"]))
        return None

    def _op_note(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Keep a note for whoever connects later (`lab exec`, `lab status`); without one, tell it."""
        del connection, fds
        if "note" in message:
            self.note = dict(message["note"])
        return {"note": self.note, "started": self.started, "commands": len(self.jobs)}

    def _op_detach(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """`lab up` has finished: live on, with what it started, without the process that started us."""
        del connection, message, fds
        for job in self.jobs.values():
            job.kept = True
        syscalls.die_with_parent(enabled=False)
        let_go_of_terminal()
        os.write(PARENT_PIPE, b"d")
        return {}

    def _op_shutdown(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        del connection, message, fds
        self.stopping = True
        return {}


def link_namespace(name: str) -> None:
    """Show the namespace this process is in as /run/netns/NAME."""
    place = f"{RUN_DIR}/netns/{name}"
    Path(place).touch()
    syscalls.bind("/proc/self/ns/net", place)


def furnish(files: dict[str, str]) -> None:
    """A /proc of our own, a private /run that vanishes with us, and our names over /etc's (hosts, passwd, resolv.conf)."""
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV)
    syscalls.mount("run", RUN_DIR, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for folder in ("netns", "lab/etc", "lab/home", "lab/tmp", "lab/client", "lab/router", "lab/server", "uml", "sshd"):
        Path(RUN_DIR, folder).mkdir(parents=True)
    link_namespace("router")
    for target, text in files.items():
        source = Path(RUN_DIR, "lab/etc", Path(target).name)
        source.write_text(text)
        # /etc/resolv.conf is often a symlink into /run, which now is another one: a missing target is no fault.
        with contextlib.suppress(FileNotFoundError):
            syscalls.bind(str(source), target)


PARENT_PIPE = -1


def enter_namespaces() -> None:
    """Everything the lab owns; a user namespace too where this process may not do without."""
    flags = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
    if os.geteuid() == 0 and not os.environ.get("THROUGHLINE_USERNS"):
        with contextlib.suppress(PermissionError):
            syscalls.unshare(flags)
            return
    syscalls.new_user_namespace(0, extra_flags=flags)


def main() -> int:
    """argv: LISTENER_FD REPORT_FD PARENT_PID; stdin: JSON {path: text} of files to show over /etc's.

    One line of JSON on REPORT_FD says `{"ready": true}` or `{"error": ..., "step": ...}`.
    """
    global PARENT_PIPE
    listener_fd, report_fd, parent = (int(word) for word in sys.argv[1:4])
    files = json.load(sys.stdin)
    step = "user and network namespaces"
    try:
        enter_namespaces()
        syscalls.die_with_parent()
        if os.getppid() != parent:
            return 1
        read_end, PARENT_PIPE = os.pipe()
        pid = os.fork()
        if pid:
            # Not the listener: the lab's name is taken until this process has seen the last of its processes go.
            for fd in (PARENT_PIPE, report_fd):
                os.close(fd)
            return wait_for_agent(pid, read_end)
        os.close(read_end)
        syscalls.die_with_parent()
        step = "mounts"
        furnish(files)
        wake, wake_write = socket.socketpair()
        wake.setblocking(False)
        wake_write.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A terminal's Ctrl-C is the lab's business; it closes us in order.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.set_inheritable(listener_fd, False)
        agent = Agent(socket.socket(fileno=listener_fd), wake)
    except OSError as error:
        os.write(report_fd, json.dumps({"error": str(error), "step": step}).encode() + b"\n")
        return 1
    os.write(report_fd, b'{"ready": true}\n')
    os.close(report_fd)
    agent.serve()
    # At once: Python's orderly end would close the wake-up socket while children still end.
    os._exit(0)


def let_go_of_terminal() -> None:
    """Whoever waits for the end of `lab up`'s output must not wait for the lab's."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)


def wait_for_agent(pid: int, pipe: int) -> int:
    """A's whole life: a byte from B means `detach`, end of file means that B is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.read(pipe, 1):
        syscalls.die_with_parent(enabled=False)
        let_go_of_terminal()
    _, status = os.waitpid(pid, 0)
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
