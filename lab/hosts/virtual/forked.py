"""A machine in virtual time that another one has forked: its process is not this one's child."""

from __future__ import annotations

import os
import select
from pathlib import Path


class Forked:
    """As much of `subprocess.Popen` as a machine needs. Its maker reaps it at the next fork; until then its end can be read."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.args = ("linux", "(forked)")
        self.returncode: int | None = None

    def wait(self) -> int:
        """Until it has ended; its exit code, a signal's number negative, 0 where that is no longer known."""
        if self.returncode is None:
            self._wait_for_end()
            self.returncode = self._exit_code()
        return self.returncode

    def _wait_for_end(self) -> None:
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            select.select([descriptor], (), ())
        finally:
            os.close(descriptor)

    def _exit_code(self) -> int:
        try:
            # The last field (proc(5)): as wait(2) has it.
            status = int(Path(f"/proc/{self.pid}/stat").read_text().split()[-1])
        except (OSError, ValueError):
            return 0
        return os.waitstatus_to_exitcode(status)
