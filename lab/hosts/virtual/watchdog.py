"""Notices that hardly any virtual time passes: programs inside compute, and their kernel has next to nothing to do.

The clock goes on when a program waits and, by the price of each, at system calls and page faults: for all of these the machine's
kernel has to run, and it is a process of its own here. It also runs, briefly, to interrupt a program that computes for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

AFTER_S = 10.0
"""Seconds of this host's clock."""
_KERNEL_SHARE = 0.1
"""A share of the CPU time that the machine used. A program that computes for ever is interrupted 50 times a second: 0.043 (seen).
Programs that transfer have a kernel that uses half of it."""
_LEAST_CPU_S = 2.0
"""A busy host gives a machine little; so much must its programs have used before anybody is warned."""


class Watchdog:
    """For one request to a machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s, self._kernel_s, self._all_s = clock(), -1.0, 0.0
        self._barked = False

    def barks(self, kernel_s: float, all_s: float) -> bool:
        """True once, when for `AFTER_S` the kernel has done nothing and programs have computed. Call it now and then.

        CPU seconds so far: of the process that is the machine's kernel, and of all of the machine.
        """
        if self._barked:
            return False
        kernel_used, used = kernel_s - self._kernel_s, all_s - self._all_s
        if self._kernel_s < 0 or kernel_used > _KERNEL_SHARE * max(used, _LEAST_CPU_S):
            self._since_s, self._kernel_s, self._all_s = self._clock(), kernel_s, all_s
            return False
        self._barked = self._clock() - self._since_s >= AFTER_S and used >= _LEAST_CPU_S
        return self._barked
