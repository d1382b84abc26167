"""The output of a script that runs on a host while something else is measured, read as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from lab.hosts.clocks import Clock
from lab.hosts.host import Host, Network, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault

_PATIENCE_S = 3.0
_PAUSE_S = 0.002


class Timed(Protocol):
    """An event with its instant, as a script prints it."""

    @property
    def t_ns(self) -> int: ...


E = TypeVar("E", bound=Timed)


class PrintedLines:
    """A script's complete lines. `name` is what error messages call the script; `close` stops it."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name, self._clock = name, clock
        # Anonymous memory, by the name it has for this process: a lab that is killed leaves no file behind.
        self._memory = os.memfd_create("printed")
        self._path = Path(f"/proc/self/fd/{self._memory}")
        self._process: Process | None = None
        self._offset = 0

    def start(self, host: Host, script: Path, *arguments: str) -> None:
        self._process = host.start(script_command(host, script, *arguments), root=True, stdout=self._path)

    def close(self) -> None:
        """Idempotent."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def new(self) -> list[bytes]:
        """The lines since the last call."""
        if self._process is not None:
            self._process.sync()
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.splitlines()

    def wait_until(self, arrived: Callable[[], bool], t_ns: int = 0) -> None:
        """Until `arrived`, which reads `new`, is true; it cannot be before `t_ns`, and is not asked until then.

        Each look at a machine in virtual time is a request to it. Raises LabFault when the script has ended or is too slow.
        """
        self._clock.sleep(max(0, t_ns - self._clock.monotonic_ns()) / 1e9)
        deadline_ns = self._clock.monotonic_ns() + round(_PATIENCE_S * 1e9)
        while not arrived():
            assert self._process is not None
            if not self._process.running():
                raise LabFault(f"{self._name} stopped: {self._process.wait(1.0).error_text}")
            if self._clock.monotonic_ns() > deadline_ns:
                raise LabFault(f"{self._name} have not come for {_PATIENCE_S:g} s: is the machine overloaded?")
            self._clock.sleep(_PAUSE_S)


class Recording(Generic[E]):
    """A script's events on a host, a line for each; now and then the script prints the time up to which all have been printed.

    Use as a context manager. A recording may outlive many samples: `between` cuts out the events of a sample and forgets earlier
    ones. `settled_ns`: a line is printed at most this long after its instant.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        host: Host,
        script: Path,
        *arguments: str,
        begins: Callable[[bytes], str],
        parse: Callable[[bytes], E | int],
        settled_ns: int = 0,
    ) -> None:
        self._host, self._script, self._arguments = host, script, arguments
        self._begins, self._parse, self._settled_ns = begins, parse, settled_ns
        self._printed = PrintedLines(name, network.clock)
        self._started = False
        self._seen_ns = -1
        self._found: list[E] = []

    def __enter__(self) -> Self:
        try:
            self._printed.start(self._host, self._script, *self._arguments)
            self._wait_until(0)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._printed.close()

    def between(self, start_ns: int, end_ns: int) -> list[E]:
        """From `start_ns` to `end_ns`, which is waited for. Raises LabFault when the script has ended or is too slow."""
        self._wait_until(end_ns + self._settled_ns)
        self._found = [each for each in self._found if each.t_ns >= start_ns]
        return [each for each in self._found if each.t_ns <= end_ns]

    def _seen(self) -> int:
        """The time up to which everything has been read."""
        lines = self._printed.new()
        if lines and not self._started:
            if problem := self._begins(lines.pop(0)):
                raise LabFault(problem)
            self._started = True
        for line in lines:
            found = self._parse(line)
            if isinstance(found, int):
                self._seen_ns = found
            else:
                self._found.append(found)
        return self._seen_ns

    def _wait_until(self, t_ns: int) -> None:
        self._printed.wait_until(lambda: self._seen() >= t_ns, t_ns)
