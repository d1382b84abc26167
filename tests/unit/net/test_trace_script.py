"""The openings of a traced link: the message to the kernel, its time, and a kernel that refuses."""

from __future__ import annotations

import signal
import socket
import struct
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lab.net import trace_script
from lab.net.trace_script import Ended, opening
from tests.support.stepping_clock import SteppingClock

HOUR_NS = 3600 * 10**9
BASE_NS = 5_000_000_000


def attributes(text: bytes) -> dict[int, bytes]:
    """Those of a netlink message (linux/netlink.h): size and kind in front, filled up to a multiple of four bytes."""
    found, at = {}, 0
    while at < len(text):
        size, kind = struct.unpack_from("=HH", text, at)
        found[kind] = text[at + 4 : at + size]
        at += size + -size % 4
    assert at == len(text)
    return found


def test_an_opening_changes_the_slot_of_that_netem_and_nothing_else() -> None:
    message = opening(interface=5, handle=0x12, queue=300, bytes_=4542)
    size, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
    assert (size, kind, flags) == (len(message), 36, 1), "RTM_NEWQDISC, a change: neither created nor answered"
    # struct tcmsg: family, interface, handle, parent, info.
    assert struct.unpack_from("=BxxxiIII", message, 16) == (0, 5, 0x12 << 16, 0, 0)
    found = attributes(message[36:])
    assert found[1] == b"netem\0"
    # struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter; then attributes of its own.
    assert struct.unpack_from("=IIIIII", found[2]) == (0, 300, 0, 0, 0, 0)
    # struct tc_netem_slot: least and most delay, packets, bytes, distribution.
    slot = attributes(found[2][24:])
    assert list(slot) == [12]
    assert struct.unpack("=qqiiqq", slot[12]) == (HOUR_NS, HOUR_NS, 0, 4542, 0, 0)


@pytest.mark.parametrize("longer", [1.0, 1.001])
@pytest.mark.parametrize("wait_ns", [9_000_000, 40_000_000, 2_000_000_000])
def test_a_sleep_ends_after_its_time_and_not_long_after(monkeypatch: pytest.MonkeyPatch, longer: float, wait_ns: int) -> None:
    """A sleep that takes 0.1 % longer than asked may not be late by that."""
    clock = SteppingClock(BASE_NS, longer=longer, look_ns=5_000)
    monkeypatch.setattr(trace_script, "time", clock)
    due = BASE_NS + wait_ns
    ended = trace_script.sleep_until(due)
    assert ended == clock.now
    assert due <= ended <= due + 25_000
    assert all(seconds * 1e9 < wait_ns for seconds in clock.sleeps)


def test_what_is_due_is_not_slept_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppingClock(BASE_NS, look_ns=5_000)
    monkeypatch.setattr(trace_script, "time", clock)
    assert trace_script.sleep_until(BASE_NS + 5_000) == BASE_NS + 5_000
    assert clock.sleeps == []


class Kernel:
    """A netlink socket; `answers` come when it is asked whether there are any."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.sent: list[bytes] = []

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def recv(self, size: int, flags: int) -> bytes:
        assert flags == socket.MSG_DONTWAIT
        if not self.answers:
            raise BlockingIOError
        return self.answers.pop(0)[:size]


def error(number: int) -> bytes:
    """struct nlmsgerr: the number is negative."""
    return struct.pack("=IHHII", 36, 2, 0, 0, 0) + struct.pack("=i", -number) + bytes(16)


def test_a_refusal_is_the_kernels_error_number() -> None:
    kernel: Any = Kernel(error(22), struct.pack("=IHHII", 20, 36, 0, 0, 0) + b"\1\0\0\0")
    assert trace_script.refusal(kernel) == 22
    assert trace_script.refusal(kernel) == 0, "another kind of message"
    assert trace_script.refusal(kernel) == 0, "no message"


class Waker:
    """The socket whose packets make the kernel look at a queue."""

    def __init__(self) -> None:
        self.bound: list[object] = []
        self.options: list[tuple[int, ...]] = []
        self.sent: list[bytes] = []
        self.broken = False

    def bind(self, place: object) -> None:
        self.bound.append(place)

    def setsockopt(self, *option: int) -> None:
        self.options.append(option)

    def send(self, packet: bytes) -> None:
        if self.broken:
            raise OSError
        self.sent.append(packet)


def test_a_gate_tells_the_kernel_and_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel: Any = Kernel()
    waker = Waker()
    monkeypatch.setattr(socket, "socket", lambda *_: waker)
    monkeypatch.setattr(socket, "if_nametoindex", {"to-client": 5}.__getitem__)
    gate = trace_script.Gate(kernel, "to-client", "18", "300")
    assert waker.bound == [("to-client", 0)]
    assert waker.options == [(socket.SOL_SOCKET, socket.SO_PRIORITY, 15)], "the priority that the root qdisc drops"
    for size in (1500, 3000, 1500):
        gate.open(size)
    assert kernel.sent == [opening(5, 18, 300, size) for size in (1500, 3000, 1500)]
    assert waker.sent == [bytes(60)] * 3, "the shortest Ethernet frame"
    waker.broken = True
    gate.open(1500)
    assert len(kernel.sent) == 4, "a queue that is full of packets looks at itself"


class Gate:
    """Notes its openings; after the given number of them the lab ends the trace."""

    opened: ClassVar[list[tuple[int, str, int]]] = []
    most = 0
    clock: SteppingClock

    def __init__(self, kernel: Kernel, interface: str, handle: str, queue: str) -> None:
        assert (handle, queue) == ("18", "300")
        self.interface = interface
        self.kernel = kernel

    def open(self, bytes_: int) -> None:
        self.opened.append((self.clock.now, self.interface, bytes_))
        if len(self.opened) == self.most:
            raise Ended


@pytest.fixture(name="kernel")
def world(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The script's clock, kernel and gates are those of this file."""
    kernel = Kernel()
    Gate.clock, Gate.opened, Gate.most = SteppingClock(BASE_NS, look_ns=5_000), [], 10**9
    monkeypatch.setattr(trace_script, "time", Gate.clock)
    monkeypatch.setattr(trace_script, "Gate", Gate)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    made: Any = kernel
    made.bind = lambda _: None
    monkeypatch.setattr(socket, "socket", lambda *_: made)
    return kernel


def trace(folder: Path, *rows: tuple[int, int, int]) -> str:
    path = folder / "trace"
    path.write_text("to-server 18 300\nto-client 18 300\n\n" + "".join(f"{at} {way} {size}\n" for at, way, size in rows))
    return str(path)


@pytest.mark.usefixtures("kernel")
def test_openings_come_when_they_are_due_and_again_after_the_period(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Gate.most = 7
    path = trace(tmp_path, (1_000_000, 0, 1500), (3_000_000, 1, 3000), (4_000_000, 0, 1500))
    assert trace_script.main(path, str(BASE_NS), "10000000") == 0
    late = []
    expected = [(1, "to-server", 1500), (3, "to-client", 3000), (4, "to-server", 1500)]
    for number, (at, interface, size) in enumerate(Gate.opened):
        due_ms, *which = expected[number % 3]
        assert (interface, size) == tuple(which)
        late.append(at - BASE_NS - due_ms * 1_000_000 - number // 3 * 10_000_000)
    assert 0 <= min(late) <= max(late) <= 10_000
    assert int(capsys.readouterr().out) == max(late), "the latest of all"


def test_a_kernel_that_refuses_ends_the_trace(kernel: Kernel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel.answers = [error(22)]
    assert trace_script.main(trace(tmp_path, (0, 0, 1500), (1, 0, 1500)), str(BASE_NS), "10") == 1
    assert len(Gate.opened) == 1, "after the first opening at once"
    assert "error 22" in capsys.readouterr().err


def test_the_kernel_is_asked_again_now_and_then_and_at_the_end(kernel: Kernel, tmp_path: Path) -> None:
    path = trace(tmp_path, *((number, 0, 1500) for number in range(1200)))
    asked: list[int] = []
    made: Any = kernel

    def recv(size: int, flags: int) -> bytes:
        del size, flags
        asked.append(len(Gate.opened))
        raise BlockingIOError

    made.recv = recv
    Gate.most = 1_201
    assert trace_script.main(path, str(BASE_NS), "1200") == 0
    assert asked == [1, 501, 1001, 1201]


def test_a_refusal_at_the_end_counts(kernel: Kernel, tmp_path: Path) -> None:
    Gate.most = 1
    kernel.answers = [error(19)]
    assert trace_script.main(trace(tmp_path, (0, 0, 1500)), str(BASE_NS), "10") == 1
