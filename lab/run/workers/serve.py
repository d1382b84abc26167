"""A worker: what this machine offers, and the process that serves a scheduler until it is ended."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import asyncio
import os
import platform
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.assets import wine
from lab.model.errors import LabFault, UsageProblem
from lab.model.extras import install_extra
from lab.run.doctor import virtual
from lab.run.workers.cluster import no_scheduler, quieten

_SCHEDULER_S = 30.0


def offers(cores: int | None = None, *, real: bool = True, more: Sequence[str] = ()) -> tuple[dict[str, float], list[str]]:
    """The resources of this machine, and one line for each that it cannot offer.

    A machine in virtual time is booted to see whether that works. `cores` is how many of them run at once, 0 for none.
    """
    count = len(os.sched_getaffinity(0)) if cores is None else cores
    found: dict[str, float] = {}
    problems = []
    if count:
        (check,) = virtual()
        if check.level == "ok":
            found["virtual"] = count
        else:
            problems.append(f"no virtual: {check.found}{f' ({check.remedy})' if check.remedy else ''}")
    if real:
        found["real"] = 1
        if wine.find_program() is not None:
            found["windows"] = 1
    everywhere = threads(found)
    found |= dict.fromkeys([f"arch:{platform.machine()}", *more], everywhere)
    return found, problems


def threads(offered: Mapping[str, float]) -> int:
    """The number of questions that may be there at once: those in virtual time, and one in real time that waits for its turn."""
    return int(offered.get("virtual", 0) + offered.get("real", 0)) or 1


def serve(address: str, offered: Mapping[str, float], name: str | None = None) -> None:
    """Work for the scheduler at `address` until it ends, or a signal ends this process.

    Raises UsageProblem where no scheduler answers, LabFault where it is lost.
    """
    try:
        import dask
        from distributed import Worker
    except ImportError:
        raise UsageProblem("workers are reached by Dask, which is not installed", remedy=install_extra("distributed")) from None
    quieten()
    # Dask's profiler looks at every thread every 10 ms.
    dask.config.set({"distributed.worker.profile.enabled": False})

    async def work() -> bool:
        """True if a signal ended the work."""
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        # The memory that counts is that of machines in virtual time, which are other processes.
        worker = Worker(
            address,
            nthreads=threads(offered),
            resources=dict(offered),
            name=name,
            memory_limit=0,
            death_timeout=_SCHEDULER_S,
            local_directory=str(Path(tempfile.gettempdir()) / f"roughwater-{os.getuid()}"),
        )
        starting = asyncio.ensure_future(worker)
        ending = asyncio.ensure_future(told.wait())
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return True
        await starting
        finished = asyncio.ensure_future(worker.finished())
        await asyncio.wait({finished, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not finished.done():
            await worker.close(timeout=2, executor_wait=False)
        return ending.done()

    try:
        was_told = asyncio.run(work())
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        raise no_scheduler(address, error) from error
    if not was_told:
        raise LabFault(f"the scheduler at {address} is gone", remedy="a supervisor starts the worker again")
