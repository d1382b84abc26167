"""The Linux machines of the Vagrantfile by QEMU alone: where there is no Vagrant, or no provider for it.

Three guests of images/guest (Debian 12, the cloud kernel, which has sch_netem). Their two networks are socket pairs between QEMU
processes, so this machine's network is not touched; the way in is SSH on a port of 127.0.0.1. Keys are made for each start.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from images.guest import image as images
from images.guest import machine as qemu
from lab.assets.store import Progress
from lab.hosts.agent.syscalls import die_with_parent
from lab.hosts.ssh.config import Target, render
from lab.hosts.vagrant.network import MACS, wire_script
from lab.model.errors import LabFault
from lab.servers.sshd import KeyPair, known_hosts, make_key

# The names of the Vagrantfile, and what each is to the lab.
ROLES = {"router": "router", "server": "server", "linux": "client"}
# Which cable each of a machine's lab ports is on.
_CABLES = {"router": ("client", "server"), "server": ("server",), "linux": ("client",)}
_READY, _FAILED = b"guest-init: ready", b"guest-init: failed"
_BOOT_S = {"kvm": 90.0, "tcg": 400.0}
# As in images/guest: an emulated kernel that patches itself sometimes dies.
_BOOTS = 4
# These machines have no other users, and page table isolation makes an emulator drop its translations at every interrupt.
_KERNEL_WORDS = " mitigations=off"
_MANAGEMENT = "10.0.2.15"
_SSH_PORT = 22


@dataclass
class _Guest:
    name: str
    port: int
    host_key: KeyPair = field(default_factory=make_key)
    process: subprocess.Popen[bytes] | None = None
    boots: int = 0

    @property
    def mac(self) -> str:
        return f"02:54:4c:00:00:{list(ROLES).index(self.name) + 1:02x}"


class Machines:
    """Use as a context manager: inside it the three machines are up, and nothing is left of them after it."""

    def __init__(self, progress: Progress, *, accel: qemu.Accel = "tcg", memory_mib: int = 512, cpus: int = 1) -> None:
        self.progress = progress
        self.options = qemu.Options("tcg" if accel == "auto" else accel, cpus, memory_mib)
        self._folder = tempfile.TemporaryDirectory(prefix="roughwater-machines-")
        self._cables: dict[str, tuple[socket.socket, socket.socket]] = {}
        self.key = make_key()
        self.guests = {name: _Guest(name, _free_port()) for name in ROLES}

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    @property
    def config(self) -> Path:
        """What `vagrant ssh-config` would print."""
        return self.folder / "ssh-config"

    def __enter__(self) -> Self:
        qemu.need_qemu()
        try:
            self._boot(images.build(self.progress))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for guest in self.guests.values():
            _kill(guest)
        for pair in self._cables.values():
            for end in pair:
                end.close()
        self._folder.cleanup()

    def console(self, name: str) -> bytes:
        path = self.folder / f"{name}.console"
        return path.read_bytes() if path.exists() else b""

    def _boot(self, image: images.Image) -> None:
        self._write("key", self.key.private)
        for guest in self.guests.values():
            self._write(f"{guest.name}.known_hosts", known_hosts(["127.0.0.1"], guest.port, guest.host_key).encode())
            self._write(f"{guest.name}.tar", self._job(guest))
        self._write("ssh-config", "\n".join(render(self._target(guest)) for guest in self.guests.values()).encode())
        began = time.monotonic()
        self.progress(f"booting three machines with {self.options.accel.upper()}, {self.options.memory_mib} MB each")
        # Boot all at once, and all again if one dies: every cable connects two of them.
        for again in (*range(1, _BOOTS), 0):
            self._start(image)
            problem = self._wait(began)
            if not problem:
                self.progress(f"they are up after {time.monotonic() - began:.0f} s")
                return
            if not again:
                raise LabFault(f"the machines do not boot: {problem}")
            self.progress(f"once more: {problem}")

    def _start(self, image: images.Image) -> None:
        for guest in self.guests.values():
            _kill(guest)
        for pair in self._cables.values():
            for end in pair:
                end.close()
        self._cables = {name: socket.socketpair() for name in ("client", "server")}
        for guest in self.guests.values():
            self._launch(guest, image)

    def _launch(self, guest: _Guest, image: images.Image) -> None:
        ends = [self._cables[name][0 if guest.name == "router" else 1].fileno() for name in _CABLES[guest.name]]
        argv = qemu.machine_words(image, self.options, _KERNEL_WORDS)
        for number, (path, only) in enumerate(((image.root, "on"), (self.folder / f"{guest.name}.tar", "on"))):
            drive = f"if=none,format=raw,file.locking=off,id=disk{number},file={qemu.escaped(str(path))},readonly={only}"
            argv += ["-drive", drive, "-device", f"virtio-blk-pci,drive=disk{number}"]
        forward = f"hostfwd=tcp:127.0.0.1:{guest.port}-{_MANAGEMENT}:{_SSH_PORT}"
        argv += ["-netdev", f"user,id=management,restrict=on,{forward}"]
        argv += ["-device", f"virtio-net-pci,netdev=management,mac={guest.mac}", "-device", "virtio-rng-pci"]
        for fd, mac in zip(ends, MACS[ROLES[guest.name]], strict=True):
            argv += ["-netdev", f"stream,id=lab{fd},server=off,addr.type=fd,addr.str={fd}"]
            argv += ["-device", f"virtio-net-pci,netdev=lab{fd},mac={mac}"]
        argv += ["-chardev", f"file,id=serial,path={qemu.escaped(str(self.folder / f'{guest.name}.console'))}"]
        argv += ["-serial", "chardev:serial"]
        with (self.folder / f"{guest.name}.qemu").open("wb") as log:
            guest.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=ends,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread
            )
        guest.boots += 1

    def _wait(self, began: float) -> str:
        """Empty when all are ready, else why one is not."""
        deadline = began + _BOOT_S[self.options.accel] * max(guest.boots for guest in self.guests.values())
        while True:
            logs = {name: self.console(name) for name in self.guests}
            for name, guest in self.guests.items():
                assert guest.process is not None
                if guest.process.poll() is not None or _FAILED in logs[name]:
                    said = logs[name] or (self.folder / f"{name}.qemu").read_bytes()
                    return f"{name}: {qemu.last_lines(said)}"
            if all(_READY in log for log in logs.values()):
                return ""
            if time.monotonic() > deadline:
                late = ", ".join(name for name, log in logs.items() if _READY not in log)
                return f"{late} not ready in {time.monotonic() - began:.0f} s: {qemu.last_lines(logs[late.split(',')[0]])}"
            time.sleep(0.2)

    def _target(self, guest: _Guest) -> Target:
        known, key = str(self.folder / f"{guest.name}.known_hosts"), str(self.folder / "key")
        return Target(guest.name, "127.0.0.1", "root", guest.port, (key,), known)

    def _job(self, guest: _Guest) -> bytes:
        """The second disk: a tar that the guest's initramfs lays over its root."""
        here = Path(__file__).parent
        role = ROLES[guest.name]
        wanted = {
            "name": guest.name,
            "role": role,
            "macs": MACS[role],
            "management_mac": guest.mac,
            "management_address": f"{_MANAGEMENT}/24",
            "files": [
                ["host_key", "/etc/ssh/ssh_host_ed25519_key", "600"],
                ["host_key.pub", "/etc/ssh/ssh_host_ed25519_key.pub", "644"],
                ["authorized_keys", "/root/.ssh/authorized_keys", "600"],
            ],
        }
        files = {
            # Its initramfs knows this name only.
            "inside.py": (here / "inside.py").read_bytes(),
            "furnish.py": (here.parent / "guest" / "inside.py").read_bytes(),
            "wire.sh": wire_script().encode(),
            "machine.json": json.dumps(wanted).encode(),
            "host_key": guest.host_key.private,
            "host_key.pub": guest.host_key.public.encode() + b"\n",
            "authorized_keys": self.key.public.encode() + b"\n",
        }
        memory = io.BytesIO()
        with tarfile.open(fileobj=memory, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(f"lab-job/{name}")
                member.size, member.mode = len(data), 0o600
                archive.addfile(member, io.BytesIO(data))
        return memory.getvalue()

    def _write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)


def _kill(guest: _Guest) -> None:
    if guest.process is not None and guest.process.poll() is None:
        os.killpg(guest.process.pid, signal.SIGKILL)
        guest.process.wait()
    guest.process = None


def _free_port() -> int:
    """One that nothing listens on; from a random place, because another start may be looking too."""
    start = 20000 + secrets.randbelow(20000)
    for port in range(start, start + 200):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LabFault("no free port on 127.0.0.1")
