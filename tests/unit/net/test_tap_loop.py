"""How the tap waits for its next look, and what it says where it was woken late."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.net import tap_script
from lab.net.tap import Woken, parse_line
from tests.support.stepping_clock import SteppingClock

MS = 1_000_000


class World:
    """Looks are due at the given instants; `late_ns` is by how much the machine oversleeps, `woken_ms` when a packet comes."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *dues_ms: float, late_ns: int = 0, woken_ms: float | None = None, poll_ns: int = 0
    ) -> None:
        self.clock = SteppingClock(0, offset_ns=5)
        self.dues_ns = [round(each * MS) for each in dues_ms]
        self.late_ns, self.woken_ms, self.poll_ns = late_ns, woken_ms, poll_ns
        self.polls: list[int] = []
        self.looks: list[tuple[int, int]] = []
        self.written: list[bytes] = []
        self.tap: Any = None
        self.listened: list[object] = []
        monkeypatch.setattr(tap_script, "time", self.clock)
        monkeypatch.setattr(self.clock, "sleep", self.sleep, raising=False)
        monkeypatch.setattr(tap_script, "listen", self.listen)
        monkeypatch.setattr(tap_script, "Looks", self.look)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(
            os, "write", lambda number, text: self.written.append(text) if number == 1 else pytest.fail("not stdout")
        )
        monkeypatch.setattr(select, "poll", lambda: self)

    def register(self, sock: str, what: int) -> None:
        assert (sock, what) == ("socket", select.POLLIN)

    def listen(self, port: str, *, acks: bool) -> tuple[str, str]:
        self.listened = [port, acks]
        return "socket", "ring"

    def look(self, tap: Any, ring: str, tables: list[int], now: int) -> World:
        assert (ring, now) == ("ring", 0)
        assert [Path(f"/proc/self/fd/{table}").readlink().name for table in tables] in (["tcp"], ["tcp", "tcp6"])
        for table in tables:
            os.close(table)
        self.tap = tap
        tap.open = {0}
        return self

    @property
    def due(self) -> int:
        if not self.dues_ns:
            raise KeyboardInterrupt
        return self.dues_ns[0]

    def at(self, now: int, offset_ns: int) -> bytes:
        assert offset_ns == 5
        self.dues_ns.pop(0)
        self.looks.append((len(self.polls), now))
        text = b"".join(self.tap.lines)
        self.tap.lines.clear()
        return text

    def poll(self, wait_ms: int) -> list[object]:
        self.polls.append(wait_ms)
        if self.woken_ms is not None and wait_ms > self.woken_ms:
            self.clock.now += round(self.woken_ms * MS)
            self.woken_ms = None
            return ["a packet"]
        self.clock.now += wait_ms * MS + (self.late_ns if wait_ms else self.poll_ns)
        return []

    def sleep(self, seconds: float) -> None:
        self.clock.now += round(seconds * 1e9) + self.late_ns

    def run(self, *options: str, port: str = "eth0") -> list[object]:
        """The lines after the first."""
        with pytest.raises(KeyboardInterrupt):
            tap_script.main(port, *options)
        assert self.written[0] == f"roughwater-tap 1 {port}\n".encode()
        return [parse_line(line) for text in self.written[1:] for line in text.splitlines()]


def test_a_look_comes_when_it_is_due_and_a_packet_brings_it_no_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 10.5, 20.25, woken_ms=3)
    assert world.run() == []
    assert [now / MS for _, now in world.looks] == [10, 10.5, 20.5], "a poll is of full milliseconds"
    # The first is waited for in one piece, and slept for after the packet; a near one is slept for at once.
    assert world.polls == [10, 0, 10]


def test_what_was_overslept_is_printed_from_50_microseconds_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert World(monkeypatch, 10, late_ns=49_999).run() == []
    assert World(monkeypatch, 10, late_ns=50_000).run() == [Woken(10 * MS + 50_000, 50_000)]
    assert World(monkeypatch, 1, late_ns=70_000).run() == [Woken(1 * MS + 70_000, 70_000)], "a sleep, not a poll"
    closed = World(monkeypatch, 10, late_ns=90_000)
    found = closed.look
    monkeypatch.setattr(tap_script, "Looks", lambda *words: _closed(found(*words)))
    assert closed.run() == [], "no connection is open"


def _closed(world: World) -> World:
    world.tap.open = set()
    return world


def test_a_look_without_a_wait_is_not_an_awakening(monkeypatch: pytest.MonkeyPatch) -> None:
    assert World(monkeypatch, 1, poll_ns=60_000).run() == []


def test_a_packet_that_comes_early_is_not_a_late_awakening(monkeypatch: pytest.MonkeyPatch) -> None:
    assert World(monkeypatch, 10, woken_ms=9.99).run() == []


def test_a_look_that_is_due_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 10, 9, 8)
    world.run()
    assert [now / MS for _, now in world.looks] == [10, 10, 10]
    assert world.polls == [10, 0, 0]


@pytest.mark.parametrize("port", ["lo", "eth0"])
@pytest.mark.parametrize("acks", [False, True])
def test_the_tap_knows_its_port_and_whether_acknowledgements_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, port: str, acks: bool
) -> None:
    world = World(monkeypatch)
    world.run(*(["acks"] if acks else []), port=port)
    assert world.listened == [port, acks]
    assert world.tap.loopback == (port == "lo")
    assert world.tap.acknowledged == ({} if acks else None)
