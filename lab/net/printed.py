"""The output of a script that runs on a host while something else is measured, read as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lab.hosts.clocks import Clock
from lab.hosts.host import Host, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault

_PATIENCE_S = 3.0
_PAUSE_S = 0.002


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

    def wait_until(self, arrived: Callable[[], bool]) -> None:
        """Until `arrived`, which reads `new`, is true. Raises LabFault when the script has ended or is too slow."""
        deadline_ns = self._clock.monotonic_ns() + round(_PATIENCE_S * 1e9)
        while not arrived():
            assert self._process is not None
            if not self._process.running():
                raise LabFault(f"{self._name} stopped: {self._process.wait(1.0).error_text}")
            if self._clock.monotonic_ns() > deadline_ns:
                raise LabFault(f"{self._name} have not come for {_PATIENCE_S:g} s: is the machine overloaded?")
            self._clock.sleep(_PAUSE_S)
