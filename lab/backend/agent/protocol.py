"""What the lab and its agent say to each other: one JSON object per datagram, file descriptors beside it. Stdlib only."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from lab.backend.agent.places import HOME_DIR, LAB_UID, LAB_USER, RUN_DIR

__all__ = ["HOME_DIR", "LAB_UID", "LAB_USER", "RUN_DIR", "receive", "send", "socket_name"]

_MAX_MESSAGE_BYTES = 200_000
_MAX_FDS = 3


def socket_name(lab: str) -> bytes:
    """Abstract (unix(7)): no file to leave behind, gone when the agent is, and one name per user."""
    return f"\0throughline/{os.getuid()}/{lab}".encode()


def send(connection: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Raises OSError when the peer is gone, ValueError when the message is too large for one datagram."""
    data = json.dumps(message).encode()
    if len(data) > _MAX_MESSAGE_BYTES:
        raise ValueError(f"command line and environment are too long ({len(data)} bytes)")
    socket.send_fds(connection, [data], fds)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message and its descriptors; None at the end."""
    try:
        data, fds, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, _MAX_FDS)
    except ConnectionResetError:
        return None, []
    for fd in fds:
        os.set_inheritable(fd, False)
    return (json.loads(data) if data else None), fds
