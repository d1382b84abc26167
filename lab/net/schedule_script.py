"""Runs on the router: hands tc its commands when they are due. Standard library only.

usage: schedule_script.py FILE BASE_NS REPEAT_NS TC

FILE has a line per instant: nanoseconds after BASE_NS (CLOCK_MONOTONIC), and the commands, with tabs between. With a REPEAT_NS
that is not 0 all of it happens again after that time. One tc does everything (`tc -batch -`), because starting one takes longer
than a change may be late. Prints the time that was due and the time of each change; ends on SIGTERM with tc's exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

_LONG_NS = 10_000_000


class Ended(Exception):
    """The lab has ended the schedule."""


def end(_number: int, _frame: object) -> None:
    raise Ended


def be_punctual() -> None:
    """Let no sleep end later than it has to (timer slack): the kernel would join it with the timers of others."""
    with suppress(OSError), open("/proc/self/timerslack_ns", "w", encoding="ascii") as slack:  # noqa: PTH123
        slack.write("1")


def sleep_until(due_ns: int) -> None:
    """A long sleep may take 0.1 % longer than it is asked to: its end is slept apart."""
    while (left := due_ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9 * (0.999 if left > _LONG_NS else 1))


def run(changes: list[tuple[int, list[str]]], base: int, repeat: int, tc: int) -> None:
    while True:
        for after, commands in changes:
            sleep_until(base + after)
            now = time.monotonic_ns()
            os.write(tc, "".join(f"{command}\n" for command in commands).encode())
            os.write(1, b"%d %d\n" % (base + after, now))
        if not repeat:
            break
        base += repeat
    # Not by pause(), which would sleep through a signal that came right before it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    raise Ended


def main(path: str, base: str, repeat: str, program: str) -> int:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        rows = [line.rstrip("\n").split("\t") for line in file]
    signal.signal(signal.SIGTERM, end)
    be_punctual()
    tc = subprocess.Popen([program, "-batch", "-"], stdin=subprocess.PIPE, start_new_session=True)
    assert tc.stdin is not None
    try:
        run([(int(row[0]), row[1:]) for row in rows], int(base), int(repeat), tc.stdin.fileno())
    except (Ended, BrokenPipeError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tc.stdin.close()
    return tc.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
