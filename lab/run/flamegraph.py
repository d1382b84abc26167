"""An extra run of a client under perf, as a flame graph in the cell's evidence. It is not a sample and is not judged.

perf counts the processor's clock in the client, with the stacks that frame pointers give; in the kernel too where it may
(`sysctl kernel.perf_event_paranoid=1`), for the function that called it, else in user space alone. The stacks are kept as text.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lab.assets import inferno
from lab.assets.inferno import Inferno
from lab.clients.adapter import ClientAdapter
from lab.hosts.host import Host
from lab.model.cell import Cell
from lab.model.endpoints import Endpoints
from lab.model.errors import LabFault, UsageProblem
from lab.model.scratch import scratch_folder
from lab.model.transfer import Transfer
from lab.run.sample import take_sample
from lab.run.session import Session

FILE = "flamegraph.svg"
STACKS = "stacks.txt"
"""A line per stack: its functions from the outermost in, separated by semicolons, and how often it was seen."""
# An odd rate, so that it does not beat with a timer of the client's.
_RECORD = ("perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "997")
_LONGEST_S = 300.0


@dataclass(frozen=True)
class _Recorded:
    """An adapter whose command runs under perf; everything else is the client's own."""

    inner: ClientAdapter
    data: str

    def command(self, transfer: Transfer, endpoints: Endpoints) -> list[str]:
        return [*_RECORD, "-o", self.data, "--", *self.inner.command(transfer, endpoints)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def get_ready(progress: Callable[[str], None], backend: str = "namespaces") -> Inferno:
    """Provide the tools of a flame graph, before a network is up. Raises UsageProblem where perf is missing or may not count."""
    if backend != "namespaces":
        raise UsageProblem("--flamegraph needs perf on the client's host", remedy="use it with --backend namespaces")
    if shutil.which("perf") is None:
        raise UsageProblem("--flamegraph needs perf, which is not installed", remedy="sudo apt-get install linux-perf")
    with scratch_folder("roughwater-") as folder:
        argv = [*_RECORD, "-o", f"{folder}/perf.data", "--", "true"]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    if done.returncode:
        why = next((line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()), "it printed no reason")
        remedy = "sudo sysctl kernel.perf_event_paranoid=2; in a container also --cap-add PERFMON"
        raise UsageProblem(f"perf cannot record on this machine: {why[:160]}", remedy=remedy)
    return inferno.build(progress)


def record(session: Session, cell: Cell, tools: Inferno) -> Path:
    """Run the cell's transfer once more and write its flame graph. Raises LabFault when perf recorded nothing."""
    with session.bench(cell.id, cell.topology, real=True) as (network, servers):
        session.progress.step(f"{cell.id}: one run for the flame graph")
        client = network.client
        adapter = session.lab.adapter_on(client.under_test, cell.client, cell.transfer, cell.id)
        adapter.identify(client.under_test)
        data = str(client.workdir / "perf.data")
        recorded = cast(ClientAdapter, _Recorded(adapter, data))
        sample = take_sample(network, servers, recorded, cell.transfer, 0)
        stacks = _stacks(client, data)
    if not stacks.strip():
        raise LabFault(f"perf recorded no stacks of {cell.client.name}: {sample.problem or 'it was done too soon'}")
    folded = _pipe([tools.collapse], stacks)
    path = session.run.evidence(cell.id) / FILE
    path.with_name(STACKS).write_bytes(folded)
    path.write_bytes(_pipe([tools.draw, "--title", cell.id], folded))
    return path


def share(stacks: str, function: str) -> float | None:
    """The share of all samples in which `function` is on the stack; None without samples."""
    counted = [line.rpartition(" ")[::2] for line in stacks.splitlines() if line]
    total = sum(int(count) for _, count in counted)
    found = sum(int(count) for stack, count in counted if function in stack.split(";"))
    return found / total if total else None


def _stacks(client: Host, data: str) -> bytes:
    """Read where it was recorded: there the programs are that its addresses belong to.

    Without inlined functions, for which perf asks another program about every address.
    """
    try:
        return client.run(["perf", "script", "-f", "--no-inline", "-i", data], timeout_s=_LONGEST_S).stdout
    finally:
        client.run(["rm", "-f", "--", data], check=False)


def _pipe(argv: list[str | Path], text: bytes) -> bytes:
    done = subprocess.run(argv, input=text, capture_output=True, timeout=_LONGEST_S, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise LabFault(f"{Path(argv[0]).name} failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout
