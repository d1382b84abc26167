"""The agent's work: runs commands for the lab, one connection each, and reaps them. Stdlib only, one thread: forking is safe.

Protocol (`protocol.py`): one connection on a Unix socket per request; the peer must be the lab's owner. Closing the connection of
a running command kills its process group.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.backend.agent.console import Console
from lab.backend.agent.protocol import LAB_UID, receive, send
from lab.backend.agent.spawn import Child, fork_into


@dataclass
class Job:
    """A command somebody waits for."""

    child: Child
    connection: socket.socket
    kept: bool = False  # lives on when nobody waits any more: the servers of `lab up`


class Agent:
    """Serves requests until `shutdown`. Every handler answers at once or leaves a Job behind.

    `owner` is the user, as this process sees him, who may ask. A backend adds what it knows of its hosts: `enter`, and more
    requests.
    """

    def __init__(self, listener: socket.socket, wake: socket.socket, owner: int) -> None:
        self.listener = listener
        self.owner = owner
        self.selector = selectors.DefaultSelector()
        self.jobs: dict[int, Job] = {}
        self.console: Console | None = None
        self.note: dict[str, Any] = {}
        self.started = time.time()
        self.stopping = False
        self.selector.register(listener, selectors.EVENT_READ, self._accept)
        self.selector.register(wake, selectors.EVENT_READ, self._reap)
        self._wake = wake

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        """What a command's process does before it becomes the command: go to that host, be that user (None: the lab's root)."""
        raise NotImplementedError

    def reaped(self, pid: int, code: int) -> None:
        """A child ended that was nobody's job."""

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
        if uid != self.owner:
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
                self.reaped(pid, os.waitstatus_to_exitcode(status))
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
            enter=self.enter(str(message["host"]), None if message["root"] else int(message.get("uid", LAB_UID))),
            terminal=bool(message.get("terminal")),
        )
        self.jobs[child.pid] = Job(child, connection)
        return {"pid": child.pid}

    def _op_signal(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
        del fds
        for job in self.jobs.values():
            if job.connection is connection:
                job.child.kill(int(message["number"]))

    def _op_console(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any] | None:
        """One line for the UML router's shell; started first with `{"start": argv}`."""
        del fds
        if "start" in message:
            self.console = Console.start(message["start"], self.selector, self.enter("router", None))
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

    def _op_shutdown(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        del connection, message, fds
        self.stopping = True
        return {}


def wake_on_children() -> socket.socket:
    """A socket that becomes readable whenever a child has ended."""
    wake, wake_write = socket.socketpair()
    wake.setblocking(False)
    wake_write.setblocking(False)
    signal.set_wakeup_fd(wake_write.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake
