"""A command's output on its way through the agent at the other end of an SSH connection."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from lab.hosts.agent.protocol import Message
from lab.hosts.ssh.remote import RemoteAgent, StreamChannel


class Agent:
    """Notes what is written to the lab, and which pipes it watches."""

    def __init__(self) -> None:
        self.written: list[tuple[int, Message, list[bytes]]] = []
        self.watched: set[int] = set()

    def write(self, number: int, message: Message, blobs: Sequence[bytes] = ()) -> None:
        self.written.append((number, message, list(blobs)))

    def watch(self, channel: StreamChannel, fd: int) -> None:
        assert channel.pipes[fd]
        self.watched.add(fd)

    def unwatch(self, fd: int) -> None:
        self.watched.remove(fd)


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def channel(agent: Agent) -> StreamChannel:
    return StreamChannel(cast(RemoteAgent, agent), 7)


@pytest.fixture
def command(channel: StreamChannel) -> Iterator[list[int]]:
    """Its standard input, output and error."""
    fds = channel.stdio(b"given")
    yield fds
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("end", ["the lab hangs up", "the command has ended"])
def test_what_was_printed_is_passed_on_and_the_pipes_are_closed(
    agent: Agent, channel: StreamChannel, command: list[int], end: str
) -> None:
    source, out, err = command
    assert os.read(source, 99) == b"given"
    assert len(agent.watched) == 2
    os.write(err, b"warned")
    os.write(out, b"printed")
    channel.close() if end == "the lab hangs up" else channel.send({"returncode": 0})
    assert sorted(agent.written[:2], key=str) == [(7, {"stream": 1}, [b"printed"]), (7, {"stream": 2}, [b"warned"])]
    assert agent.written[2:] == ([] if end == "the lab hangs up" else [(7, {"returncode": 0}, [])])
    assert not agent.watched
    assert not channel.pipes
    with pytest.raises(BrokenPipeError):
        os.write(out, b"too late")


def test_a_pipe_that_has_nothing_stays_open(agent: Agent, channel: StreamChannel, command: list[int]) -> None:
    (out,) = (fd for fd, stream in channel.pipes.items() if stream == 1)
    assert channel.pass_on(out) == 0
    assert out in agent.watched
    assert agent.written == []
