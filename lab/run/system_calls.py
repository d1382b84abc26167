"""An extra run of a client under `perf stat`, to count its system calls. It is not a sample and is not judged.

perf counts in the kernel and costs the client next to nothing. strace would slow it down so much that more data waits at each
call, and fewer calls are needed: curl's polls in 50,000 requests fell from 159,000 to 118,000.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, cast

from lab.clients.adapter import ClientAdapter
from lab.model.cell import Cell
from lab.model.endpoints import Endpoints
from lab.model.errors import LabFault, UsageProblem
from lab.model.scratch import scratch_folder
from lab.model.transfer import Transfer
from lab.run.sample import take_sample
from lab.run.session import Session

FILE = "syscalls.json"
_ALL = "raw_syscalls:sys_enter"
_ENTER = "syscalls:sys_enter_"
# Every event costs at each context switch, so only those that a transfer makes often have a count of their own.
_NAMED = (
    *("poll", "ppoll", "select", "epoll_wait", "epoll_pwait", "epoll_ctl"),
    *("recvfrom", "recvmsg", "read", "readv", "sendto", "sendmsg", "write", "writev", "sendfile64"),
    *("openat", "close", "newfstatat", "ioctl", "rt_sigaction", "futex", "clock_nanosleep"),
)
_COUNT = ("perf", "stat", "-x", ";", "-e", ",".join((_ALL, *(f"{_ENTER}{name}" for name in _NAMED))))
_PERMIT = "sudo sysctl kernel.perf_event_paranoid=1, and sudo chmod a+rx /sys/kernel/tracing"


@dataclass(frozen=True)
class _Counted:
    """An adapter whose command runs under perf; everything else is the client's own."""

    inner: ClientAdapter
    report: str

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        return [*_COUNT, "-o", self.report, "--", *self.inner.command(transfer, endpoints)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def check(backend: str = "namespaces") -> None:
    """Raises UsageProblem where perf is missing or may not count system calls, before a network is up."""
    if backend != "namespaces":
        raise UsageProblem("--syscalls needs perf on the client's host", remedy="use it with --backend namespaces")
    if shutil.which("perf") is None:
        raise UsageProblem("--syscalls needs perf, which is not installed", remedy="sudo apt-get install linux-perf")
    with scratch_folder("roughwater-") as folder:
        report = folder / "report"
        argv = [*_COUNT, "-o", str(report), "--", "true"]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=30, check=False)
        counted = read_report(report.read_text(encoding="utf-8", errors="replace")) if report.exists() else {}
    if done.returncode or not counted:
        raise UsageProblem("perf may not count system calls on this machine", remedy=_PERMIT)


def record(session: Session, cell: Cell) -> float:
    """Run the cell's transfer once more and write its system calls by name; returns how many there were.

    Raises LabFault when the transfer failed, or perf counted none.
    """
    with session.bench(cell.id, cell.topology, real=True) as (network, servers):
        session.progress.step(f"{cell.id}: one run for its system calls")
        client = network.client
        adapter = session.lab.adapter_on(client.under_test, cell.client, cell.transfer, cell.id)
        adapter.identify(client.under_test)
        report = str(client.workdir / "syscalls")
        sample = take_sample(network, servers, cast(ClientAdapter, _Counted(adapter, report)), cell.transfer, 0)
        counted = read_report(client.run(["cat", report], check=False).text)
        client.run(["rm", "-f", "--", report], check=False)
    if not sample.ok or not counted:
        why = sample.problem or f"perf counted none; {_PERMIT}"
        raise LabFault(f"the system calls of {cell.client.name} were not counted: {why}")
    total = max(counted.pop(_ALL, 0), sum(counted.values()))
    found = {"system_calls": total, "requests": cell.transfer.files, "by_name": counted}
    (session.run.evidence(cell.id) / FILE).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return float(total)


def read_report(text: str) -> dict[str, int]:
    """Calls by name, most first, and by `raw_syscalls:sys_enter` all together where the kernel's side may be counted."""
    rows = [line.split(";") for line in text.splitlines() if ";" in line]
    counts = {row[2].split(":u")[0].removeprefix(_ENTER): int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit()}
    return dict(sorted(((name, count) for name, count in counts.items() if count), key=lambda row: -row[1]))
