"""Random numbers from a client's start follow from the sample's seed alone, whatever the machine drew or sent before."""

from __future__ import annotations

import re

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.link import Link
from lab.net.shape import shape

_LOSSY = Link.model_validate({"rate": "20 Mbit/s", "rtt": "20 ms", "loss": "30 %", "jitter": "2 ms"})


def drawn(network: VirtualNetwork, *, before: int) -> tuple[str, list[str]]:
    """A client's random bytes, and its answered pings with their times, after `before` programs and pings of the lab's."""
    network.vary(7)
    for _ in range(before):
        network.router.run(["head", "-c", "100", "/dev/urandom"], root=True)
        network.client.run(["ping", "-n", "-q", "-c", "1", "-W", "0.2", network.server.address], check=False)
    script = f"od -An -tx1 -N16 /dev/urandom; ping -n -i 0.01 -c 40 {network.server.address}"
    said = network.client.run(["/bin/sh", "-c", script], env={SAMPLE_VARIABLE: "test"}, check=False).text
    number, _, rest = said.partition("\n")
    return number, re.findall(r"icmp_seq=\d+ .*time=[\d.]+", rest)


_CONNECT = """
import socket, sys, time
begun = time.monotonic_ns() % 1_000_000_000
with socket.socket() as asking:
    asking.setblocking(False)
    asking.connect_ex((sys.argv[1], 9))
    print(begun, asking.getsockname()[1])
"""


def connected(*, before: int) -> str:
    """The nanosecond at which a client begins on a machine of its own, and its port, after programs and a connection."""
    network = open_network(seed=3)
    try:
        words = ["python3", "-I", "-c", _CONNECT, network.server.address]
        for _ in range(before):
            network.client.run(["head", "-c", "100", "/dev/urandom"])
        network.client.run(words, root=True)
        network.vary(7)
        return network.client.run(words, env={SAMPLE_VARIABLE: "test"}).text
    finally:
        network.close()


def test_a_first_connection_leaves_no_trace_of_the_programs_before_it() -> None:
    assert len({connected(before=number) for number in (0, 1, 2, 5)}) == 1


_NUMBERS = "echo $$; sh -c 'echo $$; exit 0'; od -An -tx8 -N8 /dev/urandom; date +%N"


def numbered(*, before: int) -> list[str]:
    """Two servers and a client on a machine of their own, after programs of the lab's: each with its process number, that of its
    child, a random number, and the nanosecond at its end.
    """
    network = open_network(seed=3)
    said = []
    try:
        for host in (network.server, network.server, network.client):
            for _ in range(before):
                network.router.run(["head", "-c", "100", "/dev/urandom"], root=True)
                network.client.run(["sleep", "0.01"])
            if host is network.server:
                said.append(host.start(["/bin/sh", "-c", _NUMBERS]).wait(1.0).text)
            else:
                said.append(host.run(["/bin/sh", "-c", _NUMBERS], env={SAMPLE_VARIABLE: "test"}).text)
    finally:
        network.close()
    return said


def test_neither_servers_nor_clients_follow_from_the_programs_before() -> None:
    first, again = numbered(before=0), numbered(before=3)
    assert first == again
    assert len({number for each in first for number in each.split()[:3]}) == 9


def test_neither_programs_nor_packets_before_a_client_change_its_numbers() -> None:
    network = open_network(seed=3)
    try:
        shape(network, _LOSSY)
        first, again = drawn(network, before=1), drawn(network, before=5)
        assert 0 < len(first[1]) < 40
        assert first == again
    finally:
        network.close()


def test_the_next_client_of_a_sample_draws_others() -> None:
    network = open_network(seed=3)
    try:
        network.vary(7)
        said = [
            network.client.run(["od", "-An", "-tx1", "-N16", "/dev/urandom"], env={SAMPLE_VARIABLE: "test"}).text
            for _ in range(2)
        ]
        assert said[0] != said[1]
    finally:
        network.close()
