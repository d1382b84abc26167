"""What the lab and its agent say to each other."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lab.backend.agent.protocol import receive, send, socket_name
from lab.backend.agent.router import iproute2_version, supports_seed


def test_messages_and_descriptors_arrive_together() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there, Path(os.devnull).open("rb") as null:
        send(here, {"op": "run", "argv": ["ä"]}, (null.fileno(), null.fileno()))
        message, fds = receive(there)
        assert message == {"op": "run", "argv": ["ä"]}
        assert len(fds) == 2
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in fds:
            os.close(fd)
        here.close()
        assert receive(there) == (None, [])


def test_a_message_too_long_for_a_datagram_is_refused_in_words() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there, pytest.raises(ValueError, match="too long"):
        send(here, {"argv": ["x" * 300_000]})


def test_names_of_users_do_not_collide() -> None:
    assert socket_name("a") == f"\0throughline/{os.getuid()}/a".encode()


@pytest.mark.parametrize(
    ("kernel", "tc", "knows"),
    [
        ("6.12.101", "tc utility, iproute2-6.15.0, libbpf 1.5.0", True),
        ("6.6.0-1-amd64", "tc utility, iproute2-6.6.0", True),
        ("6.1.0-28-amd64", "tc utility, iproute2-6.15.0", False),
        ("6.18.44-fc-v595", "tc utility, iproute2-6.1.0, libbpf 1.1.2", False),
    ],
)
def test_seeds_need_kernel_and_iproute2_6_6(kernel: str, tc: str, knows: bool) -> None:
    assert supports_seed(kernel, iproute2_version(tc)) is knows


def test_an_unknown_tc_is_named_as_it_names_itself() -> None:
    assert iproute2_version("tc utility, iproute2-ss200127\n") == "tc utility, iproute2-ss200127"
