"""Runs `python ARGUMENTS...` and adopts the processes that it leaves behind.

The host watch counts what descends from the tests as theirs. A daemon, or a process whose parent a test has killed, would fall
to the machine's first process and look like a foreign one. This process adopts it instead: ROUGHWATER_REAPER has its id.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

VARIABLE = "ROUGHWATER_REAPER"
_PR_SET_CHILD_SUBREAPER = 36


def command(*words: str) -> list[str]:
    """The command line for `python WORDS...` under a reaper."""
    return [sys.executable, str(Path(__file__)), *words]


def roots() -> Collection[int]:
    """For the host watch: the reaper, where there is one."""
    pid = os.environ.get(VARIABLE, "")
    return (int(pid),) if pid.isdigit() else ()


def main(words: Sequence[str]) -> int:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ[VARIABLE] = str(os.getpid())
    child = subprocess.Popen([sys.executable, *words])
    # After the child's start, which would inherit it. A terminal interrupts both, and the child decides what comes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda sent, _: os.kill(child.pid, sent))
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
