"""Lines of a script as they come: complete ones, once, waited for as long as they may take."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from lab.model.errors import LabFault
from lab.net.datagrams import DatagramTap
from lab.net.ports import PortSampler
from lab.net.printed import PrintedLines, Recording
from lab.net.sockets import Sockets
from lab.net.tap import Tap
from tests.support.noted_hosts import NotedNetwork

SCRIPT = Path("lab/net/echo_script.py").resolve()


class Event(NamedTuple):
    t_ns: int


class Printing(NotedNetwork):
    """Each look at the script's output appends the next text."""

    def __init__(self, *texts: bytes, ended: bool = False) -> None:
        super().__init__()
        self.texts, self.is_ended = list(texts), ended
        self.stopped = 0
        self.host: Any = SimpleNamespace(name="host", tap_port="eth0", program=lambda name: name, start=self.start)

    def start(self, argv: list[str], *, root: bool, stdout: Path) -> Any:
        assert root
        self.argv, self.stdout = argv, stdout
        return self

    def sync(self) -> None:
        with self.stdout.open("ab") as file:
            file.write(self.texts.pop(0) if self.texts else b"")

    def running(self) -> bool:
        return bool(self.texts) or not self.is_ended

    def wait(self, timeout_s: float) -> Any:
        del timeout_s
        return SimpleNamespace(error_text="no such interface")

    def stop(self) -> None:
        self.stopped += 1


def lines(network: Any) -> PrintedLines:
    made = PrintedLines("the echoes", network.clock)
    made.start(network.host, SCRIPT, "7")
    return made


def test_only_complete_lines_are_read_and_each_once() -> None:
    network = Printing(b"one\ntw", b"o\nthree\n", b"", b"four")
    printed = lines(network)
    assert network.argv[-1] == "7"
    assert [printed.new() for _ in range(5)] == [[b"one"], [b"two", b"three"], [], [], []]
    printed.close()
    printed.close()
    assert network.stopped == 1


def test_what_is_waited_for_is_looked_at_every_two_milliseconds() -> None:
    network = Printing()
    printed = lines(network)
    looks: list[int] = []

    def arrived() -> bool:
        looks.append(network.clock.now_ns - network.begun_ns)
        return len(looks) == 3

    printed.wait_until(arrived, network.begun_ns + 50_000_000)
    assert looks == [50_000_000, 52_000_000, 54_000_000], "not before it can be there"


def test_three_seconds_are_too_long() -> None:
    network = Printing()
    with pytest.raises(LabFault, match="the echoes have not come for 3 s: is the machine overloaded"):
        lines(network).wait_until(lambda: False)
    assert 3.0 < (network.clock.now_ns - network.begun_ns) / 1e9 < 3.01


def test_a_script_that_has_ended_is_not_waited_for() -> None:
    network = Printing(ended=True)
    with pytest.raises(LabFault, match="the echoes stopped: no such interface"):
        lines(network).wait_until(lambda: False)
    assert network.clock.now_ns == network.begun_ns


def recording(network: Any, settled_ns: int = 0) -> Recording[Event]:
    def parse(line: bytes) -> Event | int:
        word, number = line.split()
        return Event(int(number)) if word == b"e" else int(number)

    def begins(line: bytes) -> str:
        return "" if line == b"hello" else f"it begins with {line!r}"

    return Recording("the events", network, network.host, SCRIPT, begins=begins, parse=parse, settled_ns=settled_ns)


def test_a_sample_has_what_happened_in_its_time_and_earlier_ones_are_forgotten() -> None:
    begun = Printing().begun_ns
    text = b"".join(b"e %d\n" % (begun + at) for at in (0, 5, 10, 15, 20)) + b"t %d\n" % (begun + 30)
    network = Printing(b"hello\nt 0\n", text)
    with recording(network) as events:
        assert [each.t_ns - begun for each in events.between(begun + 5, begun + 15)] == [5, 10, 15]
        assert [each.t_ns - begun for each in events.between(begun, begun + 30)] == [5, 10, 15, 20]
    assert network.stopped == 1


def test_what_is_not_settled_is_waited_for() -> None:
    begun = Printing().begun_ns
    network = Printing(b"hello\nt 0\n", b"e %d\nt %d\n" % (begun + 1, begun + 14), b"e %d\nt %d\n" % (begun + 9, begun + 15))
    with recording(network, settled_ns=5) as events:
        assert [each.t_ns - begun for each in events.between(begun, begun + 10)] == [1, 9]


def test_another_beginning_is_the_labs_fault_and_the_script_is_stopped() -> None:
    network = Printing(b"usage\n")
    with pytest.raises(LabFault, match="it begins with b'usage'"), recording(network):
        pass
    assert network.stopped == 1


HEADS = {
    Tap: b"roughwater-tap 1 eth0\n",
    Sockets: b"roughwater-sockets 1\n",
    DatagramTap: b"roughwater-datagrams 1 eth0\n",
}


@pytest.mark.parametrize("kind", HEADS)
def test_every_recording_knows_the_beginning_of_its_script(kind: Any) -> None:
    more = (4433,) if kind is DatagramTap else ()
    network: Any = Printing(HEADS[kind] + b"t 5\n")
    with kind(network, network.host, *more):
        pass
    expected = {Tap: ["eth0"], Sockets: [], DatagramTap: ["eth0", "4433"]}[kind]
    assert network.argv[5:] == expected
    network = Printing(b"x" * 100 + b"\n")
    with pytest.raises(LabFault, match=r"begins? with b'x{80}'$"), kind(network, network.host, *more):
        pass


def test_a_tap_may_be_asked_for_acknowledgements() -> None:
    network: Any = Printing(HEADS[Tap] + b"t 5\n")
    with Tap(network, network.host, acks=True):
        pass
    assert network.argv[5:] == ["eth0", "acks"]


class Wire(Printing):
    """Counters of two ports; taps of hosts print only their first line."""

    def __init__(self) -> None:
        super().__init__(b"roughwater-ports 1 to-client to-server 10000000 0\n0 1 2 3 4 5 6 7 8\n")
        self.wire = self.host
        self.client.tap_port = ""


def test_a_sampler_starts_a_tap_once_and_stops_it_with_itself() -> None:
    network: Any = Wire()
    begun: list[str] = []

    def start(argv: list[str], *, root: bool, stdout: Path) -> Any:
        del root
        kind = Tap if "4433" not in argv else DatagramTap
        begun.append(kind.__name__)
        stdout.write_bytes(HEADS[kind] + b"t 5\n")
        return SimpleNamespace(sync=lambda: None, running=lambda: True, stop=lambda: begun.append(f"no {kind.__name__}"))

    network.server.start = start
    with PortSampler(network) as sampler:
        tap, datagrams = sampler.tap(network.server), sampler.datagrams(network.server, 4433)
        assert tap is not None
        assert datagrams is not None
        assert sampler.tap(network.server) is tap
        assert sampler.datagrams(network.server, 4433) is datagrams
        assert sampler.tap(network.client) is sampler.datagrams(network.client, 4433) is None, "it has no port to tap"
        assert begun == ["Tap", "DatagramTap"]
        assert network.argv[5:] == ["to-client", "to-server", "10"]
    assert begun[2:] == ["no Tap", "no DatagramTap"]
    assert network.stopped == 1


def test_readings_are_cut_where_they_are_asked_for() -> None:
    network: Any = Wire()
    begun = network.begun_ns
    network.texts.append(b"".join(b"%d 1 2 3 4 5 6 7 8\n" % (begun + at) for at in (0, 10, 20, 30)))
    with PortSampler(network, interval_ms=0.5) as sampler:
        assert [row.t_ns - begun for row in sampler.between(begun + 12, begun + 18)] == [10, 20]
        assert len(sampler.rows()) == 5
        assert network.argv[-1] == "0.5"
