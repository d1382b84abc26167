"""Waiting for a process, with a limit, in a way that a signal can end."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from typing import Any, Protocol

# A signal that arrives between the interpreter's last look and the system call is handled when the call returns.
_LOOK_S = 0.1


class Started(Protocol):
    """A process, as subprocess.Popen has it."""

    pid: int

    @property
    def args(self) -> Any: ...

    def wait(self) -> int: ...


def wait_for_end(process: Started, longest_s: float) -> int:
    """The exit code. Raises subprocess.TimeoutExpired after `longest_s`.

    Popen.wait with a limit takes a lock that it keeps for ever where a signal's handler raises at the wrong moment (CPython's
    subprocess.py, `_wait`: between `acquire(False)` and `try`); every later wait for that process then never ends, also where the
    process was killed. Without a limit it takes the lock in a `with`, which nothing comes between.
    """
    if not ends_within(process.pid, longest_s):
        raise subprocess.TimeoutExpired(process.args, longest_s)
    return process.wait()


def ends_within(pid: int, longest_s: float) -> bool:
    """Wait for the end of a process, which need not be a child of this one; false after `longest_s`."""
    limit_s = time.monotonic() + longest_s
    with contextlib.suppress(ProcessLookupError):  # it has been waited for
        descriptor = os.pidfd_open(pid)
        try:
            end = select.poll()
            end.register(descriptor, select.POLLIN)
            while not end.poll(max(0.0, min(_LOOK_S, limit_s - time.monotonic())) * 1000):
                if time.monotonic() >= limit_s:
                    return False
        finally:
            os.close(descriptor)
    return True
