"""The first process of a container: the lab's agent. Without a lab it starts the role itself (`lab.run.container`). Stdlib only.

    python3 -I -m lab.hosts.compose.inside.entry ROLE

It runs as the ordinary user of the image from a Python that has file capabilities; commands for the lab's root keep them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from lab.hosts.agent import syscalls
from lab.hosts.agent.protocol import RUN_DIR, Channel, Message
from lab.hosts.agent.serve import Agent
from lab.hosts.agent.spawn import fork_into, wake_on_children

SHARED = "/shared"
# The lab locks this file while it makes its containers (`lab.hosts.compose.project`); a killed lab loses the lock.
CLAIM = f"{SHARED}/claim"
CLAIM_LOOK_S = 0.5
OWN_SOCKET = f"{RUN_DIR}/lab/agent.socket"
FOLDERS = ("lab/home", "lab/tmp", "lab/client", "lab/router", "lab/server", "uml")
ROLE_MODULE = "lab.run.container"


class ContainerAgent(Agent):
    """Every command runs in this container; an ordinary user has no capabilities.

    It ends with the connection that asked to be its `hold`: a lab that is killed takes its containers along. Until there is such
    a connection it ends with the lab's lock on the file `claim`.
    """

    def __init__(self, listener: socket.socket, wake: int, owner: int, claim: str | None = None) -> None:
        super().__init__(wake)
        self.listen(listener, owner)
        self.operations |= {"hold": self._keep_alive, "detach": self._detach}
        self.code = 0
        self.role_process = 0
        self._hold: Channel | None = None
        self._claim = claim

    def timeout_s(self) -> float | None:
        other = super().timeout_s()
        if self._claim is None:
            return other
        return CLAIM_LOOK_S if other is None else min(other, CLAIM_LOOK_S)

    def after_waiting(self) -> None:
        super().after_waiting()
        if self._claim is not None and not locked(self._claim):
            self.stopping = True

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        del host
        return (lambda: None) if uid is None else syscalls.drop_ambient

    def reaped(self, pid: int, code: int) -> None:
        if pid == self.role_process and code:
            self.code, self.stopping = code, True

    def hang_up(self, channel: Channel) -> None:
        if channel is self._hold:
            self.stopping = True
        super().hang_up(channel)

    def _keep_alive(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        del message, fds
        self._hold = channel
        self._claim = None
        return {}

    def _detach(self, channel: Channel, message: Message, fds: list[int]) -> Message:
        """`lab up` has finished: live on, with what it started."""
        del channel, message, fds
        self._hold = None
        for job in self.jobs.values():
            job.kept = True
        return {}


def locked(path: str) -> bool:
    """True if a process has locked the file; false for a file that is gone."""
    try:
        with Path(path).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def listen(path: str) -> socket.socket:
    """Anyone who reaches the folder may connect; the agent checks the user."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    Path(path).unlink(missing_ok=True)
    staged = f"{path}.new"
    Path(staged).unlink(missing_ok=True)
    listener.bind(staged)
    Path(staged).chmod(0o666)
    listener.listen(64)
    # Visible only when it answers.
    Path(staged).rename(path)
    return listener


def main() -> int:
    role = sys.argv[1]
    driven = os.environ.get("ROUGHWATER_DRIVER") == "lab"
    syscalls.make_capabilities_ambient()
    for folder in FOLDERS:
        Path(RUN_DIR, folder).mkdir(parents=True, exist_ok=True)
    owner = int(os.environ["ROUGHWATER_OWNER"]) if driven else os.geteuid()
    listener = listen(f"{SHARED}/{role}.socket" if driven else OWN_SOCKET)
    agent = ContainerAgent(listener, wake_on_children(), owner, CLAIM if driven else None)

    def stop(_number: int, _frame: object) -> None:
        agent.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if not driven:
        argv = [sys.executable, "-I", "-m", ROLE_MODULE, role]
        child = fork_into(argv, env=dict(os.environ), cwd="/", stdio=(0, 1, 2), enter=lambda: None, terminal=False)
        agent.role_process = child.pid
    agent.serve()
    # The kernel ends whatever else runs in this container.
    os._exit(agent.code)


if __name__ == "__main__":
    sys.exit(main())
