"""PowerShell on a Windows machine over SSH: scripts run there, and the machine's clock."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lab.hosts.ssh.connection import Connection
from lab.hosts.windows import powershell
from lab.model.errors import LabFault

# PowerShell's own start, on a slow machine.
START_S = 60.0
SCRIPT_S = 120.0
# Crystals of two machines differ by some 50 ppm: 3 ms in a minute.
_CLOCK_HOLDS_NS = 60 * 10**9
_CLOCK_LOOKS = 12


@dataclass
class MachineClock:
    """The offset from the machine's nanoseconds to the lab's CLOCK_MONOTONIC.

    By an exchange, wrong by `error_ns` at most. Without one, by answers alone: none comes before it was sent, so the smallest
    difference ever seen is the offset, wrong by one way back.
    """

    offset_ns: int | None = None
    error_ns: int = 0
    set_ns: int | None = None

    def learn(self, theirs_ns: int, received_ns: int) -> int:
        seen = received_ns - theirs_ns
        self.offset_ns = seen if self.offset_ns is None else min(seen, self.offset_ns)
        return self.offset_ns

    def set_by(self, exchanges: Sequence[tuple[int, int, int]], now_ns: int) -> None:
        """The quickest of the exchanges (asked, theirs, received) counts: theirs lies between the other two instants."""
        asked, theirs, received = min(exchanges, key=lambda each: each[2] - each[0])
        self.error_ns = (received - asked + 1) // 2
        self.offset_ns = (asked + received) // 2 - theirs
        self.set_ns = now_ns


@dataclass
class PowerShell:
    """`name` is the host's, for messages."""

    connection: Connection
    name: str
    clock: MachineClock = field(default_factory=MachineClock)
    _setting_clock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def script(self, text: str, *, arguments: Mapping[str, str] | None = None, timeout_s: float = SCRIPT_S) -> str:
        """The output of a PowerShell script. Raises LabFault with the first line of its error output."""
        words = self.connection.command(powershell.boot_command(arguments))
        try:
            done = subprocess.run(words, input=powershell.line(text), capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise LabFault(f"{self.name}: PowerShell does not answer in {timeout_s:g} s") from None
        said = done.stderr.decode(errors="replace")
        if done.returncode == 255:
            raise self.connection.refused(said)
        if done.returncode:
            lines = [line.strip() for line in said.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            raise LabFault(f"{self.name}: a script failed there: {lines[0][:300]}")
        return done.stdout.decode(errors="replace").lstrip("\ufeff")

    def set_clock(self) -> None:
        """Ask for the machine's clock until `clock` is known as well as the connection allows. Raises LabFault."""
        words = self.connection.command(powershell.boot_command())
        exchanges: list[tuple[int, int, int]] = []
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ssh:
            assert ssh.stdin is not None
            assert ssh.stdout is not None
            assert ssh.stderr is not None
            guard = threading.Timer(START_S, ssh.kill)
            guard.start()
            try:
                ssh.stdin.write(powershell.line(powershell.script("clock.ps1")))
                for _ in range(_CLOCK_LOOKS):
                    asked = time.monotonic_ns()
                    ssh.stdin.write(b"\n")
                    ssh.stdin.flush()
                    text = ssh.stdout.readline().decode(errors="replace").strip().lstrip("\ufeff")
                    received = time.monotonic_ns()
                    if not text.isdigit() and not text.removeprefix("-").isdigit():
                        ssh.stdin.close()
                        self._no_clock(ssh, text)
                    exchanges.append((asked, int(text), received))
                ssh.stdin.close()
            except BrokenPipeError:
                self._no_clock(ssh, "")
            finally:
                guard.cancel()
        # The first waits for PowerShell itself.
        self.clock.set_by(exchanges[1:], time.monotonic_ns())

    def _no_clock(self, ssh: subprocess.Popen[bytes], text: str) -> NoReturn:
        assert ssh.stderr is not None
        said = ssh.stderr.read().decode(errors="replace")
        if ssh.wait() == 255:
            raise self.connection.refused(said)
        last = next((line.strip() for line in said.splitlines() if line.strip()), text)
        raise LabFault(f"{self.name}: the machine does not report its clock: {last[:200]!r}")

    def keep_clock(self) -> None:
        """Set the clock again where it was set too long ago."""
        with self._setting_clock:
            if self.clock.set_ns is not None and time.monotonic_ns() - self.clock.set_ns > _CLOCK_HOLDS_NS:
                self.set_clock()

    def ask(self, name: str, arguments: Mapping[str, str], timeout_s: float = 60.0) -> dict[str, Any]:
        """The JSON object that a script of this package prints. Raises LabFault for any other answer."""
        found = self.ask_maybe(name, arguments, timeout_s)
        if found is None:
            raise LabFault(f"{self.name}: {name} printed nothing")
        return found

    def ask_maybe(self, name: str, arguments: Mapping[str, str], timeout_s: float = 60.0) -> dict[str, Any] | None:
        """The answer as by `ask`; None for a script that printed null."""
        text = self.script(powershell.script(name), arguments=arguments, timeout_s=timeout_s)
        try:
            found = json.loads(text)
        except ValueError:
            raise LabFault(f"{self.name}: the answer of {name} is not JSON: {text[:80]!r}") from None
        if found is not None and not isinstance(found, dict):
            raise LabFault(f"{self.name}: the answer of {name} is not an object: {text[:80]!r}")
        return found
