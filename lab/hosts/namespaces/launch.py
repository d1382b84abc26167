"""Starts, finds and ends the agent of a namespaces lab."""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.hosts.agent.handle import AgentHandle
from lab.hosts.agent.protocol import HOME_DIR, LAB_UID, LAB_USER, socket_name
from lab.model.errors import LabFault, UsageProblem

START_TIMEOUT_S = 10.0

_REMEDIES = {
    "user and network namespaces": "user namespaces are off or restricted here: `sudo sysctl user.max_user_namespaces=10000`; "
    "on Ubuntu also `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`; or run the lab as root",
    "mounts": "in a container give it --privileged, or run the lab on the host",
}


class NamespaceLab(AgentHandle):
    """An agent and, where this lab started it, its process (which dies with us)."""

    def __init__(self, name: str, process: subprocess.Popen[bytes] | None = None) -> None:
        super().__init__(name, socket_name(name))
        self._process = process

    @classmethod
    def launch(cls, name: str, hosts: dict[str, str]) -> NamespaceLab:
        """Start an agent; `hosts` maps host names to addresses for /etc/hosts.

        The agent dies with the *thread* that calls this (prctl(2), PR_SET_PDEATHSIG): call it from a lasting one.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report_read, report_write = os.pipe()
        with listener:
            try:
                listener.bind(socket_name(name))
            except OSError:
                raise UsageProblem(
                    f"a lab named {name!r} is already running", remedy=f"lab down {name}, or choose another --name"
                ) from None
            listener.listen(64)
            fds = (listener.fileno(), report_write)
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "lab.hosts.namespaces.agent", *map(str, fds), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=fds,
                cwd="/",
                # A signal to the group of the caller (a terminal's, that of `timeout`) is the lab's business: it ends the agent
                # in order. An agent that ended first would make an interruption a fault of the lab's.
                start_new_session=True,
            )
        os.close(report_write)
        try:
            _feed(process, _files(hosts))
            report = _read_report(report_read)
        finally:
            os.close(report_read)
        if not report.get("ready"):
            process.kill()
            process.wait()
            step = str(report.get("step", "start"))
            raise LabFault(
                f"the lab cannot make its {step}: {report.get('error', 'its agent ended')}",
                remedy=_REMEDIES.get(step, "see `lab doctor`"),
            )
        return cls(name, process)

    def detach(self) -> None:
        self.ask({"op": "detach"})

    def shutdown(self) -> None:
        """Shut the lab down and wait until its last process has ended. Idempotent."""
        super().shutdown()
        if self._process is not None:
            try:
                self._process.wait(START_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        # The first process keeps the name until the kernel has ended every other.
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.name in running_labs() and time.monotonic() < deadline:
            time.sleep(0.005)


def running_labs() -> list[str]:
    """Names of this user's labs on this machine, from the kernel's list of Unix sockets."""
    pattern = re.compile(rf"@roughwater/{os.getuid()}/(\S+)$", re.MULTILINE)
    return sorted(set(pattern.findall(Path("/proc/net/unix").read_text(errors="replace"))))


def _files(hosts: dict[str, str]) -> dict[str, str]:
    """The hosts' files in /etc: names of all hosts, no resolver, and the lab's ordinary user."""
    names = "".join(f"{address}\t{name}\n" for name, address in hosts.items())
    user = f"{LAB_USER}:x:{LAB_UID}:{LAB_UID}:Roughwater:{HOME_DIR}:/bin/sh\n"
    group = f"{LAB_USER}:x:{LAB_UID}:\n"
    return {
        "/etc/hosts": f"127.0.0.1\tlocalhost\n{names}",
        "/etc/resolv.conf": "# no resolver inside the lab\n",
        "/etc/passwd": Path("/etc/passwd").read_text() + user,
        "/etc/group": Path("/etc/group").read_text() + group,
    }


def _feed(process: subprocess.Popen[bytes], files: dict[str, str]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(files).encode())
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended at once; its report says why


def _read_report(fd: int) -> dict[str, Any]:
    ready, _, _ = select.select([fd], [], [], START_TIMEOUT_S)
    line = os.read(fd, 65536) if ready else b""
    return json.loads(line) if line else {}
