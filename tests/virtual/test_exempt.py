"""The lab's own work in a machine takes no virtual time: a client is the same whatever the lab's Python does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.virtual.network import VirtualNetwork, open_network
from lab.model.link import Link
from lab.net.shape import shape

_LINK = Link.model_validate({"rate": "20 Mbit/s", "rtt": "20 ms", "jitter": "1 ms"})
# Calls that succeed, that fail, readings of the clock and page faults. No processes: each draws random numbers, as jitter does.
_WORK = """
import os, sys, time
def work(turns):
    begin = time.monotonic_ns()
    for number in range(turns):
        os.getppid()
        os.path.exists("/nowhere")
        time.time()
    bytearray(turns << 14)
    return time.monotonic_ns() - begin
"""
_ONCE = f"{_WORK}print(work(100))"
# Every 3 ms, whatever the work is: a timer of one program may end the wait of another a little sooner (prctl(2), timer slack).
_BUSY = f"""{_WORK}
while True:
    now = time.monotonic_ns()
    time.sleep((3_000_000 - now % 3_000_000) / 1e9)
    work(int(sys.argv[1]))
"""
_CLIENT = 'ping -n -i 0.01 -c 30 "$1"; date +%N; sed 1q /proc/net/dev; ls /etc | wc -l; date +%N'


@contextmanager
def machine() -> Iterator[VirtualNetwork]:
    network = open_network(seed=3)
    try:
        shape(network, _LINK)
        yield network
    finally:
        network.close()


@pytest.mark.parametrize("root", [True, False], ids=["the lab", "a client"])
def test_only_the_labs_own_work_is_free(network: VirtualNetwork, *, root: bool) -> None:
    took_ns = int(network.client.run(["python3", "-I", "-c", _ONCE], root=root).text)
    assert took_ns == 0 if root else took_ns > 100_000


def said_by_a_client(*, turns: int, root: bool) -> str:
    """The output of a client next to that work on its host and on the router."""
    with machine() as network:
        busy = [host.start(["python3", "-I", "-c", _BUSY, f"{turns}"], root=root) for host in (network.client, network.router)]
        network.vary(7)
        words = ["/bin/sh", "-c", _CLIENT, "client", network.server.address]
        said = network.client.run(words, env={SAMPLE_VARIABLE: "test"}).text
        assert all(process.running() for process in busy)
    assert said.count("time=") == 30
    return said


def test_a_client_is_the_same_next_to_more_work_of_the_labs() -> None:
    assert said_by_a_client(turns=1, root=True) == said_by_a_client(turns=100, root=True)


def test_a_client_is_not_the_same_next_to_more_work_of_a_users() -> None:
    assert said_by_a_client(turns=1, root=False) != said_by_a_client(turns=100, root=False)
