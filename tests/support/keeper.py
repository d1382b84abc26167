"""Runs a command, and ends all of its process group when this process is asked to end or its parent dies, even by kill -9.

`python keeper.py NICE COMMAND...`, as the leader of a process group. A shell that gets SIGTERM would leave its children running.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG = 1
_GRACE_S = 10.0


def command(nice: int, argv: Sequence[str]) -> list[str]:
    """The command line that keeps `argv`."""
    return [sys.executable, str(Path(__file__)), str(nice), *argv]


def main(nice: int, argv: Sequence[str]) -> int:
    parent = os.getppid()
    stopping = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            os.killpg(0, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before it could be watched
        return 128 + signal.SIGTERM
    os.nice(nice)
    child = subprocess.Popen(argv)
    while True:
        try:
            code = child.wait(_GRACE_S if stopping else 1.0)
        except subprocess.TimeoutExpired:
            if stopping:
                os.killpg(0, signal.SIGKILL)
            continue
        return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
