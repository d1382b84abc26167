"""The virtual machine: QEMU, with KVM where it works, and nothing left of it afterwards.

Its disks other than the image are unlinked files and its channels are socket pairs, so that even a killed lab leaves
nothing behind; QEMU dies with the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, get_args

from images.guest import job as jobs
from images.guest.image import Image, need
from lab.assets.store import Progress
from lab.hosts.agent.syscalls import die_with_parent
from lab.model.errors import EXIT_INVALID, LabFault
from lab.model.paths import cache_dir

Accel = Literal["auto", "kvm", "tcg"]
ACCELS: tuple[str, ...] = get_args(Accel)

QEMU = "qemu-system-x86_64"
_BEGINS, _ENDED, _ALIVE = b"guest-init: job begins", b"guest-init: job ended", b"guest-init: alive"
_BOOT_S = {"kvm": 60.0, "tcg": 300.0}
_ALIVE_S = {"kvm": 20.0, "tcg": 200.0}
_END_S = 120.0
# QEMU 7.2's TCG loses a race with a kernel that patches its own code (static keys) at about one boot in eight.
_BOOTS = 4
_RESULT_BYTES = 64 << 30  # sparse
_KEPT_LOG_BYTES = 1 << 16
_KERNEL_WORDS = "console=ttyS0 quiet panic=-1"
# QEMU 7.2's TCG leaves garbage in the flags after cmpxchg16b; a kernel that uses it dies of a double fault in SLUB.
_QUIRKS = {"kvm": "", "tcg": " clearcpuid=cx16"}
# TCG emulates vector instructions one element at a time: programs that find none are quicker. SSE4.2 is what numpy needs.
_CPU = {"kvm": "host", "tcg": "Nehalem"}


class NoBoot(Exception):
    """The guest printed nothing: it cannot boot with this accelerator."""


@dataclass(frozen=True)
class Options:
    accel: Accel = "auto"
    cpus: int = 2
    memory_mib: int = 4096
    console: bool = False


def run(image: Image, job: jobs.Job, options: Options, progress: Progress) -> int:
    """Runs the job in the guest and returns its exit code; the results are in the results folder."""
    need_qemu()
    cache = cache_dir()
    with tempfile.TemporaryFile(dir=cache) as source, tempfile.TemporaryFile(dir=cache) as sink:
        began = time.monotonic()
        jobs.pack(job, source)
        size = os.fstat(source.fileno()).st_size
        progress(f"packed the project: {size / 1e6:.0f} MB in {time.monotonic() - began:.1f} s")
        sink.truncate(_RESULT_BYTES)
        for accel in _candidates(options.accel, progress):
            try:
                log = _boot(image, replace(options, accel=accel), progress, (source, sink), job.timeout_s)
                break
            except NoBoot as reason:
                if options.accel != "auto" or accel == "tcg":
                    raise LabFault(f"the guest does not boot with {accel.upper()}: {reason}") from None
                progress(f"{accel.upper()} is there but does not work ({reason})")
        outcome = jobs.unpack(sink)
    if outcome is None:
        raise LabFault(f"the guest ended without a result; its console says: {last_lines(log)}")
    for path in outcome.results:
        progress(f"results: {path}")
    if outcome.timed_out:
        progress(f"the command was stopped after {job.timeout_s:.0f} s (--timeout)")
        return EXIT_INVALID
    progress(f"the command took {outcome.seconds:.1f} s and ended with {outcome.returncode}")
    return outcome.returncode if outcome.returncode >= 0 else 128 - outcome.returncode


def need_qemu() -> None:
    """Raises UsageProblem if it is missing."""
    need({QEMU: "qemu-system-x86", "tar": "tar"})


def _boot(image: Image, options: Options, progress: Progress, disks: tuple[IO[bytes], IO[bytes]], timeout_s: float) -> bytes:
    """Boot the guest and run the job. A kernel that dies before the job begins is booted again."""
    for again in (*range(1, _BOOTS), 0):
        guest = Guest(image, options, progress)
        log = guest.run(*disks, timeout_s)
        if guest.job_began or not again:
            break
        progress(f"the kernel died while booting; once more ({_panic(log)})")
    return log


def _panic(log: bytes) -> str:
    """The first line of an Oops: what the emulator got wrong."""
    words = (b"Oops", b"PANIC", b"panic", b"BUG")
    found = next((line for line in log.splitlines() if any(word in line for word in words)), b"")
    return found.decode(errors="replace").strip() or last_lines(log, 1)


def _candidates(wanted: Accel, progress: Progress) -> Iterator[Accel]:
    if wanted != "auto":
        yield wanted
        return
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        yield "kvm"
    else:
        progress("/dev/kvm cannot be used by this user" if Path("/dev/kvm").exists() else "this machine has no /dev/kvm")
    yield "tcg"


class Guest:
    """One boot of the guest."""

    def __init__(self, image: Image, options: Options, progress: Progress) -> None:
        self.image = image
        self.options = options
        self.progress = progress
        self.log = bytearray()
        self.began = time.monotonic()
        self.job_began = 0.0

    def run(self, source: IO[bytes], sink: IO[bytes], timeout_s: float) -> bytes:
        """To the end of the machine; returns its console's text. Raises NoBoot or LabFault."""
        accel = self.options.accel
        slow = ": every instruction is emulated, expect a tenth of the speed" if accel == "tcg" else ""
        self.progress(f"booting kernel {self.image.kernel_release} with {accel.upper()}{slow}")
        with contextlib.ExitStack() as stack:
            channels = {name: socket.socketpair() for name in ("serial", "stdout", "stderr", "qemu")}
            for ours, theirs in channels.values():
                stack.enter_context(ours)
                stack.enter_context(theirs)
            far = {name: theirs.fileno() for name, (_, theirs) in channels.items()}
            disks = {"job": source.fileno(), "results": sink.fileno()}
            qemu = subprocess.Popen(
                command(self.image, self.options, far, disks),
                stdin=subprocess.DEVNULL,
                stdout=far["qemu"],
                stderr=far["qemu"],
                pass_fds=(*far.values(), *disks.values()),
                start_new_session=True,  # a Ctrl-C is ours to handle
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread
            )
            try:
                for _, theirs in channels.values():
                    theirs.close()
                self._watch(qemu, {name: ours for name, (ours, _) in channels.items()}, timeout_s)
            finally:
                qemu.kill()
                qemu.wait()
        return bytes(self.log)

    def _watch(self, qemu: subprocess.Popen[bytes], channels: dict[str, socket.socket], timeout_s: float) -> None:
        accel = self.options.accel
        with selectors.DefaultSelector() as selector:
            for name, channel in channels.items():
                selector.register(channel, selectors.EVENT_READ, name)
            while selector.get_map():
                for key, _ in selector.select(0.5):
                    self._receive(selector, key)
                seconds = time.monotonic() - self.began
                if b"KVM internal error" in self.log:
                    raise NoBoot("KVM internal error: this machine's KVM does not run ordinary kernels")
                if _ALIVE not in self.log and seconds > _ALIVE_S[accel]:
                    raise NoBoot(f"no sign of life in {seconds:.0f} s")
                if not self.log and qemu.poll():
                    raise NoBoot("QEMU refuses")
                if not self.job_began and seconds > _BOOT_S[accel]:
                    raise LabFault(f"the guest did not come up in {seconds:.0f} s: {last_lines(self.log)}")
                if self.job_began and time.monotonic() > self.job_began + timeout_s + _END_S:
                    raise LabFault(f"the guest did not end {_END_S:.0f} s after its time: {last_lines(self.log)}")

    def _receive(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        channel = key.fileobj
        assert isinstance(channel, socket.socket)
        try:
            data = channel.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            selector.unregister(channel)
        elif key.data in ("stdout", "stderr"):
            stream = sys.stdout.buffer if key.data == "stdout" else sys.stderr.buffer
            stream.write(data)
            stream.flush()
        else:
            self.log += data
            if self.options.console:
                sys.stderr.buffer.write(data)
                sys.stderr.flush()
            if not self.job_began and _BEGINS in self.log:
                self.job_began = time.monotonic()
                self.progress(f"booted in {self.job_began - self.began:.1f} s; the command begins")
            if len(self.log) > 2 * _KEPT_LOG_BYTES and self.job_began:
                del self.log[len(_ALIVE) + 1 : -_KEPT_LOG_BYTES]


def command(image: Image, options: Options, channels: dict[str, int], disks: dict[str, int]) -> list[str]:
    """QEMU's command line. Disk order is vda, vdb, vdc; there is no network device."""
    drives = (
        f"id=image,file={escaped(str(image.root))},readonly=on",
        f"id=job,file=/dev/fd/{disks['job']},cache=unsafe",
        f"id=results,file=/dev/fd/{disks['results']},cache=unsafe",
    )
    argv = [*machine_words(image, options), "-nic", "none"]
    for drive in drives:
        name = drive.partition(",")[0].removeprefix("id=")
        argv += ["-drive", f"if=none,format=raw,file.locking=off,{drive}", "-device", f"virtio-blk-pci,drive={name}"]
    argv += ["-chardev", f"socket,id=serial,fd={channels['serial']}", "-serial", "chardev:serial", "-device", "virtio-serial-pci"]
    for name in ("stdout", "stderr"):
        argv += ["-chardev", f"socket,id={name},fd={channels[name]}", "-device", f"virtserialport,chardev={name},name={name}"]
    return argv


def machine_words(image: Image, options: Options, kernel_words: str = "") -> list[str]:
    """Arguments for every machine: processor, memory, kernel; no disk, no port, no screen. Never `auto`."""
    words = _KERNEL_WORDS + _QUIRKS[options.accel] + kernel_words
    accelerator = "tcg,thread=multi,tb-size=1024" if options.accel == "tcg" else options.accel
    argv = [shutil.which(QEMU) or QEMU, "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]
    argv += ["-machine", "q35", "-accel", accelerator, "-cpu", _CPU[options.accel]]
    argv += ["-smp", str(options.cpus), "-m", f"{options.memory_mib}M"]
    return [*argv, "-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", words]


def escaped(path: str) -> str:
    """QEMU doubles the commas of its option values."""
    return path.replace(",", ",,")


def last_lines(log: bytes | bytearray, count: int = 4) -> str:
    lines = [line.strip() for line in bytes(log).decode(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "nothing"
