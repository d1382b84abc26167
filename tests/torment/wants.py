"""A machine may lack room on the disk, memory or time, and its clock may be set. The command says so; its results are complete.

Each function takes the seed's next draw, runs a cell in virtual time, and yields a line for each problem. In virtual time a
process that was stopped, and a clock that was set, must not change the result at all.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS, EXIT_USAGE
from lab.model.results import CellResult
from lab.store.deterministic import first_difference, view
from lab.store.run_dir import RunDir
from tests.torment import cables, engines, own_engine
from tests.torment.kills import Torment, read_all
from tests.torment.rows import FEW, VIRTUAL

_FAKETIME = "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
STOPPED_S = 30.0
# The judge would ask for up to 80 samples of this client.
_FEW = (*VIRTUAL, *FEW)
_LONGEST_S = 180.0
_VERDICTS = (EXIT_PASS, EXIT_FAIL, EXIT_INCONCLUSIVE)
# A machine in virtual time has 176 MB and more of its own; below that the lab cannot start, far above nothing is lacking.
_MEMORY_MB = (16, 600)
_DISK_KB = (0, 400)
_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")

Want = Callable[[Torment, random.Random], Iterator[str]]


def full_disk(torment: Torment, chance: random.Random) -> Iterator[str]:
    """Results on a file system of a drawn size."""
    size_kb = chance.randrange(*_DISK_KB, 4)
    results = torment.work / "small"
    results.mkdir(exist_ok=True)
    torment.machine.said("mount", "-t", "tmpfs", "-o", f"size={size_kb or 4}k", "small", str(results))
    try:
        code, said = _end(torment.start(*_FEW, results=results, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        where = f"disk of {size_kb} kB"
        if code not in _VERDICTS:
            yield from _one_line(where, code, said, "disk is full")
        # The file system is seen in that machine only.
        copy = torment.work / "copy"
        torment.machine.said("cp", "-a", str(results), str(copy))
        yield from (f"{where}: {half}" for half in read_all(copy)[2])
        shutil.rmtree(copy)
    finally:
        torment.machine.said("umount", str(results))


def little_memory(torment: Torment, chance: random.Random) -> Iterator[str]:
    """A control group with a drawn limit: the kernel ends processes in it."""
    limit_mb = chance.randrange(*_MEMORY_MB)
    results = torment.work / "results"
    shutil.rmtree(results, ignore_errors=True)
    before, others = torment.machine.state(), torment.machine.processes()
    with _memory_group(limit_mb) as procs:
        enter = ["/bin/sh", "-c", f'echo $$ >{procs}; exec "$0" "$@"']
        command = torment.start(*_FEW, results=results, under=enter, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        code, said = _end(command)
        where = f"{limit_mb} MB of memory"
        # Negative: the kernel has ended the lab itself.
        if code not in (*_VERDICTS, -signal.SIGKILL):
            yield from _one_line(where, code, said, "")
        if torment.machine.processes() != others:
            time.sleep(5)
        if torment.machine.processes() != others:
            yield f"{where}: left {torment.machine.processes()}"
        if torment.machine.state() != before:
            yield f"{where}: the machine has changed"
        yield from (f"{where}: {half}" for half in read_all(results)[2])


def stopped(torment: Torment, chance: random.Random) -> Iterator[str]:
    """SIGSTOP for 30 s at a drawn moment, to the lab alone: its machine goes on."""
    moment_s = chance.uniform(0.5, 4.0)

    def stop(command: subprocess.Popen[bytes]) -> None:
        time.sleep(moment_s)
        command.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        command.send_signal(signal.SIGCONT)

    yield from _same_result(torment, f"stopped for {STOPPED_S:g} s after {moment_s:.2f} s", meanwhile=stop)


def clock_set(torment: Torment, chance: random.Random) -> Iterator[str]:
    """The clock of the lab's processes jumps at a drawn moment, by a drawn time, and they cannot tell (faketime(1))."""
    jump_s = chance.choice((-86400, -3600, -1, 1, 3600, 86400))
    moment_s = chance.uniform(0.5, 4.0)
    rate = torment.work / "faketimerc"
    rate.write_text("+0\n")

    def jump(command: subprocess.Popen[bytes]) -> None:
        del command
        time.sleep(moment_s)
        rate.write_text(f"{jump_s:+d}\n")

    under = ["env", f"FAKETIME_TIMESTAMP_FILE={rate}", "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", _FAKETIME]
    yield from _same_result(torment, f"clock set by {jump_s:+d} s after {moment_s:.2f} s", under=under, meanwhile=jump)


WANTS: dict[str, Want] = {
    "full disk": full_disk,
    "little memory": little_memory,
    "stopped for 30 s": stopped,
    "clock set": clock_set,
    "cable pulled": cables.pulled,
    "cable pulled for good": cables.pulled_for_good,
    "engine of containers restarted": engines.restarted,
    "engine of containers killed": engines.killed,
    "engine of containers away": engines.away,
}


def lacking(name: str) -> str:
    """Why this want cannot be tried on this machine; empty if it can."""
    if name == "little memory" and _group_root() is None:
        return "this user may not make a control group for memory"
    if name == "clock set" and shutil.which("faketime") is None:
        return "faketime is not installed: apt-get install faketime"
    if name.startswith("cable") and os.geteuid():
        return "only root may make machines of namespaces"
    return own_engine.lacking() if name.startswith("engine") else ""


def _same_result(
    torment: Torment, where: str, *, under: list[str] | None = None, meanwhile: Callable[[subprocess.Popen[bytes]], None]
) -> Iterator[str]:
    results = torment.work / "results"
    shutil.rmtree(results, ignore_errors=True)
    command = torment.start(*_FEW, results=results, under=under or [], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    meanwhile(command)
    code, said = _end(command)
    if code not in _VERDICTS:
        yield f"{where}: exit code {code}: {said}"
        return
    found = next(iter(RunDir.find("latest", results=results).read_cells()))
    if difference := first_difference(view(_expected(torment)), view(found)):
        yield f"{where}: another result: {difference}"


def _expected(torment: Torment) -> CellResult:
    """The result of the same cell, undisturbed; made once."""
    results = torment.work / "undisturbed"
    if not results.exists():
        torment.said(*_FEW, results=results)
    return RunDir.find("latest", results=results).read_cells()[0]


def _end(command: subprocess.Popen[bytes]) -> tuple[int, str]:
    try:
        said, _ = command.communicate(timeout=_LONGEST_S)
    except subprocess.TimeoutExpired:
        command.kill()
        said, _ = command.communicate()
        return command.returncode, f"still ran after {_LONGEST_S:g} s: {said.decode(errors='replace')}"
    return command.returncode, said.decode(errors="replace")


def _one_line(where: str, code: int, said: str, telling: str) -> Iterator[str]:
    lines = [line for line in said.splitlines() if line.startswith("lab: ")]
    if code not in (EXIT_USAGE, EXIT_INVALID) or len(lines) > 1 or "Traceback" in said or telling not in said:
        yield f"{where}: exit code {code}: {said[-600:]!r}"


def _group_root() -> Path | None:
    for root in (_V1, _V2):
        probe = root / "roughwater-probe"
        with suppress(OSError):
            probe.mkdir()
            limits = any((probe / name).exists() for name in ("memory.limit_in_bytes", "memory.max"))
            probe.rmdir()
            if limits:
                return root
    return None


@contextmanager
def _memory_group(limit_mb: int) -> Iterator[Path]:
    """The file of a group's processes; those in it at the end are killed."""
    root = _group_root()
    assert root is not None
    group = root / f"roughwater-{limit_mb}-{time.monotonic_ns()}"
    group.mkdir()
    limit = next(group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists())
    try:
        limit.write_text(str(limit_mb << 20))
        yield group / "cgroup.procs"
    finally:
        for _ in range(100):
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)
