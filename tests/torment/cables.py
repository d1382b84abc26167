"""A cable between this machine and those that it reaches over SSH: pulled for 30 s, or for good.

The machines are the namespaces of `tests/vagrant/three.py`, which are reached through an sshd for each connection. While such an
sshd and what it has started stand still nothing passes, as with a cable that is out. Needs root.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from lab.hosts.vagrant import machines, network
from lab.judge.tolerance import LookPlan
from lab.model.cell import Cell
from lab.model.endpoints import Endpoints
from lab.model.errors import RoughwaterError
from lab.model.load import load_topology
from lab.model.results import Sample
from lab.model.transfer import ClientSpec, Expectation, Transfer
from lab.model.units import Size
from lab.run.instruments import Instruments
from lab.run.options import Options
from lab.run.session import Session
from lab.servers.bundle import Servers
from lab.store.run_dir import RunDir
from tests.support.processes import command, descendants
from tests.torment.kills import Torment, read_all
from tests.unit.store.conftest import make_calibration, make_sample
from tests.vagrant.three import Three

PULLED_S = 30.0
_SECONDS = 4
"""What a sample of these cells takes: a command on the client's machine."""


def pulled(torment: Torment, chance: random.Random) -> Iterator[str]:
    """For 30 s, during the second sample. The cell is judged, or INVALID in one line; nothing hangs."""
    yield from _cell(torment, chance.uniform(0.0, _SECONDS - 1), PULLED_S)


def pulled_for_good(torment: Torment, chance: random.Random) -> Iterator[str]:
    """The same, and it is not put in again. ssh notices after a minute."""
    yield from _cell(torment, chance.uniform(0.0, _SECONDS - 1), None)


def _cell(torment: Torment, after_s: float, pulled_s: float | None) -> Iterator[str]:
    before = set(descendants(os.getpid()))
    results = torment.work / "cables"
    with tempfile.TemporaryDirectory(prefix="roughwater-cable-") as folder:
        three = Three(Path(folder))
        three.start()
        try:
            yield from _run(three, results, after_s, pulled_s)
        finally:
            three.stop()
    end = time.monotonic() + 30
    while (left := set(descendants(os.getpid())) - before) and time.monotonic() < end:
        time.sleep(0.1)
    yield from (f"left {command(pid)}" for pid in left)
    yield from read_all(results)[2]


def _run(three: Three, results: Path, after_s: float, pulled_s: float | None) -> Iterator[str]:
    where = f"cable pulled after {after_s:.1f} s, for {'good' if pulled_s is None else f'{pulled_s:g} s'}"
    stilled: list[int] = []

    def pull() -> None:
        time.sleep(after_s)
        for name, process in three.processes.items():
            stilled.extend(_still(name, process.pid))
        if pulled_s is not None:
            time.sleep(pulled_s)
            _release(stilled)

    def sample(*words: Any, **_: object) -> Sample:
        if words[4] == 1:
            threading.Thread(target=pull, daemon=True).start()
        words[0].client.run(["sleep", str(_SECONDS)], timeout_s=120.0)
        return make_sample(words[4], None)

    cell = Cell(
        client=ClientSpec(name="curl"),
        topology=load_topology("link-local"),
        transfer=Transfer.model_validate({"protocol": "http1", "direction": "get", "size": Size(300_000)}),
        expectation=Expectation(kind="none"),
    )
    ends = Endpoints("server", "/srv", "/run", "ca.pem", "known_hosts", "key")
    begun = time.monotonic()
    with (
        patch.dict(os.environ, {machines.CONFIG_VARIABLE: str(three.folder / "config")}),
        patch.object(network, "kernel_has_netem", lambda _: True),
        patch.object(network, "_PROBE_DELAY_MS", 0.0),
    ):
        instruments = Instruments(
            open_network=lambda *_, **__: network.open_network(name="cable"),
            start_servers=lambda *_, **__: cast(Servers, SimpleNamespace(endpoints=ends)),
            calibrate=lambda *_, attempt, **__: make_calibration(attempt=attempt),
            take_sample=sample,
        )
        options = Options(instruments=instruments, looks=LookPlan(looks=(3,)))
        try:
            with Session(RunDir.create("cable", results=results), options) as session:
                verdict = session.run_cell(cell).verdict
                told = f"{verdict.name}: {verdict.reason}"
        except RoughwaterError as fault:
            told = f"{type(fault).__name__}: {fault.message}"
        finally:
            _release(stilled)
    print(f"{where}: after {time.monotonic() - begun:.0f} s {told}", flush=True)
    if "\n" in told or not told.startswith(("PASS", "INVALID")):
        yield f"{where}: {told}"


def _still(name: str, holder: int) -> list[int]:
    """Stop every process inside a machine except its holder."""
    mine = Path(f"/proc/{holder}/ns/net").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "ns/net").readlink() == mine and int(path.name) != holder:
                os.kill(int(path.name), signal.SIGSTOP)
                found.append(int(path.name))
    assert found, f"nothing runs in machine {name}"
    return found


def _release(pids: list[int]) -> None:
    while pids:
        with suppress(ProcessLookupError):
            os.kill(pids.pop(), signal.SIGCONT)
