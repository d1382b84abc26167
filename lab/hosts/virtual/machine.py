"""Boots the machine in virtual time, and sends requests to its PID 1 (`guest`).

It is a process of the lab's own user with no privilege, network or file of the host's but what it may read. It ends with the lab:
by its parent-death signal while it works, by the end of its channel while it waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.assets import kernel
from lab.hosts.agent import frames
from lab.hosts.agent.places import MARSHAL_VERSION
from lab.hosts.virtual import processes
from lab.hosts.virtual.cores import Core
from lab.hosts.virtual.ending import why
from lab.hosts.virtual.forked import Forked
from lab.hosts.virtual.program import bootstrap, first_program, interpreter
from lab.hosts.virtual.watchdog import Watchdog
from lab.model.clock import CHARGE_NS, EPOCH_S
from lab.model.ended import wait_for_end
from lab.model.errors import LabFault

CHARGE_MOST_NS = 10_000
# Without TMPDIR its memory is anonymous, with a HOME that is not there it makes no folder. And it takes the address of a variable
# for the top of its address space (get_top_address in arch/um/kernel/um_arch.c): without one, its programs die.
_ENVIRONMENT = {"HOME": "/nonexistent"}
_READ_BYTES = 1 << 18
_PIPE_BYTES = 1 << 17
_EXECUTE = "set ROUGHWATER_CACHE to a folder that programs may be executed from, or allow it in memory: sysctl vm.memfd_noexec=0"
_LOOK_S = 0.5
# A fifth of the usual rate per byte of memory, a quarter of which is a transfer's.
_SLOWEST_BYTE_S = 20e6
_MOST_ENDINGS = 3
_COMPUTING = (
    "a program has computed for ten seconds without waiting. Computing takes no virtual time until the kernel interrupts the "
    "program, and then 10 ms: this takes long, and may not repeat. Ctrl-C ends it; `--clock real` has a clock that goes on"
)


_BOOT_SEED = 1
"""Every machine boots with the same random numbers, so that one can be a fork of another; `vary` seeds them for its cell."""


@dataclass(frozen=True)
class Boot:
    """The parameters of one machine. `seed`: what its random numbers follow from, from the first `vary` on."""

    seed: int
    memory_bytes: int = 1 << 30
    charge_ns: int = CHARGE_NS
    charge_most_ns: int = CHARGE_MOST_NS

    def words(self, channel: tuple[int, ...]) -> list[str]:
        """The kernel's command line. `channel`: the descriptors for requests and answers, and, if it makes others, for those."""
        return [
            f"mem={self.memory_bytes >> 20}M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            f'init="{interpreter()}"',
            "con=null",
            "con0=null,fd:1",
            "quiet",
            "seccomp=on",
            "time-travel=inf-cpu",
            f"time-travel-start={EPOCH_S}000000000",
            f"time-travel-charge={self.charge_ns},{self.charge_most_ns}",
            "norandmaps",
            f"random-seed={_BOOT_SEED}",
            f"hostchan={','.join(map(str, channel))}",
            "--",
            "-I",
            "-S",
            "-c",
            f'"{bootstrap()}"',
        ]


@dataclass
class Patience:
    """The limits at which the programs of a request are ended. CPU seconds are limited, because a busy host slows the machine."""

    cpu_s: float = 60.0
    real_s: float = 1800.0

    @classmethod
    def for_machine(cls, boot: Boot) -> Patience:
        """Time for the slowest transfer that fits into its memory, or ROUGHWATER_PATIENCE_S seconds of CPU time."""
        told = os.environ.get("ROUGHWATER_PATIENCE_S")
        return cls(float(told) if told else 30.0 + boot.memory_bytes / _SLOWEST_BYTE_S)


def _to_stderr(line: str) -> None:
    print(f"lab: {line}", file=sys.stderr, flush=True)


@dataclass
class Machine:
    """A booted machine. One request at a time, whichever thread asks; its clock stands still in between."""

    boot: Boot
    process: subprocess.Popen[bytes] | Forked
    requests: int
    answers: int
    console: int
    core: Core
    forks: socket.socket | None = None
    """The socket on which a machine is asked for others that go on from its state."""
    patience: Patience = field(default_factory=Patience)
    now_ns: int = 0
    phase_ns: int = 0
    """The delay of clients' starts after a tick."""
    start_ns: int = 0
    """When the next client begins, if it has been said."""
    placed: dict[str, str] = field(default_factory=dict)
    """Folders of the real host, and where the machine shows them."""
    booted: float = field(default_factory=time.monotonic)
    """Seconds of this host's clock."""
    endings: list[str] = field(default_factory=list)
    """Each time that programs were ended because they used too much: how much that was."""
    lasting: frozenset[int] = frozenset()
    """Programs that were there before the latest command: servers, and what else the lab keeps."""
    warn: Callable[[str], None] = _to_stderr
    """Takes a line for the person who waits."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _closed: bool = False
    _interruption: BaseException | None = None

    @classmethod
    def start(cls, boot: Boot, *, patience: Patience | None = None, for_forks: bool = False) -> Machine:
        """Boot one, on a core of its own where there is one. Raises LabFault with the kernel's last words."""
        lines = _Lines()
        ours, theirs = map(_socket_high, socket.socketpair()) if for_forks else (None, None)
        program = _high(kernel.kernel_fd())
        channel = (*lines.theirs, *([theirs.fileno()] if theirs else []))
        words = ["linux", *boot.words(channel)]
        try:
            process = subprocess.Popen(
                words,
                executable=f"/proc/self/fd/{program}",
                stdin=subprocess.DEVNULL,
                stdout=lines.console,
                stderr=lines.console,
                pass_fds=(*channel, program),
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            lines.close()
            if ours:
                ours.close()
            raise LabFault(f"the kernel of virtual time cannot be executed: {error.strerror or error}", remedy=_EXECUTE) from None
        finally:
            lines.hand_over()
            os.close(program)
            if theirs:
                theirs.close()
        _place(process.pid, lines.core.number)
        return cls._on(lines, boot, process, patience, first=[first_program()], forks=ours)

    @classmethod
    def _on(
        cls,
        lines: _Lines,
        boot: Boot,
        process: subprocess.Popen[bytes] | Forked,
        patience: Patience | None,
        *,
        first: Sequence[bytes] = (),
        forks: socket.socket | None = None,
    ) -> Machine:
        """The machine, once it has taken `first` and answered."""
        patience = patience or Patience.for_machine(boot)
        machine = cls(boot, process, lines.requests, lines.answers, lines.console, lines.core, forks, patience)
        try:
            if first:
                machine._send(first)
            machine._receive()
        except BaseException:
            machine.close()
            raise
        return machine

    def serve_forks(self) -> None:
        """From now on this machine only makes others: it answers no request."""
        self._send([_encoded({"op": "serve_forks"})])

    def fork(self, boot: Boot, *, patience: Patience | None = None) -> Machine:
        """A machine that goes on where this one stands, which `serve_forks`. Raises LabFault where there is no memory for it."""
        assert self.forks is not None, "it was started without `for_forks`"
        lines = _Lines()
        try:
            with self._lock:
                socket.send_fds(self.forks, [struct.pack("=i", lines.core.number)], [*lines.theirs, lines.console])
                (pid,) = struct.unpack("=i", self.forks.recv(4, socket.MSG_WAITALL))
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
        except (KeyboardInterrupt, SystemExit):
            self.close()  # its answer is still to come, and would be taken for the next one
            raise
        except (OSError, struct.error) as error:
            lines.close()
            raise LabFault(f"a machine in virtual time could not be forked: {error}") from None
        finally:
            lines.hand_over()
        return self._on(lines, boot, Forked(pid), patience)

    def ask(self, message: dict[str, Any], blobs: Sequence[bytes] = ()) -> tuple[dict[str, Any], list[bytes]]:
        """One request, one answer; the machine runs only meanwhile. Raises LabFault when it has ended or reports an error.

        A signal meanwhile ends the machine: whatever runs in it would have to end before it took another request. Each later
        request meets the same exception again.
        """
        with self._lock:
            if self._interruption is not None:
                raise type(self._interruption)(*self._interruption.args)
            if self._closed:
                raise LabFault("the machine in virtual time has been closed")
            if message["op"] == "run":
                self.lasting = frozenset(processes.children(self.process.pid))
            request = _encoded(message, blobs)
            try:
                self._send([request])
                answer, more = self._receive()
            except (KeyboardInterrupt, SystemExit) as interruption:
                self._interruption = interruption
                self.close()
                raise
        if "error" in answer:
            raise LabFault(f"the machine in virtual time could not {message['op']}: {answer['error']}")
        return answer, more

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End it at once: all it has is memory. Idempotent, from any thread."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        with self._lock:
            for fd in (self.requests, self.answers, self.console):
                os.close(fd)
        if self.forks:
            self.forks.close()
        self.core.give_back()

    def cpu_s(self) -> float:
        """CPU seconds of the host that the machine has used so far."""
        return processes.tree_cpu_s(self.process.pid)[1]

    def _send(self, parts: Sequence[bytes]) -> None:
        try:
            frames.write(self.requests, parts)
        except BrokenPipeError:
            raise LabFault(self._last_words()) from None

    def _receive(self) -> tuple[dict[str, Any], list[bytes]]:
        decoder = frames.Decoder(marshal.loads)
        answer, blobs = next(frame for chunk in self._chunks() for frame in decoder.feed(chunk))
        self.now_ns = int(answer["now_ns"])
        return answer, blobs

    def _chunks(self) -> Iterator[bytes]:
        # Read for requests that last only: it means a file for each process inside, and most requests take less time than that.
        begun, cpu_before, ended = time.monotonic(), -1.0, 0
        watchdog = Watchdog()
        while True:
            ready, _, _ = select.select([self.answers], [], [], _LOOK_S)
            if ready:
                chunk = os.read(self.answers, _READ_BYTES)
                if not chunk:
                    raise LabFault(self._last_words())
                yield chunk
                continue
            kernel_s, all_s = processes.tree_cpu_s(self.process.pid)
            if watchdog.barks(kernel_s, all_s):
                self.warn(_COMPUTING)
            cpu_before = all_s if cpu_before < 0 else cpu_before
            used, waited = all_s - cpu_before, time.monotonic() - begun
            if used > self.patience.cpu_s * (1 + ended) or waited > self.patience.real_s:
                said = f"used {used:.0f} s of CPU time without coming to an end"
                if ended == _MOST_ENDINGS or not self._end_programs():
                    raise LabFault(f"a program in the machine in virtual time {said} ({waited:.0f} s), and cannot be ended")
                ended += 1
                self.endings.append(said)

    def _end_programs(self) -> bool:
        """End the processes of the latest command, or else the program that has used most CPU time."""
        pid = self.process.pid
        return processes.end_children(pid, self.lasting) or processes.end_busiest_child(pid)

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            wait_for_end(self.process, 5.0)
        text = os.pread(self.console, 1 << 20, 0).decode(errors="replace") if not self._closed else ""
        return f"the machine in virtual time ended: {why(text, self.process.returncode, self.boot.memory_bytes)[:300]}"


class _Lines:
    """A new machine's console, its core, and both ends of its channel."""

    def __init__(self) -> None:
        self.console = _memory_file("console")
        request_read, self.requests = _pipe()
        self.answers, answer_write = _pipe()
        self.theirs = (request_read, answer_write)
        self.core = Core.take()

    def hand_over(self) -> None:
        """The machine has its ends."""
        for fd in self.theirs:
            os.close(fd)

    def close(self) -> None:
        """No machine came of it."""
        self.core.give_back()
        for fd in (self.requests, self.answers, self.console):
            os.close(fd)


def _encoded(message: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    return b"".join(frames.encode(lambda head: marshal.dumps(head, MARSHAL_VERSION), message, blobs))


def _memory_file(name: str) -> int:
    try:
        return os.memfd_create(name)
    except OSError as error:
        raise LabFault(
            f"no memory for a machine in virtual time: memfd_create(2): {error.strerror}",
            remedy="a container's seccomp profile must allow it; Docker's own does",
        ) from None


def _pipe() -> tuple[int, int]:
    """With room for the first program, so that a kernel that never reads it meets the patience of `_receive`."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # above the user's share (pipe(7)); then the kernel is waited for
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return _high(read_end), _high(write_end)


def _high(fd: int) -> int:
    """The descriptor as one above 2: a lab started with 0 to 2 closed would get those, and the kernel replaces them."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _socket_high(end: socket.socket) -> socket.socket:
    """The socket on a descriptor above 2."""
    return socket.socket(fileno=_high(end.detach()))


def derived_seed(seed: int, *words: object) -> int:
    """63 bits derived from a seed and its purpose, the same on every machine."""
    digest = hashlib.sha256("\0".join([str(seed), *map(str, words)]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _place(pid: int, core: int) -> None:
    """Programs inside inherit it. A container's processors may change meanwhile; then it is merely slower."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(pid, {core})
