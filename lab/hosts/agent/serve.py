"""The agent: runs commands for the lab, a channel each (`protocol`), and reaps them. Stdlib only, one thread: forking is safe."""

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

from lab.hosts.agent.console import Console
from lab.hosts.agent.protocol import LAB_UID, Channel, Message, UnixChannel
from lab.hosts.agent.spawn import Child, clear, fork_into, reap

Handler = Callable[[Channel, Message, list[int]], Message | None]


@dataclass
class Job:
    """A running command and the channel that waits for it."""

    child: Child
    channel: Channel
    kept: bool = False  # survives its channel: the servers of `lab up`


class Agent:
    """Serves requests until `shutdown`. Every handler answers at once or leaves a Job behind.

    A backend adds what it knows of its hosts: `enter`, and more operations.
    """

    # Nanoseconds from this machine's CLOCK_MONOTONIC to the lab's.
    offset_ns = 0

    def __init__(self, wake: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.jobs: dict[int, Job] = {}
        self.console: Console | None = None
        self.note: Message = {}
        self.started = time.time()
        self.stopping = False
        self.operations: dict[str, Handler] = {
            "run": self._run,
            "signal": self._signal,
            "console": self._console,
            "note": self._note,
            "shutdown": self._shutdown,
        }
        self.selector.register(wake, selectors.EVENT_READ, self._reap)

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        """A function that a command's process calls first: enter that host, become that user (None: the lab's root)."""
        raise NotImplementedError

    def reaped(self, pid: int, code: int) -> None:
        """Called for a child that ended and was not a job."""

    def timeout_s(self) -> float | None:
        """The longest wait of `serve` for an event; None for a wait without end."""
        return self.console.seconds_to_deadline() if self.console else None

    def after_waiting(self) -> None:
        """Called each time `serve` has waited, whether something happened or not."""
        if self.console:
            self.console.expire()

    def serve(self) -> None:
        while not self.stopping:
            for key, _ in self.selector.select(self.timeout_s()):
                key.data(key.fileobj)
            self.after_waiting()

    def listen(self, listener: socket.socket, owner: int) -> None:
        """Serve the connections of a Unix socket to `owner`, a user id as this process sees it."""

        def accept(_: object) -> None:
            connection, _ = listener.accept()
            _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != owner:
                connection.close()
                return
            self.selector.register(UnixChannel(connection), selectors.EVENT_READ, self._readable)

        self.selector.register(listener, selectors.EVENT_READ, accept)

    def _readable(self, channel: UnixChannel) -> None:
        message, fds = channel.receive_fds()
        if message is None:
            self.selector.unregister(channel)
            self.hang_up(channel)
            channel.close()
        else:
            self.request(channel, message, fds)

    def request(self, channel: Channel, message: Message, fds: list[int]) -> None:
        handler = self.operations.get(str(message.get("op")))
        answer: Message | None
        try:
            if handler is None:
                raise ValueError(f"unknown request {message.get('op')!r}")
            answer = handler(channel, message, fds)
        except (OSError, ValueError, KeyError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        finally:
            for fd in fds:
                os.close(fd)
        if answer is not None:
            with contextlib.suppress(OSError):
                channel.send(answer)

    def hang_up(self, channel: Channel) -> None:
        """The lab has closed the channel."""
        for job in self.jobs.values():
            if job.channel is channel and not job.kept:
                job.child.kill(signal.SIGKILL)
        if self.console:
            self.console.forget(channel)

    def _reap(self, wake: int) -> None:
        clear(wake)
        for ending in reap():
            job = self.jobs.pop(ending.pid, None)
            if job is None:
                self.reaped(ending.pid, ending.code)
                continue
            job.child.kill_rest()
            answer = {
                "returncode": ending.code,
                "started_ns": job.child.started_ns + self.offset_ns,
                "ended_ns": ending.ended_ns + self.offset_ns,
                "user_s": ending.user_s,
                "system_s": ending.system_s,
            }
            with contextlib.suppress(OSError):
                job.channel.send(answer)

    # operations ----------------------------------------------------------------------------------------------------

    def _run(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        child = fork_into(
            message["argv"],
            env=message["env"],
            cwd=message["cwd"],
            stdio=(fds[0], fds[1], fds[2]),
            enter=self.enter(str(message["host"]), None if message["root"] else int(message.get("uid", LAB_UID))),
            terminal=bool(message.get("terminal")),
        )
        self.jobs[child.pid] = Job(child, channel)
        return {"pid": child.pid}

    def _signal(self, channel: Channel, message: Message, fds: list[int]) -> None:
        del fds
        for job in self.jobs.values():
            if job.channel is channel:
                job.child.kill(int(message["number"]))

    def _console(self, channel: Channel, message: Message, fds: list[int]) -> Message | None:
        """One line for the UML router's shell; started first with `{"start": argv}`."""
        del fds
        if "start" in message:
            self.console = Console.start(message["start"], self.selector, self.enter("router", None))
            self.console.wait_ready(channel, float(message["timeout_s"]))
            return None
        if self.console is None:
            return {"error": "this lab has no User-Mode Linux router"}
        self.console.ask(channel, str(message["line"]), float(message["timeout_s"]))
        return None

    def _note(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        """Keep a note for a process that attaches later (`lab exec`, `lab status`), or return it."""
        del channel, fds
        if "note" in message:
            self.note = dict(message["note"])
        return {"note": self.note, "started": self.started, "commands": len(self.jobs)}

    def _shutdown(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        del channel, message, fds
        self.stopping = True
        return {}
