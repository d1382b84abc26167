"""Core placement of machines in virtual time: one core each, because wake-ups across cores cost most of the speed."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import ClassVar


@dataclass
class Core:
    """A core in use by a machine of this process."""

    number: int
    _is_taken: bool = True

    _taken: ClassVar[dict[int, int]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def take(cls) -> Core:
        """The core with the fewest machines of this process. The first one differs from process to process."""
        with cls._lock:
            mine = sorted(os.sched_getaffinity(0))
            turn = os.getpid() % len(mine)
            number = min([*mine[turn:], *mine[:turn]], key=lambda core: cls._taken.get(core, 0))
            cls._taken[number] = cls._taken.get(number, 0) + 1
            return cls(number)

    def give_back(self) -> None:
        """Idempotent."""
        with self._lock:
            self._taken[self.number] -= self._is_taken
            self._is_taken = False
