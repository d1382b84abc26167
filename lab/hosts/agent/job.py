"""A command in a machine in virtual time: what it is given, what it prints, how it ends. Standard library only: part of PID 1."""

from __future__ import annotations

import errno
import os

from lab.hosts.agent import spawn, starter

_INTERRUPTIONS = "/sys/module/time/parameters/taken_back"


class Job:
    """A command that was started; `code` is there once it has ended."""

    def __init__(self, child: spawn.Child, stdout: int, stderr: int, most_bytes: int | None) -> None:
        self.child = child
        self.stdout, self.stderr = stdout, stderr
        self.most_bytes = most_bytes
        self.sent = 0
        self.ended_ns = 0
        self.code: int | None = None
        self.user_s = self.system_s = 0.0
        self.order = -1
        self.name = ""
        self.peak_bytes: int | None = None
        self.interruptions = 0


def take_result(job: Job) -> None:
    """Take the end of a client from its starter's result; the starter that was killed with it has none."""
    found = starter.result(os.pread(job.order, starter.RESULT_BYTES, 0))
    os.close(job.order)
    job.order = -1
    if found is None:
        return
    job.ended_ns, job.peak_bytes = found.ended_ns, found.peak_bytes
    code = os.waitstatus_to_exitcode(found.status)
    # GNU time, which runs clients in real time, has the same codes.
    job.code = 128 - code if code < 0 else code
    if found.errno:
        job.code = tell_failure(job.stderr, job.name, OSError(found.errno, os.strerror(found.errno)))


def interruptions() -> int:
    """The number of interruptions since boot: the kernel interrupts a program that has computed for half a second."""
    fd = os.open(_INTERRUPTIONS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(fd, 32))
    finally:
        os.close(fd)


def tell_failure(stderr: int, name: str, failure: OSError) -> int:
    """Say why a command could not be begun; its exit code, as a shell has it."""
    missing = failure.errno == errno.ENOENT
    os.write(stderr, f"{name}: {'not found' if missing else failure}\n".encode())
    return 127 if missing else 126


def memory(name: str, data: bytes) -> int:
    fd = os.memfd_create(name)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def content(fd: int, start: int = 0, most_bytes: int | None = None) -> bytes:
    """The file's content from `start` on, at most `most_bytes`; read(2) returns at most 2 GiB at once."""
    end, parts = os.fstat(fd).st_size, []
    if most_bytes is not None:
        end = min(end, start + most_bytes)
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)
