"""Fork a command to where its host is, and reap it. Standard library only, and little of it: part of every agent."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time

TYPE_CHECKING = False  # typing's own costs a machine in virtual time 10 ms of its boot
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Child:
    """A command in its own session and process group."""

    def __init__(self, pid: int, started_ns: int) -> None:
        self.pid = pid
        self.started_ns = started_ns

    def kill(self, number: int) -> None:
        """Signal the process group of a command that has not been reaped yet."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # Just forked: it has not made its session yet.
            try:  # noqa: SIM105
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def kill_rest(self) -> None:
        """SIGKILL the processes that an ended command left in its group."""
        try:  # noqa: SIM105
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Ending:
    """The end of a child, and the CPU seconds that the child and its own children took."""

    def __init__(self, pid: int, code: int, user_s: float, system_s: float) -> None:
        self.pid, self.code = pid, code
        self.user_s, self.system_s = user_s, system_s
        self.ended_ns = time.monotonic_ns()


def reap() -> Iterator[Ending]:
    """Wait for every child that has ended."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield Ending(pid, os.waitstatus_to_exitcode(status), usage.ru_utime, usage.ru_stime)


def wake_on_children() -> int:
    """A descriptor that becomes readable whenever a child has ended."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read_end


def clear(wake: int) -> None:
    """Make that descriptor wait for the next child."""
    try:  # noqa: SIM105
        os.read(wake, 4096)
    except BlockingIOError:
        pass


def find_program(name: str, path: str) -> str:
    """The program as execvp(3) finds it in that PATH. Raises FileNotFoundError."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        if os.access(f"{folder or '.'}/{name}", os.X_OK, effective_ids=True):
            return f"{folder or '.'}/{name}"
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def fork_into(
    argv: list[str],
    *,
    env: dict[str, str],
    cwd: str | None,
    stdio: tuple[int, int, int],
    enter: Callable[[], None],
    terminal: bool,
) -> Child:
    """`enter` runs in the child: it enters the command's host and becomes the command's user.

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
