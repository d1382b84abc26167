"""Messages between the lab and an agent: a request opens a channel, its replies come back on it. Standard library only.

A message is a JSON object. A command's descriptors travel with its request: by a Unix socket as they are, over ssh
(`lab.hosts.ssh`) as its input before and its output while it runs. Closing the channel of a running command kills its process
group.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Protocol

from lab.hosts.agent.places import HOME_DIR, LAB_UID, LAB_USER, RUN_DIR

__all__ = ["HOME_DIR", "LAB_UID", "LAB_USER", "RUN_DIR", "Channel", "Message", "UnixChannel", "socket_name"]

_MAX_MESSAGE_BYTES = 200_000
_MAX_FDS = 3

Message = dict[str, Any]


class Channel(Protocol):
    """One request and its replies, as either end sees it."""

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        """Raises OSError when the peer is gone, ValueError for a message that is too large."""
        ...

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None at the end. Raises TimeoutError, OSError, or LabFault with the reason why the peer is gone."""
        ...

    def close(self) -> None: ...


class UnixChannel:
    """A connection of a Unix socket: a message per datagram, descriptors next to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        data = json.dumps(message).encode()
        if len(data) > _MAX_MESSAGE_BYTES:
            raise ValueError(f"command line and environment are too long ({len(data)} bytes)")
        socket.send_fds(self.socket, [data], fds)

    def receive(self, timeout_s: float | None = None) -> Message | None:
        # A timeout of 0 would make the socket non-blocking.
        self.socket.settimeout(None if timeout_s is None else max(timeout_s, 0.000001))
        message, fds = self.receive_fds()
        for fd in fds:
            os.close(fd)
        return message

    def receive_fds(self) -> tuple[Message | None, list[int]]:
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, _MAX_MESSAGE_BYTES, _MAX_FDS)
        except ConnectionResetError:
            return None, []
        for fd in fds:
            os.set_inheritable(fd, False)
        return (json.loads(data) if data else None), fds

    def close(self) -> None:
        self.socket.close()


def socket_name(lab: str) -> bytes:
    """Abstract (unix(7)): no file to leave behind, gone when the agent is, and one name per user."""
    return f"\0roughwater/{os.getuid()}/{lab}".encode()
