"""The lab's end of `tap_script`: starts it on a receiving host, reads its lines, stops it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from lab.hosts.host import Host, Network, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault

_SCRIPT = Path(__file__).with_name("tap_script.py")
SETTLED_NS = 30_000_000
"""Packets are printed at most this long after they passed. The kernel closes a block of the ring after 5 ms, by its ticks."""
_PATIENCE_S = 3.0
_PAUSE_S = 0.002


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


Event = Content | Mark | Unread


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
            case [b"t", t_ns]:
                return int(t_ns)
    except ValueError:
        pass
    raise LabFault(f"the tap printed {line[:80]!r}")


class Tap:
    """Use as a context manager. It may outlive many samples: `between` cuts one's events and forgets earlier ones."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network, self._host = network, host
        # Anonymous memory, by the name it has for this process: a lab that is killed leaves no file behind.
        self._memory = os.memfd_create("tap")
        self._path = Path(f"/proc/self/fd/{self._memory}")
        self._process: Process | None = None
        self._offset = 0
        self._started = False
        self._seen_ns = -1
        self._events: list[Event] = []

    def __enter__(self) -> Self:
        argv = script_command(self._host, _SCRIPT, self._host.tap_port)
        try:
            self._process = self._host.start(argv, root=True, stdout=self._path)
            self._wait_until(0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def between(self, start_ns: int, end_ns: int) -> list[Event]:
        """Events from `start_ns` to `end_ns`, which is waited for. Raises LabFault when the tap has ended or is too slow."""
        self._wait_until(end_ns + SETTLED_NS)
        self._events = [event for event in self._events if event.t_ns >= start_ns]
        return [event for event in self._events if event.t_ns <= end_ns]

    def _read(self) -> None:
        if self._process is not None:
            self._process.sync()
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        lines = complete.splitlines()
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

    def _wait_until(self, t_ns: int) -> None:
        clock = self._network.clock
        deadline_ns = clock.monotonic_ns() + round(_PATIENCE_S * 1e9)
        while True:
            self._read()
            if self._seen_ns >= t_ns:
                return
            assert self._process is not None
            if not self._process.running():
                raise LabFault(f"the tap on host {self._host.name} stopped: {self._process.wait(1.0).error_text}")
            if clock.monotonic_ns() > deadline_ns:
                raise LabFault(
                    f"the tap on host {self._host.name} printed nothing for {_PATIENCE_S:g} s: is the machine overloaded?"
                )
            clock.sleep(_PAUSE_S)
