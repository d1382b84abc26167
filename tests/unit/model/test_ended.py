"""Waiting for a process with a limit."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from types import FrameType

import pytest

from lab.model.ended import wait_for_end
from tests.support.waiting import until


class _Stopped(BaseException):
    pass


@pytest.fixture
def stopped_by_alarm() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_it_is_the_exit_code() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "exit 7"]) as process:
        assert wait_for_end(process, 60.0) == 7
        assert wait_for_end(process, 0.0) == 7, "a second time"


def test_it_ends_at_its_limit_and_leaves_the_process() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_for_end(process, 0.01)
        assert process.poll() is None
        process.kill()
        assert wait_for_end(process, 60.0) == -signal.SIGKILL


@pytest.mark.usefixtures("stopped_by_alarm")
def test_a_signal_at_any_moment_leaves_a_process_that_can_be_waited_for() -> None:
    """Popen.wait keeps its lock in some 3 of 100 of these, and the second wait never ends."""
    drawn = random.Random(1)
    for _ in range(200):
        with subprocess.Popen(["sleep", "600"]) as process:
            try:
                signal.setitimer(signal.ITIMER_REAL, drawn.uniform(1e-6, 60e-6))
                wait_for_end(process, 60.0)
            except _Stopped:
                pass
            process.kill()
            until(lambda process=process: process.poll() is not None, "the process can be waited for", 60)
