"""Ports of the loopback that nothing listens on."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Different ones: all are held until the last is known."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(sock.getsockname()[1]) for sock in held]


def free_port() -> int:
    return free_ports(1)[0]
