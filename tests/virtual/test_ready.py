"""A machine that was forked from a ready one is what a machine of its own would be, and others do not touch it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Hashable, Iterator

import pytest

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.virtual import network as networks
from lab.hosts.virtual import processes, ready
from lab.hosts.virtual.machine import Boot, Machine, Patience
from lab.hosts.virtual.network import VirtualNetwork, Wired, open_network
from lab.model.errors import LabFault
from lab.model.link import Link
from lab.model.wiring import Wiring
from lab.net.shape import shape
from tests.support.waiting import until

_LINK = Link.model_validate({"rate": "20 Mbit/s", "rtt": "20 ms", "loss": "10 %", "jitter": "2 ms"})
_CLIENT = 'od -An -tx1 -N16 /dev/urandom; ping -n -i 0.01 -c 30 "$1"; date +%s.%N; cat /proc/uptime; ps -e -o pid,comm; ip link'


@pytest.fixture(autouse=True)
def _none_before() -> Iterator[None]:
    ready.close_all()
    yield
    ready.close_all()


def _boot_alone(_: Hashable, boot: Boot, wire: Callable[[Machine], Wired], patience: Patience | None) -> tuple[Machine, Wired]:
    machine = Machine.start(boot, patience=patience)
    return machine, wire(machine)


def said(network: VirtualNetwork) -> str:
    shape(network, _LINK)
    network.vary(7)
    words = ["/bin/sh", "-c", _CLIENT, "client", network.server.address]
    return network.client.run(words, env={SAMPLE_VARIABLE: "test"}).text


def said_by_a_new_one(*, same_host: bool = False) -> str:
    network = open_network(seed=3, wiring=Wiring(same_host=same_host))
    try:
        if same_host:
            return network.client.run(["/bin/sh", "-c", _CLIENT, "client", "127.0.0.1"], env={SAMPLE_VARIABLE: "test"}).text
        return said(network)
    finally:
        network.close()


@pytest.mark.parametrize("same_host", [False, True], ids=["two hosts", "one host"])
def test_a_fork_is_what_a_machine_of_its_own_would_be(monkeypatch: pytest.MonkeyPatch, *, same_host: bool) -> None:
    forked = [said_by_a_new_one(same_host=same_host) for _ in range(3)]
    monkeypatch.setattr(networks.ready, "take", _boot_alone)
    alone = said_by_a_new_one(same_host=same_host)
    assert "time=" in alone
    assert forked == [alone] * 3


def test_forks_of_one_machine_do_not_see_each_other() -> None:
    one, other = open_network(seed=3), open_network(seed=3)
    try:
        one.client.write("/run/lab/client/only-here", b"one")
        one.client.start(["sleep", "1000"])
        assert other.client.run(["ls", "/run/lab/client"]).text == ""
        assert "sleep" not in other.client.run(["ps", "-e"]).text
        assert one.client.read("/run/lab/client/only-here") == b"one"
        one.close()
        assert other.client.run(["echo", "here"]).text == "here\n"
    finally:
        one.close()
        other.close()


def test_the_ready_machine_answers_for_each_seed() -> None:
    numbers = []
    for seed in (3, 4, 3):
        network = open_network(seed=seed)
        try:
            numbers.append(network.client.run(["od", "-An", "-tx1", "-N16", "/dev/urandom"]).text)
        finally:
            network.close()
    assert numbers[0] == numbers[2] != numbers[1]


def test_a_ready_machine_that_is_gone_is_replaced() -> None:
    others = processes.children(os.getpid())
    open_network(seed=3).close()
    (standing,) = {*processes.children(os.getpid())} - {*others}
    os.kill(standing, signal.SIGKILL)
    with pytest.raises(LabFault, match="could not be forked"):
        open_network(seed=3)
    open_network(seed=3).close()


def test_nothing_is_left_when_they_are_closed() -> None:
    others = processes.children(os.getpid())
    made = [open_network(seed=3) for _ in range(2)]
    pids = [network.machine.process.pid for network in made]
    inside = [child for pid in pids for child in processes.children(pid)]
    assert len(inside) == 2
    made[0].close()
    ready.close_all()
    made[1].close()
    assert processes.children(os.getpid()) == others
    until(lambda: not any(processes.state(pid) not in ("", "Z") for pid in (*pids, *inside)), "all of them have ended", 5)
