"""The lab's side of an agent: requests and their answers."""

from __future__ import annotations

import contextlib
import socket

from lab.hosts.agent.protocol import Channel, Message, UnixChannel
from lab.model.errors import LabFault


class AgentHandle:
    """An agent that listens at `address` (unix(7): a path, or an abstract name); `name` is its lab's."""

    def __init__(self, name: str, address: bytes | str) -> None:
        self.name = name
        self.address = address

    def connect(self) -> Channel:
        return self.connect_unix()

    def connect_unix(self) -> UnixChannel:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.address)
        except OSError as error:
            connection.close()
            raise LabFault(f"lab {self.name!r} is not running any more ({error.strerror})", remedy="lab status") from None
        return UnixChannel(connection)

    def ask(self, message: Message, *, timeout_s: float = 10.0) -> Message:
        """One request, one answer. Raises LabFault with the agent's own words."""
        with contextlib.closing(self.connect()) as channel:
            try:
                channel.send(message)
                answer = channel.receive(timeout_s)
            except TimeoutError:
                raise LabFault(f"{self.name} did not answer {message['op']!r} within {timeout_s:g} s") from None
            except OSError as error:
                raise LabFault(f"{self.name} is gone: {error}") from None
        if answer is None:
            raise LabFault(f"{self.name} ended while it was asked for {message['op']!r}")
        if "error" in answer:
            raise LabFault(str(answer["error"]))
        return answer

    def shutdown(self) -> None:
        """Idempotent: an agent that is gone is shut down."""
        with contextlib.suppress(LabFault, OSError), contextlib.closing(self.connect()) as channel:
            channel.send({"op": "shutdown"})
