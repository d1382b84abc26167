"""PID 1 of the guest: sets it up like Debian, runs the job, sends output and results out, and ends.

Travels with the job, not with the image. Standard library only. Output goes to virtio ports (`stdout`, `stderr`), the
results and how the command ended go as a tar to the disk vdc. What it prints itself goes to the serial console.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

JOB = Path("/lab-job/job.json")
RESULT_DISK = Path("/dev/vdc")
GRACE_S = 20.0
_RB_POWER_OFF = 0x4321FEDC

_MOUNTS = (
    ("proc", "/proc", "proc", "nosuid,nodev,noexec"),
    ("sysfs", "/sys", "sysfs", "nosuid,nodev,noexec"),
    ("devpts", "/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "tmpfs", "nosuid,nodev"),  # noqa: S108 - where Debian has it
    ("tmpfs", "/run", "tmpfs", "mode=755,nosuid,nodev"),
    ("cgroup2", "/sys/fs/cgroup", "cgroup2", "nosuid,nodev,noexec"),
)


def furnish() -> None:
    """The parts of systemd's work that a lab needs: mounts, limits, sysctls, loopback, host name."""
    for source, target, kind, options in _MOUNTS:
        Path(target).mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", kind, "-o", options, source, target], check=True)
    for link, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        with contextlib.suppress(FileExistsError):
            Path("/dev", link).symlink_to(target)
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 524288))
    subprocess.run(["/lib/systemd/systemd-sysctl"], check=False)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/kernel/hostname").write_text("guest")
    subprocess.run(["modprobe", "-a", "virtio_console"], check=True)


def port(name: str) -> int:
    """The virtio port of that name, which the kernel numbers as it likes."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for entry in Path("/sys/class/virtio-ports").glob("*/name"):
            if entry.read_text().strip() == name:
                return os.open(f"/dev/{entry.parent.name}", os.O_WRONLY | os.O_CLOEXEC)
        time.sleep(0.02)
    raise RuntimeError(f"no virtio port {name}")


def pump(source: int, target: int) -> None:
    while data := os.read(source, 65536):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]


def run(job: dict[str, Any], outputs: tuple[int, int]) -> dict[str, Any]:
    """The command to its end or its time; then everything it left running is killed."""
    pipes = [os.pipe() for _ in outputs]
    pumps = [threading.Thread(target=pump, args=(pipe[0], target)) for pipe, target in zip(pipes, outputs, strict=True)]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        start(job, pipes[0][1], pipes[1][1])
    for _, write_end in pipes:
        os.close(write_end)
    for thread in pumps:
        thread.start()
    status, timed_out = wait(child, float(job["timeout_s"]))
    seconds = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    for thread in pumps:
        thread.join()
    return {"returncode": os.waitstatus_to_exitcode(status), "timed_out": timed_out, "seconds": seconds}


def start(job: dict[str, Any], stdout: int, stderr: int) -> None:
    """Never returns: the child becomes the command."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.initgroups(job["user"], job["uid"])
        os.setgid(job["uid"])
        os.setuid(job["uid"])
        os.umask(0o022)
        os.chdir(job["cwd"])
        os.execvpe(job["argv"][0], job["argv"], job["environment"])
    except OSError as error:
        os.write(2, f"guest: {job['argv'][0]}: {error.strerror}\n".encode())
    os._exit(127)


def wait(child: int, timeout_s: float) -> tuple[int, bool]:
    """Reaps everything until `child` ends; out of time it gets SIGTERM, then SIGKILL."""
    steps = [(time.monotonic() + timeout_s, signal.SIGTERM), (time.monotonic() + timeout_s + GRACE_S, signal.SIGKILL)]
    timed_out = False
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status, timed_out
        if pid:
            continue
        if steps and time.monotonic() >= steps[0][0]:
            timed_out = True
            os.killpg(child, steps.pop(0)[1])
        signal.sigtimedwait({signal.SIGCHLD}, min(1.0, max(0.01, steps[0][0] - time.monotonic())) if steps else 1.0)


def send_out(status: dict[str, Any], results: Path) -> None:
    with RESULT_DISK.open("wb") as disk, tarfile.open(fileobj=disk, mode="w", format=tarfile.GNU_FORMAT) as archive:
        if results.is_dir():
            archive.add(results, "results")
        # Last, so that its presence says that all is there.
        member, data = tarfile.TarInfo("status.json"), json.dumps(status).encode()
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    os.sync()


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    furnish()
    job = json.loads(JOB.read_text())
    for folder in job["passable"]:
        Path(folder).chmod(Path(folder).stat().st_mode | 0o111)
    outputs = port("stdout"), port("stderr")
    print("guest-init: job begins", flush=True)
    status = run(job, outputs)
    send_out(status, Path(job["results"]))
    print("guest-init: job ended", flush=True)


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        main()
    except BaseException:  # PID 1 must not end, whatever happened: the kernel would panic before the console has it all
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).reboot(_RB_POWER_OFF)
