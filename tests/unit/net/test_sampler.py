"""The sampler of port counters: what it reads of the kernel's table, and when it reads it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.net import sampler
from tests.support.stepping_clock import SteppingClock

MS = 1_000_000
HEADS = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
)


def table(**ports: int) -> bytes:
    """/proc/net/dev, in which a port's sixteen numbers follow the given one."""
    rows = (f"{name:>6}: {' '.join(str(number + place) for place in range(16))}\n" for name, number in ports.items())
    return (HEADS + "".join(rows)).encode()


def test_a_ports_numbers_are_bytes_and_packets_of_both_ways() -> None:
    text = table(lo=100, eth1=200, eth10=300)
    assert sampler.counters(text, b"eth1") == [b"200", b"201", b"208", b"209"]
    assert sampler.counters(text, b"eth10") == [b"300", b"301", b"308", b"309"]
    assert sampler.counters(text, b"eth") == []
    assert sampler.reading(7, text, [b"lo", b"eth1"]) == b"7 100 101 108 109 200 201 208 209\n"
    assert sampler.reading(7, text, [b"lo", b"eth2"]) == b"", "a port has gone"


@pytest.mark.parametrize(("sizes", "read"), [([3839, 9], 3839), ([3840, 9], 3849), ([4096, 4096, 100], 8292), ([0, 9], 0)])
def test_a_table_of_several_pages_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, sizes: list[int], read: int) -> None:
    left, asked = list(sizes), []

    def preadv(_: int, into: list[memoryview], at: int) -> int:
        asked.append(at)
        size = left.pop(0)
        into[0][:size] = bytes([len(asked)]) * size
        return size

    monkeypatch.setattr(os, "preadv", preadv)
    found = sampler.read_table(0, bytearray(1 << 16))
    assert len(found) == read
    assert asked == [sum(sizes[:index]) for index in range(len(asked))]
    assert found == b"".join(bytes([number]) * size for number, size in enumerate(sizes[: len(asked)], 1))


class Kernel:
    """The table, whose reading takes as long as `costs` says, and what the sampler writes. Without a cost the port has gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: SteppingClock, costs_ms: list[float]) -> None:
        self.clock, self.costs_ms = clock, list(costs_ms)
        self.written: list[bytes] = []
        monkeypatch.setattr(sampler, "time", clock)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(sampler, "read_table", self.read)
        monkeypatch.setattr(os, "write", self.write)

    def open(self, path: str, flags: int) -> int:
        assert (path, flags) == ("/proc/self/net/dev", os.O_RDONLY)
        return 99

    def read(self, number: int, room: bytearray) -> bytes:
        assert (number, len(room)) == (99, 1 << 16)
        if not self.costs_ms:
            return table(lo=1)
        self.clock.now += round(self.costs_ms.pop(0) * MS)
        return table(eth0=100, eth1=200)

    def write(self, number: int, text: bytes) -> int:
        assert number == 1
        self.written.append(text)
        return len(text)


def test_readings_keep_to_the_grid_of_the_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A late reading neither moves those that follow nor is made up for by a burst."""
    clock = SteppingClock(5_000 * MS)
    kernel: Any = Kernel(monkeypatch, clock, [0.5, 1, 12, 0, 10, 0, 45, 1])
    assert sampler.main("eth0", "eth1", "10") == 1
    assert "interface eth0 or eth1 is not here" in capsys.readouterr().err
    head, *rows = kernel.written
    assert head == b"roughwater-ports 1 eth0 eth1 10000000 5000000000\n"
    times = [int(row.split()[0]) - 5_000 * MS for row in rows]
    # Due at 0, 10, 20; that one ends at 32, so that the next is due at 40, and so on.
    assert [each / MS for each in times] == [0.5, 11, 32, 40, 60, 60, 115, 121]
    assert {row.split(b" ", 1)[1] for row in rows} == {b"100 101 108 109 200 201 208 209\n"}


def test_an_interval_may_be_half_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel: Any = Kernel(monkeypatch, SteppingClock(0), [0.1, 0.1])
    sampler.main("eth0", "eth1", "0.5")
    assert kernel.written[0].split()[4:] == [b"500000", b"0"]
    assert [int(row.split()[0]) for row in kernel.written[1:]] == [100_000, 600_000]


def test_sigterm_ends_it_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        sampler.stop(15, None)
    assert ended.value.code == 0
    assert Path(sampler.__file__).name == "sampler.py"
