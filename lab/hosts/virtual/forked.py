"""A machine in virtual time that another one has forked: its process is not this one's child."""

from __future__ import annotations

import math
import os
from pathlib import Path

from lab.model.ended import ends_within


class Forked:
    """The part of `subprocess.Popen` that a machine needs. Its end can be read until its maker reaps it, at the next fork."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.args = ("linux", "(forked)")
        self.returncode: int | None = None

    def wait(self) -> int:
        """Until it has ended; its exit code, a signal's number negative, 0 where that is no longer known."""
        if self.returncode is None:
            ends_within(self.pid, math.inf)
            self.returncode = self._exit_code()
        return self.returncode

    def _exit_code(self) -> int:
        try:
            # The last field (proc(5)): as wait(2) has it.
            status = int(Path(f"/proc/{self.pid}/stat").read_text().split()[-1])
        except (OSError, ValueError):
            return 0
        return os.waitstatus_to_exitcode(status)
