"""PID 1 of a lab: owns its namespaces and runs commands in them; when it dies, they all end.

A  the process the lab started: enters the namespaces, forks B, waits
B  PID 1: mounts, then serves until `shutdown` or until its parent dies
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from lab.hosts.agent import syscalls
from lab.hosts.agent.protocol import RUN_DIR, Channel, Message
from lab.hosts.agent.serve import Agent
from lab.hosts.agent.spawn import wake_on_children


class NamespaceAgent(Agent):
    """Its hosts are network namespaces; an ordinary user has a user namespace and no capabilities."""

    def __init__(self, listener: socket.socket, wake: int) -> None:
        super().__init__(wake)
        self.listen(listener, os.geteuid())
        self.operations |= {"namespace": self._namespace, "detach": self._detach}
        self.namespaces: dict[str, int] = {"router": os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)}

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        namespace = self.namespaces[host]

        def go() -> None:
            syscalls.setns(namespace, syscalls.CLONE_NEWNET)
            syscalls.unshare(syscalls.CLONE_NEWUTS)
            syscalls.sethostname(host)
            if uid is not None:
                syscalls.new_user_namespace(uid)

        return go

    def _namespace(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        """A new network namespace, by descriptor and as /run/netns/NAME for `ip -n`. `same_host`: no new one, the router's."""
        del channel, fds
        own = self.namespaces["router"]
        if message.get("same_host"):
            self.namespaces[str(message["name"])] = own
            return {}
        syscalls.unshare(syscalls.CLONE_NEWNET)
        fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        name = str(message["name"])
        syscalls.show_namespace(name)
        syscalls.setns(own, syscalls.CLONE_NEWNET)
        self.namespaces[name] = fd
        return {}

    def _detach(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        """`lab up` has finished: live on, with what it started, without the process that started us."""
        del channel, message, fds
        for job in self.jobs.values():
            job.kept = True
        syscalls.die_with_parent(enabled=False)
        let_go_of_terminal()
        os.write(PARENT_PIPE, b"d")
        return {}


def furnish(files: dict[str, str]) -> None:
    """A /proc of our own, a private /run that vanishes with us, and our names over /etc's (hosts, passwd, resolv.conf)."""
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV)
    syscalls.mount("run", RUN_DIR, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    for folder in ("netns", "lab/etc", "lab/home", "lab/tmp", "lab/client", "lab/router", "lab/server", "uml", "sshd"):
        Path(RUN_DIR, folder).mkdir(parents=True)
    syscalls.show_namespace("router")
    for target, text in files.items():
        source = Path(RUN_DIR, "lab/etc", Path(target).name)
        source.write_text(text)
        # /etc/resolv.conf is often a symlink into /run, which is now a new one, so the target may be missing.
        with contextlib.suppress(FileNotFoundError):
            syscalls.bind(str(source), target)


PARENT_PIPE = -1


def enter_namespaces() -> None:
    """Enter every kind of namespace; a user namespace too where this process is not root."""
    flags = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
    if os.geteuid() == 0 and not os.environ.get("ROUGHWATER_USERNS"):
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
        wake = wake_on_children()
        # A terminal's Ctrl-C is the lab's business; it closes us in order.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.set_inheritable(listener_fd, False)
        agent = NamespaceAgent(socket.socket(fileno=listener_fd), wake)
    except OSError as error:
        os.write(report_fd, json.dumps({"error": str(error), "step": step}).encode() + b"\n")
        return 1
    os.write(report_fd, b'{"ready": true}\n')
    os.close(report_fd)
    agent.serve()
    # At once: Python's orderly end would close the wake-up socket while children still end.
    os._exit(0)


def let_go_of_terminal() -> None:
    """A reader of `lab up`'s output must see its end while the lab lives on."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)


def wait_for_agent(pid: int, pipe: int) -> int:
    """Until B ends: a byte from B means `detach`, end of file means that B is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.read(pipe, 1):
        syscalls.die_with_parent(enabled=False)
        let_go_of_terminal()
    _, status = os.waitpid(pid, 0)
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
