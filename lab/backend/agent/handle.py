"""The lab's side of an agent: ask it things."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from lab.backend.agent.protocol import receive, send
from lab.errors import LabFault


class AgentHandle:
    """An agent that listens at `address` (unix(7): a path, or an abstract name); `name` is its lab's."""

    def __init__(self, name: str, address: bytes | str) -> None:
        self.name = name
        self.address = address

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.address)
        except OSError as error:
            connection.close()
            raise LabFault(f"lab {self.name!r} is not running any more ({error.strerror})", remedy="lab status") from None
        return connection

    def ask(self, message: dict[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
        """One request, one answer. Raises LabFault with the agent's own words."""
        with self.connect() as connection:
            connection.settimeout(timeout_s)
            try:
                send(connection, message)
                answer, _ = receive(connection)
            except TimeoutError:
                raise LabFault(f"lab {self.name!r} did not answer {message['op']!r} within {timeout_s:g} s") from None
            except OSError as error:
                raise LabFault(f"lab {self.name!r} is gone: {error}") from None
        if answer is None:
            raise LabFault(f"lab {self.name!r} ended while it was asked for {message['op']!r}")
        if "error" in answer:
            raise LabFault(str(answer["error"]))
        return answer

    def shutdown(self) -> None:
        """Idempotent: an agent that is gone is shut down."""
        with contextlib.suppress(LabFault, OSError), self.connect() as connection:
            send(connection, {"op": "shutdown"})
