"""Fork a command to where its host is. Standard library only, and little of it: part of every agent."""

from __future__ import annotations

import fcntl
import os
import signal
import time

TYPE_CHECKING = False  # typing's own costs a machine in virtual time 10 ms of its boot
if TYPE_CHECKING:
    from collections.abc import Callable


class Child:
    """A command in a session, and so a process group, of its own."""

    def __init__(self, pid: int, started_ns: int) -> None:
        self.pid = pid
        self.started_ns = started_ns

    def kill(self, number: int) -> None:
        """Signal the whole group of a command that has not been reaped yet."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # Just forked: it has not made its session yet.
            try:  # noqa: SIM105
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill_rest(self) -> None:
        """SIGKILL what a command that has ended left running in its group."""
        try:  # noqa: SIM105
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def fork_into(
    argv: list[str],
    *,
    env: dict[str, str],
    cwd: str | None,
    stdio: tuple[int, int, int],
    enter: Callable[[], None],
    terminal: bool,
) -> Child:
    """`enter` runs in the child: it goes to the command's host, and becomes who the command is to be.

    Exit code 127 when there is no such command, 126 when it cannot be executed, with the reason on its stderr.
    """
    started_ns = time.monotonic_ns()
    pid = os.fork()
    if pid:
        return Child(pid, started_ns)
    code = 126
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        for target, source in enumerate(stdio):
            os.dup2(source, target, inheritable=True)
        if terminal:
            import termios

            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        enter()
        if cwd is not None:
            os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except FileNotFoundError:
        code = 127
        _tell(f"{argv[0]}: not found" if cwd is None or os.path.isdir(cwd) else f"{cwd}: no such folder")  # noqa: PTH112
    except OSError as error:
        _tell(f"{argv[0]}: {error}")
    finally:
        os._exit(code)


def _tell(text: str) -> None:
    try:  # noqa: SIM105
        os.write(2, text.encode() + b"\n")
    except OSError:
        pass
