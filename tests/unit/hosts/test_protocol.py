"""What the lab and its agent say to each other."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.hosts.agent import frames
from lab.hosts.agent.protocol import UnixChannel, socket_name
from lab.hosts.agent.router import iproute2_version
from lab.link.netem import supports_seed


def pair() -> tuple[UnixChannel, UnixChannel]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return UnixChannel(here), UnixChannel(there)


def test_messages_and_descriptors_arrive_together() -> None:
    here, there = pair()
    with here.socket, there.socket, Path(os.devnull).open("rb") as null:
        here.send({"op": "run", "argv": ["ä"]}, (null.fileno(), null.fileno()))
        message, fds = there.receive_fds()
        assert message == {"op": "run", "argv": ["ä"]}
        assert len(fds) == 2
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in fds:
            os.close(fd)
        here.close()
        assert there.receive_fds() == (None, [])


def test_a_message_too_long_for_a_datagram_is_refused() -> None:
    here, there = pair()
    with here.socket, there.socket, pytest.raises(ValueError, match="too long"):
        here.send({"argv": ["x" * 300_000]})


@given(st.lists(st.tuples(st.integers(), st.lists(st.binary(max_size=200), max_size=3)), max_size=8), st.integers(1, 50))
def test_frames_come_out_as_they_went_in_however_they_are_cut(sent: list[tuple[int, list[bytes]]], size: int) -> None:
    stream = b"".join(
        part for word, blobs in sent for part in frames.encode(lambda head: json.dumps(head).encode(), {"word": word}, blobs)
    )
    decoder = frames.Decoder(json.loads)
    found = [frame for start in range(0, len(stream), size) for frame in decoder.feed(stream[start : start + size])]
    assert [(head["word"], blobs) for head, blobs in found] == sent


def test_names_of_users_do_not_collide() -> None:
    assert socket_name("a") == f"\0roughwater/{os.getuid()}/a".encode()


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
