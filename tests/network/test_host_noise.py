"""Two CPU hogs next to a light cell, for real: the machine is named, and never the client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lab.hosts.host import Network
from lab.hosts.namespaces.network import NamespaceNetwork
from lab.model.errors import EXIT_INCONCLUSIVE, EXIT_INVALID
from lab.net.host_load import HostWatch
from lab.net.ports import PortSampler
from lab.run.host_watch import Watcher
from lab.store.run_dir import RunDir, read_cell
from tests.support.command import lab

CELL = "ferry--dsl-20--http1-get-1MiB-at-1MBps"
LONGEST_S = 60
HOG = f"import time\nend = time.monotonic() + {LONGEST_S}\nwhile time.monotonic() < end: pass"
HOGS = max(2, len(os.sched_getaffinity(0)))


@pytest.fixture
def hogs() -> Iterator[None]:
    """Processes outside the lab: started by a shell that has ended, so that the lab is not their ancestor."""
    started = subprocess.run(
        ["sh", "-c", f'for n in $(seq {HOGS}); do "$0" -c "$1" </dev/null >/dev/null 2>&1 & echo $!; done', sys.executable, HOG],
        check=True,
        capture_output=True,
        text=True,
    )
    pids = [int(line) for line in started.stdout.split()]
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_two_cpu_hogs_do_not_make_a_cell_fail(hogs: None, tmp_path: Path) -> None:
    env = {"ROUGHWATER_RESULTS": str(tmp_path), "ROUGHWATER_LOCK": str(tmp_path / "lock")}  # no waiting for others
    started = time.monotonic()
    done = lab("run", CELL, "--clock", "real", "--max-samples", "5", "--json", env=env)
    took_s = time.monotonic() - started
    run = json.loads(done.stdout)
    result = read_cell(RunDir.find(run["run"], results=tmp_path).cell_path(CELL))
    # Next to hogs a link may calibrate or not, before the samples and after them, and a sample may find a quiet moment. Where the
    # link held and the first look was reached, too little is left to decide (rule 2 of lab.judge.host).
    proof = result.certificate
    calibrated = bool(proof and proof.before[-1].ok)
    held = bool(calibrated and proof and proof.after and proof.after[-1].ok)
    looked = held and len(result.samples) >= result.plan[0]
    assert run["verdicts"][CELL] == result.verdict.name == ("INCONCLUSIVE" if looked else "INVALID"), result.verdict.reason
    assert done.returncode == (EXIT_INCONCLUSIVE if looked else EXIT_INVALID), done.stderr
    assert result.host
    assert result.host.before
    assert result.host.before.foreign_cores is not None
    assert result.host.before.foreign_cores > 0.5 * result.host.before.cores, "hogs have at least what the lab leaves"
    if calibrated:
        assert 1 <= len(result.set_aside) <= 5
        assert all("other processes took" in each.reason for each in result.set_aside)
        loads = [each.sample.host.foreign_cores for each in result.set_aside if each.sample.host]
        assert min(each or 0.0 for each in loads) > 0.25
    assert "the host was busy" in result.verdict.reason
    assert took_s < LONGEST_S, "soon, and not when the plan is at its end"


def test_what_the_lab_itself_burns_is_its_own(network: NamespaceNetwork) -> None:
    """A client that takes a core for half a second is not foreign, even if PID 1 of another namespace is its parent."""
    hosts: Network = network
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    with PortSampler(hosts) as ports, HostWatch(ports, Watcher.on(hosts, None, beside=False).roots) as watch:
        hosts.client.run([sys.executable, "-c", burn])
    load = watch.load
    assert load.lab_cores is not None
    # The kernel counts in ticks.
    assert load.lab_cores * load.span_s > 0.5 - 1 / os.sysconf("SC_CLK_TCK")
    assert load.late_p99_ms is not None
