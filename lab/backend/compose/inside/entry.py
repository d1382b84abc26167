"""The first process of a container: the lab's agent; where no lab drives, it starts `hand`. Stdlib only.

    python3 -I -m lab.backend.compose.inside.entry ROLE

It runs as the ordinary user of the image from a Python that has file capabilities; commands for the lab's root keep them.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.backend.agent import syscalls
from lab.backend.agent.protocol import RUN_DIR
from lab.backend.agent.serve import Agent, wake_on_children
from lab.backend.agent.spawn import fork_into

SHARED = "/shared"
HAND_SOCKET = f"{RUN_DIR}/lab/agent.socket"
FOLDERS = ("lab/home", "lab/tmp", "lab/client", "lab/router", "lab/server", "uml")
HAND = "lab.backend.compose.inside.hand"


class ContainerAgent(Agent):
    """Everything runs where it is; an ordinary user is one without capabilities.

    It ends with the connection that asked to be its `hold`: a lab that is killed takes its containers along.
    """

    def __init__(self, listener: socket.socket, wake: socket.socket, owner: int) -> None:
        super().__init__(listener, wake, owner)
        self.code = 0
        self.hand = 0
        self._hold: socket.socket | None = None

    def enter(self, host: str, uid: int | None) -> Callable[[], None]:
        del host
        return (lambda: None) if uid is None else syscalls.drop_ambient

    def reaped(self, pid: int, code: int) -> None:
        if pid == self.hand and code:
            self.code, self.stopping = code, True

    def _hang_up(self, connection: socket.socket) -> None:
        if connection is self._hold:
            self.stopping = True
        super()._hang_up(connection)

    def _op_hold(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        del message, fds
        self._hold = connection
        return {}

    def _op_detach(self, connection: socket.socket, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """`lab up` has finished: live on, with what it started."""
        del connection, message, fds
        self._hold = None
        for job in self.jobs.values():
            job.kept = True
        return {}


def listen(path: str) -> socket.socket:
    """Whoever reaches the folder may connect; who may ask is checked by the agent."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    Path(path).unlink(missing_ok=True)
    staged = f"{path}.new"
    Path(staged).unlink(missing_ok=True)
    listener.bind(staged)
    Path(staged).chmod(0o666)
    listener.listen(64)
    # There only when it answers.
    Path(staged).rename(path)
    return listener


def main() -> int:
    role = sys.argv[1]
    driven = os.environ.get("THROUGHLINE_DRIVER") == "lab"
    syscalls.make_capabilities_ambient()
    for folder in FOLDERS:
        Path(RUN_DIR, folder).mkdir(parents=True, exist_ok=True)
    owner = int(os.environ["THROUGHLINE_OWNER"]) if driven else os.geteuid()
    listener = listen(f"{SHARED}/{role}.socket" if driven else HAND_SOCKET)
    agent = ContainerAgent(listener, wake_on_children(), owner)

    def stop(_number: int, _frame: object) -> None:
        agent.stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if not driven:
        argv = [sys.executable, "-I", "-m", HAND, role]
        child = fork_into(argv, env=dict(os.environ), cwd="/", stdio=(0, 1, 2), enter=lambda: None, terminal=False)
        agent.hand = child.pid
    agent.serve()
    # The kernel ends whatever else runs in this container.
    os._exit(agent.code)


if __name__ == "__main__":
    sys.exit(main())
