"""A signal ends the lab and its machine at once, whatever runs inside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from lab.hosts.virtual.network import VirtualNetwork
from tests.support.waiting import PATIENCE_S, until

SPIN = "while True: pass"


def test_a_program_that_computes_is_reported_and_sigterm_ends_it(tmp_path: Path) -> None:
    """In its own session: a signal to the lab alone, as a runner of jobs sends it."""
    words = ["shell", "--clock", "virtual", "--topology", "dsl-20", "--", sys.executable, "-c", SPIN]
    said = tmp_path / "said"
    with said.open("wb") as file:
        lab = subprocess.Popen([sys.executable, "-m", "lab.cli.main", *words], stderr=file, start_new_session=True)
    try:
        until(lambda: b"Computing takes no virtual time" in said.read_bytes(), "the lab says so", 120)
        family = psutil.Process(lab.pid).children(recursive=True)
        assert family
        lab.send_signal(signal.SIGTERM)
        assert lab.wait(PATIENCE_S) == 128 + signal.SIGTERM
    finally:
        lab.kill()
    until(lambda: not any(each.is_running() for each in family), "the machine is gone")


def test_who_tidies_up_after_an_interruption_meets_it_again(own: VirtualNetwork) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        own.client.run([sys.executable, "-c", SPIN], timeout_s=1e6)
    timer.join()
    with pytest.raises(KeyboardInterrupt):
        own.server.run(["true"])
