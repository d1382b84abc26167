"""PID 1 of the machine in virtual time: makes the lab's namespaces and answers requests over /dev/hostchan.

Standard library only, and handed over compiled (`program`) to a Python with `-I -S`, because every cell boots a machine of its
own. Reading /dev/hostchan stops the machine and its clock until the lab has something to ask (images/kernel), so time passes only
inside a request: while `wait` waits for a command, or `sleep` sleeps.

The heads of frames are in `marshal`, in a format that all Pythons have. Modules that cost tens of milliseconds to import (json,
re, dataclasses, typing) are not.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import time

from lab.hosts.agent import chores, frames, hostchan, keys, mounts, placing, project, roots, spawn, starter, syscalls
from lab.hosts.agent.job import Job, content, interruptions, memory, take_result, tell_failure
from lab.hosts.agent.places import CACHE_DIR, LAB_UID, MARSHAL_VERSION, RUN_DIR, STARTER, TICK_NS, next_tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHANNEL = "/dev/hostchan"
_KILL_S = 5.0
_LEAD_NS = 10_000_000
# Before a client starts: enough for this process to see the seeder's end. A client is started with twice that (host.py).
_SEED_LEAD_NS = 5_000_000
# Servers begin after a multiple of it.
_SERVER_TICK_NS = 250_000_000
# The end of a longer sleep is slept on its own, because select(2) may take 0.1 % longer than it is asked to.
_SHORT_NS = 1000
# Process numbers: the kernel begins with 300 again when it has used the highest, 32768. Servers have hundreds for their children.
_SERVERS_AFTER, _SERVER_NUMBERS, _MOST_SERVERS, _CLIENTS_AFTER = 2000, 500, 32, 20_000
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
# The most processes of a client, which shares the machine with its servers: endless forking is its own failure, not the lab's.
_MOST_PROCESSES = 1500
# One file may take three eighths of the memory: more than any transfer the machine is made for, and less than would leave no room
# to tell what a flood printed.
_MOST_FILE = 3 / 8
_MOST_OUTPUT_BYTES = 128 << 20
# The kernel ends a client first when memory runs out, and never a server or the lab's own.
_FIRST_TO_GO, _NEVER = 1000, -1000

if TYPE_CHECKING:
    Answer = tuple[dict[str, Any], list[bytes]]


class Guest:
    """Everything that lives in the machine; one request at a time."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        hostchan.exempt(channel)
        self.namespaces: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.keep("router")
        self.root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.userlands: dict[str, str] = {}
        self.jobs: dict[int, Job] = {}
        self.by_pid: dict[int, Job] = {}
        self.last_job = self.servers = 0
        self.seed = self.seeds = 0
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
            "draw_keys": self.op_draw_keys,
            "write": self.op_write,
            "copy": self.op_copy,
            "place": self.op_place,
            "cat": self.op_cat,
            "read": self.op_read,
            "collect": self.op_collect,
            "end": self.op_end,
            "serve_forks": self.op_serve_forks,
            **project.OPERATIONS,
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
        mounts.furnish(message["files"], int(message["run_bytes"]))
        if message["cache"]:
            mounts.own_folders(CACHE_DIR)
            syscalls.bind(message["cache"], CACHE_DIR)
        self.userlands |= roots.open_all(message)
        with open("/proc/cmdline", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms of start-up
            words = file.read().split()
        return {"cmdline": words, "release": os.uname().release, "hwrng": os.path.exists("/dev/hwrng")}, []  # noqa: PTH110

    def op_namespace(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """A new network namespace, by descriptor and as /run/netns/NAME for `ip -n`. `same_host`: no new one, the router's."""
        del blobs
        syscalls.unshare(syscalls.CLONE_NEWUTS if message.get("same_host") else syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS)
        self.keep(str(message["name"]))
        mounts.own_folders(f"{RUN_DIR}/lab/{message['name']}")
        syscalls.show_namespace(str(message["name"]))
        self.go("router")
        return {}, []

    def keep(self, name: str) -> None:
        """Name the namespaces of this process, for `go`."""
        syscalls.sethostname(name)
        self.namespaces[name] = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.names[name] = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)

    def op_start(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Begin a command, and return when it has begun; its standard input is the first blob."""
        started, blobs = self.begin(message, blobs)
        while (left := self.jobs[started["job"]].child.started_ns - time.monotonic_ns()) > 0:
            self.look(left / 1e9)
        return started, blobs

    def begin(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        stdin = memory("stdin", blobs[0]) if blobs and blobs[0] else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        sinks = os.memfd_create("stdout"), os.memfd_create("stderr")
        self.last_job += 1
        self.set_apart(message)
        child, order = self.spawn(message, (stdin, *sinks))
        os.close(stdin)
        job = Job(child, *sinks, None if message["root"] else _MOST_OUTPUT_BYTES)
        job.order, job.name = order, message["argv"][0]
        if order >= 0:
            job.interruptions = interruptions()
            # Each program that the lab starts before draws some numbers, and which it starts depends on the root's.
            self.seed_at(child.started_ns - _SEED_LEAD_NS)
        self.jobs[self.last_job] = self.by_pid[child.pid] = job
        return {"job": self.last_job}, []

    def set_apart(self, message: dict[str, Any]) -> None:
        """Let neither the number of the programs before nor their time decide what a program under test draws and measures.

        OpenSSL mixes a process's number and the time into its random numbers, and a signature is a byte longer with others. So a
        client and a server have numbers of their own, with their children, and a server begins at a tick, with a seed of its own.
        """
        if message["root"]:
            return
        if message["at_ns"] >= 0:
            chores.number_processes_after(_CLIENTS_AFTER)
        elif message["op"] == "start" and message["host"] == "server":
            at_ns = next_tick(time.monotonic_ns() + _LEAD_NS, _SERVER_TICK_NS)
            self.seed_at(at_ns - _SEED_LEAD_NS)
            self.sleep_until(at_ns)
            chores.number_processes_after(_SERVERS_AFTER + _SERVER_NUMBERS * (self.servers % _MOST_SERVERS))
            self.servers += 1

    def op_wait(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Until the command has ended, or `timeout_s`; with `kill`, it is then ended."""
        del blobs
        number = int(message["job"])
        job = self.jobs[number]
        to_come_s = max(0, job.child.started_ns - time.monotonic_ns()) / 1e9 if message.get("kill") else 0.0
        timed_out = not self.until_ended(job, to_come_s + float(message["timeout_s"]))
        if timed_out:
            if not message.get("kill"):
                return {"running": True}, []
            job.child.kill(signal.SIGKILL)
            if not self.until_ended(job, _KILL_S):
                raise OSError("it cannot be killed")
        return self.finish(number, job, timed_out=timed_out)

    def op_run(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        started, _ = self.begin(message, blobs)
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
        return {"running": job.code is None}, [text, content(job.stderr, int(message.get("errors_from", 0)), job.most_bytes)]

    def op_sleep(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        del blobs
        self.sleep_until(time.monotonic_ns() + round(float(message["seconds"]) * 1e9))
        return {}, []

    def op_vary(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """The kernel's random numbers follow from the blob from the next tick on, and again from each client's start."""
        del message
        self.seed, self.seeds = int.from_bytes(blobs[0], "big"), 0
        job = self.seed_at(next_tick(time.monotonic_ns() + _LEAD_NS))
        if not self.until_ended(job, _KILL_S + TICK_NS / 1e9) or job.code:
            raise OSError(f"the random numbers could not be seeded ({job.code})")
        return {}, []

    def op_draw_keys(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Let the kernel draw the keys that it draws at a first connection and then keeps, in every namespace."""
        del message, blobs
        hostchan.count(self.channel)
        try:
            for host in self.namespaces:
                self.go(host)
                keys.draw()
        finally:
            hostchan.exempt(self.channel)
        self.go("router")
        return {}, []

    def seed_at(self, at_ns: int) -> Job:
        """Seed the kernel's random numbers at that instant (random(4), RNDRESEEDCRNG), with a number of its own each time."""
        seed = ((self.seed + self.seeds) % (1 << 8 * starter.SEED_BYTES)).to_bytes(starter.SEED_BYTES, "big")
        self.seeds += 1
        fd = os.open("/dev/urandom", os.O_RDWR | os.O_CLOEXEC)
        order = memory("order", starter.seed_order(at_ns, seed))
        try:
            actions = [(os.POSIX_SPAWN_DUP2, order, 3), (os.POSIX_SPAWN_DUP2, fd, 4)]
            hostchan.exempt(self.channel, children=True)
            pid = os.posix_spawn(STARTER, ["starter"], {}, file_actions=actions, setsigmask=(), setsigdef=_DEFAULT_SIGNALS)
        finally:
            hostchan.exempt(self.channel)
            os.close(fd)
            os.close(order)
        job = self.by_pid[pid] = Job(spawn.Child(pid, at_ns), -1, -1, None)
        return job

    def op_write(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Write a file, complete or not at all, owned by the host's user; parents are made."""
        path, mode = str(message["path"]), int(message["mode"])
        mounts.own_folders(os.path.dirname(path))  # noqa: PTH120
        part = f"{path}.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(blobs[0])
            while view:
                view = view[os.write(fd, view) :]
            os.fchown(fd, LAB_UID, LAB_UID)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        os.replace(part, path)  # noqa: PTH105
        return {}, []

    def op_place(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Show a folder of the real host's under another name: as it is, or a copy of these of its files."""
        del blobs
        mounts.own_folders(os.path.dirname(message["path"]))  # noqa: PTH120
        os.mkdir(message["path"])  # noqa: PTH102
        if message["files"] is None:
            syscalls.bind(message["source"], message["path"])
        else:
            placing.copy_files(message["source"], message["path"], message["files"])
        return {}, []

    def op_copy(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """Copy a file of the real host into the machine, as `write`, inside the kernel."""
        del blobs
        path, mode = str(message["path"]), int(message["mode"])
        mounts.own_folders(os.path.dirname(path))  # noqa: PTH120
        part = f"{path}.part"
        source = os.open(message["source"], os.O_RDONLY | os.O_CLOEXEC)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            while os.sendfile(fd, source, None, 1 << 24):
                pass
            os.fchown(fd, LAB_UID, LAB_UID)
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

    def op_serve_forks(self, message: dict[str, Any], blobs: list[bytes]) -> Answer:
        """This machine only makes others from now on; each of them answers that it goes on."""
        del message, blobs
        hostchan.serve_forks(self.channel)
        return {}, []

    # -----------------------------------------------------------------------------------------------------------------------

    def spawn(self, message: dict[str, Any], stdio: tuple[int, int, int]) -> tuple[spawn.Child, int]:
        """Begin a command on its host, as its user; at `at_ns` unless that is negative; and its order's descriptor.

        A command of root's is the lab's own, and takes no virtual time (`hostchan`).
        This process goes there itself and comes back: forking it would copy its memory page by page, which costs a machine like
        this more than the command does. Exit code 127 when there is no such command, 126 when it cannot be executed.
        """
        argv, env = list(message["argv"]), message["env"]
        actions = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(stdio)]
        started_ns, pid, failure, order = time.monotonic_ns(), 0, None, -1
        try:
            self.enter(message)
            os.chdir(message["cwd"])
            program = spawn.find_program(argv[0], env.get("PATH", ""))
            if message["at_ns"] >= 0:
                started_ns = message["at_ns"]
                order = memory("order", starter.client_order(started_ns, program, argv))
                actions.append((os.POSIX_SPAWN_DUP2, order, 3))
                program, argv = STARTER, ["starter"]
            pid = os.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS)
        except OSError as error:
            failure = error
        finally:
            self.come_back(message)
        if failure:
            code = tell_failure(stdio[2], message["argv"][0], failure)
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {code}"], {}, setsid=True)
        return spawn.Child(pid, started_ns), order

    def enter(self, message: dict[str, Any]) -> None:
        """Become what the process of a command is to be when it begins."""
        self.go(str(message["host"]))
        if message["within"]:
            os.chroot(self.userlands[message["within"]])
        if message["root"]:
            hostchan.exempt(self.channel, children=True)
            return
        if message["host"] == "client":
            weigh_for_oom(_FIRST_TO_GO)
        become_user()
        if "user" in message:
            project.become(*message["user"])

    def come_back(self, message: dict[str, Any]) -> None:
        """Undo `enter`, however far it came."""
        if message["root"]:
            hostchan.exempt(self.channel)
        else:
            become_root()
            if "user" in message:
                project.come_back()
            if message["host"] == "client":
                weigh_for_oom(_NEVER)
        if message["within"]:
            os.fchdir(self.root)
            os.chroot(".")
        os.chdir("/")
        self.go("router")

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

    def sleep_until(self, at_ns: int) -> None:
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            self.look(left_ns / 1e9 * (0.999 if left_ns > _SHORT_NS else 1.0))

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
                if job.order >= 0:
                    job.interruptions = interruptions() - job.interruptions
                    take_result(job)

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
            "peak_bytes": job.peak_bytes,
            "interruptions": job.interruptions,
        }, texts


def become_user() -> None:
    """The lab's ordinary user, who may read what the lab's caller may read; root is kept to come back to."""
    file_bytes = round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MOST_FILE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))
    os.setresgid(LAB_UID, LAB_UID, 0)
    os.setresuid(LAB_UID, LAB_UID, 0)
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


def receive(channel: int) -> tuple[dict[str, Any], list[bytes]]:
    """The next request. The lab's end of file ends the machine inside the read."""
    return frames.read(channel, marshal.loads)


def send(channel: int, message: dict[str, Any], blobs: list[bytes]) -> None:
    frames.write(channel, frames.encode(dumps, message, blobs))


def dumps(message: dict[str, Any]) -> bytes:
    return marshal.dumps(message, MARSHAL_VERSION)


def main() -> None:
    mounts.mount_everything()
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
