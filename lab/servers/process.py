"""The common part of the three servers: processes, readiness checks, logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from lab.hosts.host import Host, Process
from lab.hosts.scripts import script_command
from lab.model.errors import LabFault

_SCRIPT = Path(__file__).with_name("ready_script.py")
READY_S = 5.0
# A server that has ended is noticed between two slices; a slow one gets all of READY_S.
_SLICE_S = 0.5


@dataclass
class ServerProcess:
    """A running server. `checks` are lines of `ready_script`; `log_path` is on the host, where it keeps its own log."""

    name: str
    host: Host
    processes: tuple[Process, ...]
    checks: tuple[str, ...]
    log_path: PurePath | None = None

    def ended(self) -> str:
        """The reason for the server's end, in its own words; empty while it runs."""
        for process in self.processes:
            if not process.running():
                done = process.wait(1.0)
                said = done.error_text if done.stdout or done.stderr else (self.error_log().strip().splitlines() or [""])[-1]
                return f"{self.name} ended ({done.returncode}): {said}"
        return ""

    def error_log(self) -> str:
        """The log so far; empty when it does not exist yet or its host is gone (evidence is never a reason to fail)."""
        if self.log_path is None:
            return ""
        try:
            return self.host.read(self.log_path).decode(errors="replace")
        except LabFault:
            return ""

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


def wait_ready(servers: Sequence[ServerProcess], *, deadline_s: float = READY_S) -> None:
    """Until every server of one host answers a real request. Raises LabFault with the server's own message."""
    host = servers[0].host
    checks = [check for server in servers for check in server.checks]
    if not checks:
        return
    waited_s = 0.0
    while True:
        seconds = min(_SLICE_S, deadline_s)
        done = host.run(script_command(host, _SCRIPT, f"{seconds}", *checks), root=True, check=False, timeout_s=deadline_s + 10)
        if done.returncode == 0:
            return
        waited_s += done.wall_s
        for server in servers:
            if problem := server.ended():
                raise LabFault(problem)
        checks = done.text.splitlines() or checks
        if done.stderr or waited_s > deadline_s:
            raise LabFault(f"{host.name}: not ready after {deadline_s:g} s: {'; '.join(checks)}; {done.error_text}")


def program(host: Host, name: str, path: str | PurePath | None) -> str:
    """The given path, or the host's. Raises UsageProblem when the host has none."""
    return str(path) if path else host.program(name)
