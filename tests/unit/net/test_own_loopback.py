"""What the lab's own programs see of real traffic: on a loopback that this test has for itself.

The programs: lab/net/tap_script.py, lab/net/datagram_script.py, lab/net/sockets_script.py, lab/net/count_receiver_script.py,
lab/net/count_sender_script.py, lab/net/bystander_script.py and lab/net/echo_script.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.hosts.host import Network
from lab.model.units import Duration
from lab.net.bystander import bystander
from lab.net.counted import Flow, count
from lab.net.datagrams import DatagramTap
from lab.net.sockets import Sockets
from lab.net.tap import Acked, Content, Mark, Tap, Unread
from tests.support.own_loopback import own_loopback
from tests.support.waiting import PATIENCE_S, until

# Both ends of a connection; prints both ports, and goes on when its first argument, a file, is there.
_TCP = """
import pathlib, socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(server.getsockname())
far, _ = server.accept()
near.sendall(bytes(70_000))
got = 0
while got < 70_000: got += len(far.recv(1 << 16))
far.sendall(bytes(500))
near.recv(500, socket.MSG_WAITALL)
far.sendall(bytes(9_000))
go_on, deadline = pathlib.Path(sys.argv[1]), time.monotonic() + 60
while not go_on.exists() and time.monotonic() < deadline: time.sleep(0.001)
near.recv(9_000, socket.MSG_WAITALL)
print(near.getsockname()[1], server.getsockname()[1])
near.close(); far.close()
"""
_UDP = """
import socket, time
begin = time.monotonic_ns()
a, b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
b.bind(("127.0.0.1", 4433)); a.bind(("127.0.0.1", 0)); c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in (1200, 40, 1): a.sendto(bytes([192]) * size, b.getsockname()); c.sendto(b"other", a.getsockname())
b.sendto(bytes([64]) * 700, a.getsockname())
print(begin, time.monotonic_ns())
"""


@pytest.fixture(name="network", scope="module")
def own_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with own_loopback(tmp_path_factory.mktemp("own")) as network:
        yield network


class Talk(NamedTuple):
    begin_ns: int
    end_ns: int
    port: int
    peer_port: int


def talk(network: Network, seen: Callable[[int, int], object]) -> Talk:
    """Both ends talk. The last bytes stay unread until `seen` says that they were seen, from a time to a time."""
    go_on = Path(str(network.client.workdir), f"go-{time.monotonic_ns()}")
    begin_ns = time.monotonic_ns()
    process = network.client.start([sys.executable, "-c", _TCP, str(go_on)])
    until(lambda: seen(begin_ns, time.monotonic_ns()), "the unread bytes are seen")
    go_on.touch()
    done = process.wait(PATIENCE_S)
    assert done.returncode == 0, done.error_text
    return Talk(begin_ns, time.monotonic_ns(), *map(int, done.text.split()))


def waits(event: object) -> bool:
    return isinstance(event, Unread) and event.bytes >= 9_000


def test_a_tap_sees_all_content_of_both_ways_and_what_waits(network: Network) -> None:
    with Tap(network, network.client) as tap:
        done = talk(network, lambda begin, now: any(waits(event) for event in tap.between(begin, now)))
        events = tap.between(done.begin_ns, done.end_ns)
    opened, *ends = [event for event in events if isinstance(event, Mark)]
    assert (opened.connection, opened.opened, opened.port, opened.peer_port) == (0, True, done.port, done.peer_port)
    assert len(ends) >= 1
    assert not any(end.opened for end in ends)
    for from_opener, size in ((True, 70_000), (False, 9_500)):
        positions = [each.position for each in events if isinstance(each, Content) and each.from_opener == from_opener]
        assert positions == sorted(positions)
        assert positions[-1] == size
    assert max(event.bytes for event in events if isinstance(event, Unread)) >= 9_000
    assert not any(isinstance(event, Acked) for event in events)
    times = [event.t_ns for event in events]
    assert done.begin_ns <= min(times) <= max(times) <= done.end_ns


def test_a_tap_prints_acknowledgements_where_they_are_asked_for(network: Network) -> None:
    with Tap(network, network.client, acks=True) as tap:
        done = talk(network, lambda begin, now: any(waits(event) for event in tap.between(begin, now)))
        events = tap.between(done.begin_ns, done.end_ns)
    for from_opener, size in ((True, 70_000), (False, 9_500)):
        acked = [each.position for each in events if isinstance(each, Acked) and each.from_opener == from_opener]
        assert acked == sorted(set(acked))
        assert acked[-1] == size


def test_a_hosts_connections_are_looked_at_while_they_last(network: Network) -> None:
    with Sockets(network, network.server) as sockets:
        done = talk(network, lambda begin, now: any(look.unread == 9_000 for look in sockets.between(begin, now)))
        looks = sockets.between(done.begin_ns, done.end_ns)
    near = [look for look in looks if (look.port, look.peer_port) == (done.port, done.peer_port)]
    far = [look for look in looks if (look.port, look.peer_port) == (done.peer_port, done.port)]
    assert max(look.unread for look in near) == 9_000
    assert 70_000 <= max(look.acked for look in near) <= 70_001, "the FIN counts"
    assert max(look.received for look in far) == 70_000
    assert all(look.mss > 0 and look.cwnd > 0 for look in near)


def test_datagrams_of_a_port_are_seen_and_no_others(network: Network) -> None:
    with DatagramTap(network, network.client, 4433) as tap:
        begin_ns, end_ns = map(int, network.client.run([sys.executable, "-c", _UDP]).text.split())
        seen = tap.between(begin_ns, end_ns)
    assert [(each.up, each.bytes, each.first) for each in seen] == [
        (True, 1200, 192),
        (True, 40, 192),
        (True, 1, 192),
        (False, 700, 64),
    ]
    assert begin_ns <= seen[0].t_ns <= seen[-1].t_ns <= end_ns


def test_every_counted_datagram_arrives_in_its_flow(network: Network) -> None:
    flows = [Flow(30, 100_000), Flow(20, ecn=True)]
    first, second = count(network, "up", flows, size=500, drain_s=0.2)
    for found, marks, number in ((first, 0, 30), (second, 2, 20)):
        assert found.missing == []
        assert (found.duplicated, found.corrupted) == (0, 0)
        assert len(found.intact) == number
        assert {each.ecn for each in found.intact} == {marks}
        assert [each.number for each in found.intact] == list(range(number))
        assert all(each.sent_ns <= each.got_ns for each in found.intact)
    assert first.intact[-1].sent_ns - first.intact[0].sent_ns >= 29 * 100_000 - 1_000


def test_a_bystander_hears_each_of_its_echoes(network: Network) -> None:
    with bystander(network, interval=Duration.parse("5 ms")) as running:
        network.clock.sleep(0.1)
    assert len(running.echoes) > 20
    assert all(echo.rtt_ms is not None and echo.rtt_ms > 0 for echo in running.echoes)
    sent = [echo.sent_ns for echo in running.echoes]
    assert sent == sorted(sent)
    middle = sent[len(sent) // 2]
    assert running.between(sent[0], middle) == running.echoes[: len(sent) // 2]
