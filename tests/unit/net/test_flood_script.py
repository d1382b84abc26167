"""A flood that keeps a link full: as many frames as the rate asks for by now, no more."""

from __future__ import annotations

import signal
import socket
from typing import Any

import pytest

from lab.net import flood_script
from tests.support.stepping_clock import SteppingClock


class Sender:
    """Notes what is sent; after the given number of packets the lab ends it."""

    def __init__(self, clock: SteppingClock, most: int) -> None:
        self.clock, self.most = clock, most
        self.sent: list[tuple[int, int]] = []

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def sendto(self, payload: bytes, to: tuple[str, int]) -> None:
        assert to == ("10.0.0.1", 9)
        self.sent.append((self.clock.now, len(payload)))
        if len(self.sent) == self.most:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("bit_s", "mtu"), [(12_112_000, 1500), (100_000_000, 1500), (1_000_000, 576)])
def test_a_millisecond_brings_as_many_frames_as_the_rate_asks_for(monkeypatch: pytest.MonkeyPatch, bit_s: int, mtu: int) -> None:
    clock = SteppingClock(7_000_000_000)
    sender: Any = Sender(clock, 500)
    monkeypatch.setattr(flood_script, "time", clock)
    monkeypatch.setattr(socket, "socket", lambda *_: sender)
    with pytest.raises(KeyboardInterrupt):
        flood_script.flood("10.0.0.1", bit_s, mtu)
    assert {size for _, size in sender.sent} == {mtu - 28}, "IP and UDP have headers"
    assert set(clock.sleeps) == {0.001}
    frame_ns = (mtu + 14) * 8e9 / bit_s
    for number, (at, _) in enumerate(sender.sent):
        # A frame is due when those before it have passed, and goes out with the next millisecond.
        late = at - 7_000_000_000 - number * frame_ns
        assert -1 <= late < 1_000_000


def test_the_port_of_the_flood_is_held_and_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[object, ...]] = []

    class Receiver(Sender):
        def setsockopt(self, *option: object) -> None:
            held.append(option)

        def bind(self, place: tuple[str, int]) -> None:
            held.append(place)

    receiver = Receiver(SteppingClock(), 0)
    monkeypatch.setattr(socket, "socket", lambda *_: receiver)
    monkeypatch.setattr(signal, "pause", lambda: held.append(("paused",)))
    flood_script.take()
    assert held == [(socket.SOL_SOCKET, socket.SO_RCVBUF, 0), ("", 9), ("paused",)]
