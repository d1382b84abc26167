"""The lab's end of `tap_script`: starts it on a receiving host, reads its lines, stops it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from lab.hosts.host import Host, Network
from lab.model.errors import LabFault
from lab.net.printed import PrintedLines

_SCRIPT = Path(__file__).with_name("tap_script.py")
SETTLED_NS = 30_000_000
"""Packets are printed at most this long after they passed. The kernel closes a block of the ring after 5 ms, by its ticks."""


class Content(NamedTuple):
    """Content of one connection that passed from `t0_ns` to `t_ns`; then `position` bytes had arrived in order."""

    connection: int
    from_opener: bool
    t0_ns: int
    t_ns: int
    position: int


class Mark(NamedTuple):
    """A connection was opened (SYN), or one way of it ended (FIN, RST)."""

    connection: int
    t_ns: int
    opened: bool


class Unread(NamedTuple):
    """Bytes in the host's receive queues from this instant on."""

    t_ns: int
    bytes: int


class Woken(NamedTuple):
    """The tap itself ran this much later than it asked for: so may any program on this machine."""

    t_ns: int
    late_ns: int


Event = Content | Mark | Unread | Woken


def parse_line(line: bytes) -> Event | int:
    """An event, or the time up to which the tap has looked. Raises LabFault for anything else."""
    words = line.split()
    try:
        match words:
            case [b"d", number, way, first, last, position]:
                return Content(int(number), way == b">", int(first), int(last), int(position))
            case [b"s", number, t_ns]:
                return Mark(int(number), int(t_ns), opened=True)
            case [b"e", number, _, t_ns]:
                return Mark(int(number), int(t_ns), opened=False)
            case [b"q", t_ns, size]:
                return Unread(int(t_ns), int(size))
            case [b"w", t_ns, late_ns]:
                return Woken(int(t_ns), int(late_ns))
            case [b"t", t_ns]:
                return int(t_ns)
    except ValueError:
        pass
    raise LabFault(f"the tap printed {line[:80]!r}")


class Tap:
    """Use as a context manager. It may outlive many samples: `between` cuts one's events and forgets earlier ones."""

    def __init__(self, network: Network, host: Host) -> None:
        self._host = host
        self._printed = PrintedLines(f"the events of the tap on host {host.name}", network.clock)
        self._started = False
        self._seen_ns = -1
        self._events: list[Event] = []

    def __enter__(self) -> Self:
        try:
            self._printed.start(self._host, _SCRIPT, self._host.tap_port)
            self._wait_until(0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._printed.close()

    def between(self, start_ns: int, end_ns: int) -> list[Event]:
        """Events from `start_ns` to `end_ns`, which is waited for. Raises LabFault when the tap has ended or is too slow."""
        self._wait_until(end_ns + SETTLED_NS)
        self._events = [event for event in self._events if event.t_ns >= start_ns]
        return [event for event in self._events if event.t_ns <= end_ns]

    def _seen(self) -> int:
        """The time up to which every event has been read."""
        lines = self._printed.new()
        if lines and not self._started:
            first = lines.pop(0)
            if not first.startswith(b"throughline-tap 1 "):
                raise LabFault(f"the tap begins with {first[:80]!r}")
            self._started = True
        for line in lines:
            found = parse_line(line)
            if isinstance(found, int):
                self._seen_ns = found
            else:
                self._events.append(found)
        return self._seen_ns

    def _wait_until(self, t_ns: int) -> None:
        self._printed.wait_until(lambda: self._seen() >= t_ns)
