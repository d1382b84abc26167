"""Runs a command on a host with the caller's terminal through a pty, or with plain descriptors where there is no terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType

from lab.hosts.host import AttachedProcess, shell_code

Start = Callable[[tuple[int, int, int], bool], AttachedProcess]


def run_attached(start: Start) -> int:
    """Run `start(descriptors, is_terminal)` to its end and give its exit code as a shell would (128 + signal)."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        process = start((0, 1, 2), False)
        with _forwarded(process):
            return shell_code(_wait(process))
    master, slave = pty.openpty()
    size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
    process = start((slave, slave, slave), True)
    os.close(slave)

    def resize(*_: object) -> None:
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))

    saved = termios.tcgetattr(0)
    before = signal.signal(signal.SIGWINCH, resize)
    try:
        tty.setraw(0)
        _relay(master, process)
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, saved)
        signal.signal(signal.SIGWINCH, before)
        os.close(master)
    return shell_code(_wait(process))


def _relay(master: int, process: AttachedProcess) -> None:
    sources = [0, master]
    while True:
        ready, _, _ = select.select(sources, [], [], 0.2)
        if master in ready:
            # EIO from a pty means that its other end is closed.
            data = b""
            with contextlib.suppress(OSError):
                data = os.read(master, 65536)
            if not data:
                return
            os.write(1, data)
        if 0 in ready:
            typed = os.read(0, 4096)
            if typed:
                os.write(master, typed)
            else:
                sources.remove(0)
        if not ready and not process.running():
            return


def _wait(process: AttachedProcess) -> int:
    while not process.ended(1.0):
        pass
    return process.wait(0).returncode


@contextlib.contextmanager
def _forwarded(process: AttachedProcess) -> Iterator[None]:
    """Ctrl-C and SIGTERM go to the command; its exit code is the result."""

    def forward(number: int, _: FrameType | None) -> None:
        process.signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
