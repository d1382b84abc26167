"""Runs a command and writes down what it and all its descendants cost, those included that it did not wait for (lftp's ssh).

python tree_script.py REPORT COMMAND...; the report is two numbers: seconds until COMMAND ended, CPU seconds of everything below.
Standard library only, and alone: it runs on a lab's host.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def main(report: str, command: list[str]) -> int:
    # Orphans become children of this process, and their CPU seconds its own once they are waited for.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    child = os.posix_spawnp(command[0], command, os.environ)
    status, wall_s = 0, 0.0
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            break
        if pid == child:
            status, wall_s = ended, time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(report).write_text(f"{wall_s} {used.ru_utime + used.ru_stime}\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(abs(main(sys.argv[1], sys.argv[2:])))
