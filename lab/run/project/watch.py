"""A command of a suite while it runs: its output is shown, its limits are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from lab.hosts.host import Completed
from lab.hosts.virtual.machine import Machine
from lab.hosts.virtual.project import ProjectProcess

Limit = Literal["virtual time", "CPU time"]
Show = Callable[[bytes, bytes], None]
"""Takes output and errors as they come."""

# Virtual seconds, because each request takes some: by the host's clock two runs would not be alike.
_LEAST_SLICE_S, _MOST_SLICE_S = 0.01, 1.0
_TAIL_BYTES = 1 << 16


@dataclass
class LastLine:
    """The last line that a suite printed, of output and errors."""

    tail: bytes = b""

    def feed(self, *parts: bytes) -> None:
        self.tail = b"".join((self.tail, *parts))[-_TAIL_BYTES:]

    @property
    def text(self) -> str:
        lines = [line.strip() for line in self.tail.decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


@dataclass
class Limits:
    """The remainder of both limits, for all commands of a suite together."""

    machine: Machine
    virtual_s: float
    cpu_s: float
    used_s: float = 0.0
    """Virtual seconds of the commands that have ended."""
    _cpu_before: float = field(init=False)

    def __post_init__(self) -> None:
        self._cpu_before = self.machine.cpu_s()

    @property
    def cpu_used_s(self) -> float:
        return self.machine.cpu_s() - self._cpu_before

    def left_s(self, began_ns: int) -> float:
        """Virtual seconds for a command that began then."""
        return self.virtual_s - self.used_s - (self.machine.now_ns - began_ns) / 1e9


def slice_s(before_s: float, printed: bool) -> float:
    """The time to let a command run before its output is asked for again."""
    return _LEAST_SLICE_S if printed else min(2 * before_s, _MOST_SLICE_S)


def watched(process: ProjectProcess, limits: Limits, show: Show) -> tuple[Completed, Limit | None]:
    """Show a command's output until it has ended, or a limit is reached: it is ended then, and the limit named."""
    began_ns, endings = limits.machine.now_ns, len(limits.machine.endings)
    limit: Limit | None = None
    length = _LEAST_SLICE_S
    while limit is None and not process.ended(min(length, max(0.0, limits.left_s(began_ns)))):
        text, errors = process.news()
        show(text, errors)
        length = slice_s(length, printed=bool(text or errors))
        if limits.left_s(began_ns) <= 0:
            limit = "virtual time"
        elif limits.cpu_used_s > limits.cpu_s:
            limit = "CPU time"
    done = process.wait(0.0)
    show(*process.rest(done))
    limits.used_s += done.wall_s
    if len(limits.machine.endings) > endings:
        # One request took more than the limit by itself.
        limit = "CPU time"
    return done, limit
