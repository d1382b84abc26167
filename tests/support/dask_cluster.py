"""A scheduler and workers on this machine's loopback, as processes that end with the tests, whatever happens to these."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import until

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_READY_S = 120.0


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start(*words: str, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """`python WORDS...`. It ends with the thread that starts it, so that thread must outlive it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *words],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - nothing but a system call
        )


class DaskCluster:
    """Use as a context manager. `kill` ends a worker by SIGKILL; `revive` starts what is not there, as a supervisor would."""

    def __init__(self, folder: Path, workers: int, **more: str) -> None:
        self.folder, self.names = folder, [f"w{number}" for number in range(1, workers + 1)]
        self.env = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "15s", **more}
        self.address = ""
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self.start_scheduler()
            self.revive()
            self.wait_for(len(self.names))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start_scheduler(self) -> None:
        """A new one on a free port."""
        place = self.folder / "scheduler.json"
        place.unlink(missing_ok=True)
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        words = ("-m", "distributed.cli.dask_scheduler", *words, "--scheduler-file", str(place))
        self.scheduler = start(*words, env=self.env, log=self.folder / "scheduler.log")

        def ready() -> bool:
            assert self.scheduler.poll() is None, (self.folder / "scheduler.log").read_text()
            return place.exists() and place.read_text().endswith("}")

        until(ready, "the scheduler starts", _READY_S)
        self.address = json.loads(place.read_text())["address"]

    def revive(self) -> list[str]:
        """Start the workers that have ended; their names."""
        ended = [name for name in self.names if name not in self.workers or self.workers[name].poll() is not None]
        for name in ended:
            words = ("-m", "lab.cli.main", "worker", self.address, "--virtual", "1", "--no-real", "--name", name)
            self.workers[name] = start(*words, env=self.env, log=self.folder / f"{name}.log")
        return ended

    def wait_for(self, workers: int) -> None:
        """Until that many have joined the scheduler."""
        from distributed import Client

        with Client(self.address, set_as_default=False, timeout=_READY_S) as client:
            try:
                client.wait_for_workers(workers, timeout=_READY_S)
            except TimeoutError:
                said = "\n".join(f"{name}: {(self.folder / f'{name}.log').read_text()}" for name in self.names)
                raise AssertionError(f"fewer than {workers} workers:\n{said}") from None

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """A signal to a worker, without a word to anybody."""
        self.workers[name].send_signal(number)
        if number == signal.SIGKILL:
            self.workers[name].wait()

    def wait_until_ended(self) -> None:
        """Workers end when their scheduler is gone."""
        for worker in self.workers.values():
            worker.wait(_READY_S)

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        self.scheduler.kill()
        self.scheduler.wait()

    def close(self) -> None:
        """End everything."""
        for process in [*self.workers.values(), *([self.scheduler] if self.scheduler else [])]:
            if process.poll() is None:
                process.kill()
            process.wait()


def run_with_kills(cluster: DaskCluster, command: subprocess.Popen[bytes], every_s: float, most: int | None = None) -> list[str]:
    """Until the command ends, kill a worker every `every_s` seconds and start it again; the names of those that were killed."""
    killed: list[str] = []
    while most is None or len(killed) < most:
        try:
            command.wait(every_s)
        except subprocess.TimeoutExpired:
            killed.append(cluster.names[len(killed) % len(cluster.names)])
            cluster.kill(killed[-1])
            cluster.revive()
        else:
            return killed
    command.wait()
    return killed
