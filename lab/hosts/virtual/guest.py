"""PID 1 of the machine in virtual time: makes the lab's namespaces and answers requests over /dev/hostchan.

Standard library only, and handed over compiled (`program`) to a Python with `-I -S`, because every cell boots a machine of its
own. Reading /dev/hostchan stops the machine and its clock until the lab has something to ask (images/kernel), so time passes only
inside a request: while `wait` waits for a command, or `sleep` sleeps.

The heads of frames are in `marshal` (both ends are one Python). Modules that cost tens of milliseconds to import (json, re,
dataclasses, typing) are not.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import select
import signal
import sys
import time

from lab.hosts.agent import chores, frames, roots, spawn, syscalls
from lab.hosts.agent.places import HOME_DIR, LAB_UID, MARSHAL_VERSION, RUN_DIR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

CHANNEL = "/dev/hostchan"
_USER = int(sys.argv[1]) if __name__ == "__main__" else LAB_UID  # machine.user_id
_KILL_S = 5.0
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
_RNDRESEEDCRNG = 0x5207  # <linux/random.h>
# What a client may do to the machine that it shares with its servers: forking without end is its own failure, not the lab's.
_MOST_PROCESSES = 1500
# One file may take three eighths of the memory: more than any transfer the machine is made for, and less than would leave no room
# to tell what a flood printed.
_MOST_FILE = 3 / 8
_MOST_OUTPUT_BYTES = 128 << 20
# The kernel ends a client first when memory runs out, and never a server or the lab's own.
_FIRST_TO_GO, _NEVER = 1000, -1000

if TYPE_CHECKING:
    Answer = tuple[dict[str, Any], list[bytes]]


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


class Guest:
    """Everything that lives in the machine; one request at a time."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.namespaces: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.keep("router")
        self.root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.userlands: dict[str, str] = {}
        self.jobs: dict[int, Job] = {}
        self.by_pid: dict[int, Job] = {}
        self.last_job = 0
        self.wake = spawn.wake_on_children()
        self.operations: dict[str, Callable[[dict[str, Any], list[bytes]], Answer]] = {
            "furnish": self.op_furnish,
            "namespace": self.op_namespace,
            "start": self.op_start,
            "wait": self.op_wait,
            "run": self.op_run,
            "signal": self.op_signal,
            "output": self.op_output,
            "sleep": self.op_sleep,
            "vary": self.op_vary,
            "write": self.op_write,
            "bind": self.op_bind,
            "copy": self.op_copy,
            "cat": self.op_cat,
            "read": self.op_read,
            "collect": self.op_collect,
            "end": self.op_end,
        }

    def serve(self) -> None:
        while True:
            message, blobs = receive(self.channel)
            try:
                answer, more = self.handle(message, blobs)
            except Exception as error:
                answer, more = {"error": f"{type(error).__name__}: {error}"}, []
            self.reap()
            send(self.channel, {**answer, "now_ns": time.monotonic_ns()}, more)

    def handle(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        return self.operations[message["op"]](message, blobs)

    # requests --------------------------------------------------------------------------------------------------------------

    def op_furnish(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Show files over /etc's; returns the facts of the boot that the lab checks."""
        del blobs
        furnish(message["files"], int(message["run_bytes"]))
        for host, root in message["userlands"].items():
            self.userlands[host] = roots.open_userland(host, root, message["files"])
        with open("/proc/cmdline", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
            words = file.read().split()
        return {"cmdline": words, "release": os.uname().release, "hwrng": os.path.exists("/dev/hwrng")}, []  # noqa: PTH110

    def op_namespace(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """A new network namespace, by descriptor and as /run/netns/NAME for `ip -n`. `same_host`: no new one, the router's."""
        del blobs
        syscalls.unshare(syscalls.CLONE_NEWUTS if message.get("same_host") else syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS)
        self.keep(str(message["name"]))
        syscalls.show_namespace(str(message["name"]))
        self.go("router")
        return {}, []

    def keep(self, name: str) -> None:
        """Name the namespaces of this process, for `go`."""
        syscalls.sethostname(name)
        self.namespaces[name] = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.names[name] = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)

    def op_start(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Begin a command; its standard input is the first blob."""
        stdin = memory("stdin", blobs[0]) if blobs and blobs[0] else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        sinks = os.memfd_create("stdout"), os.memfd_create("stderr")
        self.last_job += 1
        child = self.spawn(message, (stdin, *sinks))
        os.close(stdin)
        job = Job(child, *sinks, None if message["root"] else _MOST_OUTPUT_BYTES)
        self.jobs[self.last_job] = self.by_pid[child.pid] = job
        return {"job": self.last_job}, []

    def op_wait(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Until the command has ended, or `timeout_s`; with `kill`, it is then ended."""
        del blobs
        number = int(message["job"])
        job = self.jobs[number]
        timed_out = not self.until_ended(job, float(message["timeout_s"]))
        if timed_out:
            if not message.get("kill"):
                return {"running": True}, []
            job.child.kill(signal.SIGKILL)
            if not self.until_ended(job, _KILL_S):
                raise OSError("it cannot be killed")
        return self.finish(number, job, timed_out=timed_out)

    def op_run(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        started, _ = self.op_start(message, blobs)
        return self.op_wait({**message, **started, "kill": True}, [])

    def op_signal(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        del blobs
        self.jobs[int(message["job"])].child.kill(int(message["number"]))
        return {}, []

    def op_output(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """The command's output since the last request for it."""
        del blobs
        job = self.jobs[int(message["job"])]
        text = content(job.stdout, job.sent, job.most_bytes)
        job.sent += len(text)
        self.reap()
        return {"running": job.code is None}, [text, content(job.stderr, 0, job.most_bytes)]

    def op_sleep(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        del blobs
        deadline = time.monotonic() + float(message["seconds"])
        # select(2) may take 0.1 % longer than it is asked to: the end of a long sleep is slept on its own.
        while (left := deadline - time.monotonic()) > 0:
            self.look(left * 0.999 if left > 0.01 else left)
        return {}, []

    def op_vary(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """The blob goes into the kernel's random numbers, at once (random(4), RNDRESEEDCRNG)."""
        del message
        fd = os.open("/dev/urandom", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(fd, blobs[0])
            fcntl.ioctl(fd, _RNDRESEEDCRNG)
        finally:
            os.close(fd)
        return {}, []

    def op_write(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Write a file, complete or not at all, owned by the host's user; parents are made."""
        path, mode = str(message["path"]), int(message["mode"])
        own_folders(os.path.dirname(path))  # noqa: PTH120
        part = f"{path}.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(blobs[0])
            while view:
                view = view[os.write(fd, view) :]
            os.fchown(fd, _USER, _USER)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.replace(part, path)  # noqa: PTH105
        return {}, []

    def op_bind(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Show a file of the real host under another name, without a copy."""
        del blobs
        path = str(message["path"])
        own_folders(os.path.dirname(path))  # noqa: PTH120
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o755))  # read-only: it may be bound already
        for root in ("", *self.userlands.values()):
            syscalls.bind(str(message["source"]), root + path)
        return {}, []

    def op_copy(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Copy a file of the real host into the machine, as `write`, inside the kernel."""
        del blobs
        path, mode = str(message["path"]), int(message["mode"])
        own_folders(os.path.dirname(path))  # noqa: PTH120
        part = f"{path}.part"
        source = os.open(message["source"], os.O_RDONLY | os.O_CLOEXEC)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while os.sendfile(fd, source, None, 1 << 24):
                pass
            os.fchown(fd, _USER, _USER)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
            os.close(source)
        os.replace(part, path)  # noqa: PTH105
        return {}, []

    def op_cat(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Files of a host's /proc, as cat(1) would print them there, without its process."""
        del blobs
        self.go(str(message["host"]))
        try:
            parts = []
            for path in message["paths"]:
                with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                    parts.append(file.readall())
        finally:
            self.go("router")
        return {}, [b"".join(parts)]

    def op_read(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        del blobs
        with open(message["path"], "rb") as file:  # noqa: PTH123
            return {}, [file.read()]

    def op_collect(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Check a file and remove it, with the note next to it."""
        del blobs
        size, sha256, note = chores.collect(str(message["path"]), str(message["note"]))
        return {"size": size, "sha256": sha256}, [note]

    def op_end(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Kill every process whose environment has the variable."""
        del message
        chores.end_processes(blobs[0])
        return {}, []

    # -----------------------------------------------------------------------------------------------------------------------

    def spawn(self, message: dict[str, Any], stdio: tuple[int, int, int]) -> spawn.Child:
        """Begin a command on its host, as its user.

        This process goes there itself and comes back: forking it would copy its memory page by page, which costs a machine like
        this more than the command does. Exit code 127 when there is no such command, 126 when it cannot be executed.
        """
        argv, env, root = list(message["argv"]), message["env"], bool(message["root"])
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(stdio)]
        started_ns, pid, failure = time.monotonic_ns(), 0, None
        try:
            self.go(str(message["host"]))
            if message["within"]:
                os.chroot(self.userlands[message["within"]])
            if not root:
                if message["host"] == "client":
                    weigh_for_oom(_FIRST_TO_GO)
                become_user()
            os.chdir(message["cwd"])
            program = find_program(argv[0], env.get("PATH", ""))
            pid = os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS)
        except OSError as error:
            failure = error
        finally:
            if not root:
                become_root()
                if message["host"] == "client":
                    weigh_for_oom(_NEVER)
            if message["within"]:
                os.fchdir(self.root)
                os.chroot(".")
            os.chdir("/")
            self.go("router")
        if failure:
            missing = failure.errno == errno.ENOENT
            os.write(stdio[2], f"{argv[0]}: {'not found' if missing else failure}\n".encode())
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 127" if missing else "exit 126"], {}, setsid=True)
        return spawn.Child(pid, started_ns)

    def go(self, host: str) -> None:
        """Enter a host's namespaces."""
        syscalls.setns(self.namespaces[host], syscalls.CLONE_NEWNET)
        syscalls.setns(self.names[host], syscalls.CLONE_NEWUTS)

    def until_ended(self, job: Job, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        self.reap()
        while job.code is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.look(left)
        return True

    def look(self, timeout_s: float) -> None:
        """Let the machine run until a child ends, at most `timeout_s`."""
        if select.select((self.wake,), (), (), timeout_s)[0]:
            spawn.clear(self.wake)
            self.reap()

    def reap(self) -> None:
        for ending in spawn.reap():
            if job := self.by_pid.pop(ending.pid, None):
                job.ended_ns = ending.ended_ns
                job.child.kill_rest()
                job.code = ending.code
                job.user_s, job.system_s = ending.user_s, ending.system_s

    def finish(self, number: int, job: Job, *, timed_out: bool) -> Answer:
        del self.jobs[number]
        texts = [content(job.stdout, job.sent, job.most_bytes), content(job.stderr, 0, job.most_bytes)]
        os.close(job.stdout)
        os.close(job.stderr)
        return {
            "running": False,
            "returncode": job.code,
            "started_ns": job.child.started_ns,
            "ended_ns": job.ended_ns,
            "user_s": job.user_s,
            "system_s": job.system_s,
            "timed_out": timed_out,
        }, texts


def become_user() -> None:
    """The lab's ordinary user, who may read what the lab's caller may read; root is kept to come back to."""
    file_bytes = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MOST_FILE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    os.setresgid(_USER, _USER, 0)
    os.setresuid(_USER, _USER, 0)
    syscalls.use_only(syscalls.CAP_DAC_READ_SEARCH)


def become_root() -> None:
    os.setresuid(0, 0, 0)
    os.setresgid(0, 0, 0)
    for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def weigh_for_oom(weight: int) -> None:
    """Set oom_score_adj (proc(5)) of the commands that begin from now on."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(weight))


def find_program(name: str, path: str) -> str:
    """As execvp(3) finds it in that PATH. Raises FileNotFoundError."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        if os.access(f"{folder or '.'}/{name}", os.X_OK, effective_ids=True):
            return f"{folder or '.'}/{name}"
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def furnish(files: dict[str, str], run_bytes: int) -> None:
    """A private, writable /run over the machine's own files, which are read-only; the lab's names over /etc's."""
    if not all(map(os.path.exists, files)):
        cover_etc(files)
    for target, text in {**files}.items():
        source = f"{RUN_DIR}/lab/etc/{os.path.basename(target)}"  # noqa: PTH119
        os.makedirs(os.path.dirname(source), exist_ok=True)  # noqa: PTH103, PTH120
        with open(source, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        syscalls.bind(source, target)
    syscalls.mount(
        "run", RUN_DIR, "tmpfs", syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NODEV, f"mode=755,size={run_bytes}"
    )


def cover_etc(files: Iterable[str]) -> None:
    """An /etc that can be written, with links to the machine's own files: a minimal system has no /etc/hosts to bind over."""
    own = f"{RUN_DIR}/lab/machine-etc"
    os.makedirs(own)  # noqa: PTH103
    syscalls.bind("/etc", own)
    syscalls.mount("etc", "/etc", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=1m")
    for name in os.listdir(own):  # noqa: PTH208
        if f"/etc/{name}" not in files:
            os.symlink(f"{own}/{name}", f"/etc/{name}")  # noqa: PTH211
    for target in files:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def mount_everything() -> None:
    """Mount the file systems that every program expects."""
    nosuid = syscalls.MS_NOSUID
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("proc", "/proc", "proc", nosuid)
    syscalls.mount("sys", "/sys", "sysfs", nosuid)
    try:  # noqa: SIM105
        syscalls.mount("dev", "/dev", "devtmpfs", nosuid)
    except OSError:  # the kernel has mounted it, where the machine's root has a /dev
        pass
    syscalls.mount("run", RUN_DIR, "tmpfs", nosuid | syscalls.MS_NODEV, "mode=755")
    for folder in ("netns", "uml", "sshd", "lab/etc"):
        os.makedirs(f"{RUN_DIR}/{folder}")  # noqa: PTH103
    for folder in (HOME_DIR, *(f"{RUN_DIR}/lab/{name}" for name in ("tmp", "client", "router", "server"))):
        own_folders(folder)
    # /run has most of the memory; what is left is for programs.
    for name, kind, options in (("pts", "devpts", ""), ("shm", "tmpfs", "size=4%")):
        os.makedirs(f"/dev/{name}", exist_ok=True)  # noqa: PTH103
        syscalls.mount(name, f"/dev/{name}", kind, nosuid, options)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")  # noqa: PTH211
    syscalls.show_namespace("router")


def own_folders(path: str) -> None:
    """Make a folder and its parents, owned by the lab's user."""
    if not os.path.isdir(path):  # noqa: PTH112
        own_folders(os.path.dirname(path))  # noqa: PTH120
        os.mkdir(path)  # noqa: PTH102
        os.chown(path, _USER, _USER)


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


def receive(channel: int) -> tuple[dict[str, Any], list[bytes]]:
    """The next request. The lab's end of file ends the machine inside the read."""
    return frames.read(channel, marshal.loads)


def send(channel: int, message: dict[str, Any], blobs: list[bytes]) -> None:
    frames.write(channel, frames.encode(dumps, message, blobs))


def dumps(message: dict[str, Any]) -> bytes:
    return marshal.dumps(message, MARSHAL_VERSION)


def main() -> None:
    mount_everything()
    os.setgroups([])
    syscalls.keep_ambient(syscalls.CAP_DAC_READ_SEARCH)
    weigh_for_oom(_NEVER)
    guest = Guest(os.open(CHANNEL, os.O_RDWR | os.O_CLOEXEC))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    send(guest.channel, {"ready": True, "now_ns": time.monotonic_ns(), "realtime_ns": time.time_ns()}, [])
    guest.serve()


if __name__ == "__main__":
    main()
