"""What a competing flow sends, what it notes of what it receives, and when."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.net import flow_script
from tests.support.ports import free_port
from tests.support.stepping_clock import SteppingClock

SECOND = 10**9


@pytest.fixture(name="clock")
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    """The script's clock and its notes, which begin empty."""
    made = SteppingClock(12_345_678)
    monkeypatch.setattr(flow_script, "time", made)
    monkeypatch.setattr(flow_script, "received", type(flow_script.received)())
    monkeypatch.setattr(flow_script, "pages", [])
    return made


@pytest.fixture(name="pair")
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            yield near, far


def everything(source: socket.socket) -> int:
    """Bytes until the other side has ended."""
    total = 0
    while data := source.recv(1 << 16):
        total += len(data)
    return total


@pytest.mark.parametrize("count", [1, 65_535, 65_536, 65_537, 200_000])
def test_exactly_the_bytes_that_are_asked_for_are_sent(pair: tuple[socket.socket, socket.socket], count: int) -> None:
    near, far = pair
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.append(everything(far)))
    reader.start()
    flow_script.send(near, count, "reno")
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"reno"
    near.close()
    reader.join(10)
    assert got == [count]


def test_a_bulk_flow_sends_for_as_long_as_it_is_taken(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    failed: list[type[BaseException]] = []

    def send() -> None:
        try:
            flow_script.send(near, 0, "reno")
        except OSError as error:
            failed.append(type(error))

    sender = threading.Thread(target=send)
    sender.start()
    taken = 0
    while taken < 1_000_000:
        taken += len(far.recv(1 << 16))
    far.close()
    sender.join(10)
    assert failed, "it ends with its receiver, and only then"


def test_what_is_received_is_noted_by_tenths_of_a_second(clock: SteppingClock, pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    for now, count in ((0, 5), (99_999_999, 7), (100_000_000, 11), (3 * SECOND + 1, 13)):
        clock.now = now
        flow_script.note(count)
    assert dict(flow_script.received) == {0: 12, SECOND // 10: 11, 3 * SECOND: 13}
    clock.now = 5 * SECOND
    near.sendall(bytes(1000))
    near.shutdown(socket.SHUT_WR)
    assert flow_script.take(far) == 1000
    assert flow_script.received[5 * SECOND] == 1000


class Datagrams:
    """Notes what is sent; the given number of datagrams ends it."""

    def __init__(self, clock: SteppingClock, most: int, cost_ns: int = 0) -> None:
        self.clock, self.most, self.cost_ns = clock, most, cost_ns
        self.sent: list[tuple[int, int, object]] = []

    def sendto(self, content: bytes, to: object) -> None:
        self.sent.append((self.clock.now, len(content), to))
        self.clock.now += self.cost_ns
        if len(self.sent) == self.most:
            raise flow_script.Ended


def constant(clock: SteppingClock, byte_s: int, most: int, cost_ns: int = 0) -> Datagrams:
    own: Any = Datagrams(clock, most, cost_ns)
    with pytest.raises(flow_script.Ended):
        flow_script.cbr(own, ("10.0.0.1", 9), byte_s)
    made: Datagrams = own
    return made


@pytest.mark.parametrize(("byte_s", "between_ns"), [(1200, SECOND), (1_200_000, 1_000_000), (7_000, SECOND * 1200 // 7000)])
def test_a_constant_rate_is_datagrams_at_equal_distances(clock: SteppingClock, byte_s: int, between_ns: int) -> None:
    own = constant(clock, byte_s, 20)
    assert {(size, to) for _, size, to in own.sent} == {(1200, ("10.0.0.1", 9))}
    times = [at for at, _, _ in own.sent]
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([between_ns] * 19, abs=2)


def test_a_sender_that_was_late_makes_up_for_it(clock: SteppingClock) -> None:
    """Each datagram takes three intervals to send: none is waited for."""
    own = constant(clock, 1_200_000, 5, cost_ns=3_000_000)
    assert clock.sleeps == []
    assert len(own.sent) == 5


def answered(pair: tuple[socket.socket, socket.socket], request: bytes) -> int:
    """Bytes of the answer to a request."""
    near, far = pair
    answering = threading.Thread(target=flow_script.answer, args=(far,))
    answering.start()
    near.sendall(request)
    near.shutdown(socket.SHUT_WR)
    got = everything(near)
    answering.join(10)
    assert not answering.is_alive()
    return got


@pytest.mark.parametrize(("request_", "size"), [(b"get 70000 reno\n", 70_000), (b"get 1 reno\n", 1), (b"\n", 0), (b"", 0)])
def test_a_server_sends_what_is_asked_for(pair: tuple[socket.socket, socket.socket], request_: bytes, size: int) -> None:
    assert answered(pair, request_) == size


def test_a_server_takes_an_upload(clock: SteppingClock, pair: tuple[socket.socket, socket.socket]) -> None:
    assert answered(pair, b"put\n" + bytes(5000)) == 0
    assert sum(flow_script.received.values()) == 5000, "without the request"
    assert clock.sleeps == []


def test_pages_are_three_objects_each_and_pauses_between_them(clock: SteppingClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and pauses are those of the seed."""
    asked: list[int] = []

    class Connection:
        def __enter__(self) -> Connection:
            clock.now += 40_000_000
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def sendall(self, request: bytes) -> None:
            word, size, control = request.decode().split()
            assert (word, control, request[-1:]) == ("get", "cubic", b"\n")
            asked.append(int(size))

    def connect(place: tuple[str, int]) -> Connection:
        assert place == ("10.0.0.1", 4748)
        if len(asked) == 9:
            raise flow_script.Ended
        return Connection()

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(flow_script, "take", lambda _: 0)
    begin = clock.now
    with pytest.raises(flow_script.Ended):
        flow_script.web("10.0.0.1", "4748", "7")
    chance = random.Random(7)
    expected: list[int] = []
    pauses: list[float] = []
    for _ in range(3):
        expected += [chance.randint(2_000, 60_000) for _ in range(3)]
        pauses.append(chance.uniform(0.2, 1.8))
    assert asked == expected
    assert clock.sleeps == pauses
    assert [seconds for _, seconds in flow_script.pages] == pytest.approx([0.12] * 3)
    assert [at for at, _ in flow_script.pages] == pytest.approx(
        [begin + 120_000_000 * page + round(sum(pauses[:page]) * SECOND) for page in range(3)], abs=2
    )


class Started:
    """The script as a program; `end` is what it says after SIGTERM."""

    def __init__(self, *words: str) -> None:
        program = [sys.executable, "-I", "-S", str(Path(flow_script.__file__)), *words]
        self.process = subprocess.Popen(program, stdout=subprocess.PIPE)
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> dict[str, list[list[float]]]:
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        found: dict[str, list[list[float]]] = json.loads(said)
        return found


def total(found: dict[str, list[list[float]]]) -> float:
    return sum(count for _, count in found["received"])


def may_choose(control: str) -> bool:
    """True if this user may choose that congestion control. The lab's own flows run as root of a network namespace."""
    with socket.socket() as made:
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        except PermissionError:
            return False
    return True


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("bulk", ["up", "reno"]),
        ("bulk", ["down", "reno"]),
        ("cbr", ["up", "5000000"]),
        ("cbr", ["down", "5000000"]),
        ("web", ["3"]),
    ],
)
def talked(port: str, requests: int, role: str, words: list[str]) -> tuple[dict[str, list[list[float]]], ...]:
    """What the client and the server of a flow say. It goes on while the server answers that many other requests."""
    far = Started("serve", port)
    near = Started(role, "127.0.0.1", port, *words)
    for _ in range(requests):
        with socket.create_connection(("127.0.0.1", int(port))) as own:
            own.sendall(b"get 60000 reno\n")
            everything(own)
    return near.end(), far.end()


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("bulk", ["up", "reno"]),
        ("bulk", ["down", "reno"]),
        ("cbr", ["up", "5000000"]),
        ("cbr", ["down", "5000000"]),
        ("web", ["3"]),
    ],
)
def test_programs_on_both_ends_move_content_until_they_are_ended(role: str, words: list[str]) -> None:
    if role == "web" and not may_choose("cubic"):
        pytest.skip("this machine lets only root choose cubic (net.ipv4.tcp_allowed_congestion_control)")
    # A busy machine may let the flow wait for a long time.
    for requests in (100, 1_000, 10_000):
        near, far = talked(str(free_port()), requests, role, words)
        receiver, other = (far, near) if "up" in words else (near, far)
        if total(receiver) and bool(near["pages"]) == (role == "web"):
            break
    assert total(receiver) > 0
    assert total(other) == 0
    assert bool(near["pages"]) == (role == "web")
    assert far["pages"] == []
    slots = [at for at, _ in receiver["received"]]
    assert slots == sorted(set(slots))
    assert all(at % flow_script.SLOT_NS == 0 for at in slots)
