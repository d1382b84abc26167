"""Hosts of the machine in virtual time: namespaces behind its PID 1, and its clock."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

from lab.hosts.agent.places import CACHE_DIR, PROGRAMS_DIR, SAMPLE_VARIABLE, next_tick
from lab.hosts.agent.protocol import HOME_DIR, LAB_USER, RUN_DIR
from lab.hosts.cached import inside
from lab.hosts.command_host import Command
from lab.hosts.host import CollectedFile, Completed, Host
from lab.hosts.posix import PosixHost
from lab.hosts.virtual import ipv6
from lab.hosts.virtual.machine import Machine
from lab.hosts.virtual.placing import place_of
from lab.model.clock import EPOCH_S
from lab.model.clock import Clock as ClockName
from lab.model.errors import LabFault, UsageProblem
from lab.model.paths import cache_dir

if TYPE_CHECKING:
    from lab.assets.userlands import Userland

_STANDARD = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# OpenSSL and AWS-LC mix the processor's own random numbers in, where it has them; a seed means nothing to those.
_NO_PROCESSOR_ENTROPY = "~0x4000000000000000:~0x40000"
_LEAD_NS = 10_000_000
"""Long enough to prepare a client's start in."""
_AFTER_START_NS = 1_000_000


class VirtualClock:
    """Runs only during requests to the machine."""

    kind: ClockName = "virtual"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def monotonic_ns(self) -> int:
        return self._machine.now_ns

    def now(self) -> datetime:
        return datetime.fromtimestamp(EPOCH_S, UTC) + timedelta(microseconds=self._machine.now_ns // 1000)

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._machine.ask({"op": "sleep", "seconds": seconds})

    def next_start_ns(self, lead_s: float) -> int:
        base_ns = next_tick(self._machine.now_ns + round(lead_s * 1e9)) + self._machine.phase_ns
        self._machine.start_ns = base_ns + _AFTER_START_NS
        return base_ns


class VirtualProcess:
    """A command in the machine. It makes progress only during requests to the machine."""

    def __init__(self, machine: Machine, command: Command, job: int) -> None:
        self._machine, self._command, self._job = machine, command, job
        self._completed: Completed | None = None
        self._endings = len(machine.endings)

    @property
    def argv(self) -> tuple[str, ...]:
        return self._command.argv

    def running(self) -> bool:
        return self._completed is None and not self._ask_end(0.0, kill=False)

    def wait(self, timeout_s: float) -> Completed:
        if self._completed is None:
            self._ask_end(timeout_s, kill=True)
        assert self._completed is not None
        return self._completed

    def stop(self, grace_s: float = 2.0) -> Completed:
        if self._completed is None:
            self._machine.ask({"op": "signal", "job": self._job, "number": int(signal.SIGTERM)})
        return self.wait(grace_s)

    def sync(self) -> None:
        """Write its output so far to the caller's files."""
        if self._completed is None:
            _, (text, errors) = self._machine.ask({"op": "output", "job": self._job})
            _append(self._command.stdout, text)
            _put(self._command.stderr, errors)

    def _ask_end(self, timeout_s: float, *, kill: bool) -> bool:
        answer, blobs = self._machine.ask({"op": "wait", "job": self._job, "timeout_s": timeout_s, "kill": kill})
        if answer["running"]:
            return False
        self._completed = completed(self._command, answer, _with_ending(self._machine, self._endings, blobs))
        return True


class VirtualHost(PosixHost[VirtualProcess]):
    """A namespace of the machine. Its programs and files are this host's, read-only; what is written goes to its memory."""

    shares_files = True
    reads_host_files = True
    reports_peak_memory = True

    def __init__(
        self,
        machine: Machine,
        name: str,
        address: str,
        *,
        namespace: str = "",
        on_loopback: bool = False,
        userland: Userland | None = None,
        address_6: str = "",
    ) -> None:
        self._machine = machine
        self.address_6 = address_6
        """Its IPv6 address, where it has one."""
        self._within = ""
        self._found: dict[str, str] = {}
        self.on_loopback = on_loopback
        self.tap_port = self.capture_port
        self._namespace = namespace or name
        self.name, self.address = name, address
        self.workdir: PurePath = PurePosixPath(RUN_DIR, "lab", self._namespace)
        self.under_test = self._in_userland(userland) if userland else self

    def renamed(self, name: str, address: str) -> VirtualHost:
        """The same namespace under another name."""
        return VirtualHost(self._machine, name, address, namespace=self._namespace)

    def _in_userland(self, userland: Userland) -> Self:
        """This host as a program under test sees it: the commands have the userland's root."""
        name = f"{self.name} in {'' if userland.image else 'userland '}{userland.name}"
        found = type(self)(
            self._machine,
            name,
            self.address,
            namespace=self._namespace,
            on_loopback=self.on_loopback,
            address_6=self.address_6,
        )
        found._within = self._namespace
        found.image = userland.image
        return found

    def pin(self, congestion_control: str, mtu: int) -> None:
        super().pin(congestion_control, mtu)
        if self.address_6:
            ipv6.pin(self, congestion_control)

    def unpinned(self, congestion_control: str) -> list[str]:
        found = super().unpinned(congestion_control)
        return [*found, *(ipv6.unpinned(self, congestion_control) if self.address_6 else [])]

    def bypass(self, other: Host) -> str:
        found = super().bypass(other)
        address = other.address_6 if isinstance(other, VirtualHost) else ""
        return found or (ipv6.bypass(self, other.name, address) if address else "")

    def program(self, name: str) -> str:
        if self._within:
            if name not in self._found:
                self._found[name] = self.run(["/bin/sh", "-c", 'command -v -- "$1"', "find", name], check=False).text.strip()
            if not self._found[name]:
                raise UsageProblem(f"there is no {name} on host {self.name}", remedy="name a userland that has it")
            return self._found[name]
        from lab.assets.tools import host_program

        return inside(host_program(name))

    def place(self, program: str) -> str:
        """The path by which a client that is a file of this host's runs inside: the same wherever its user has it.

        The folder of a program that is not the system's is shown under a path of the lab's. A script's folder is copied,
        because reading a folder takes time by its size.
        """
        if self._within or (found := place_of(program)) is None:
            return program
        if found.folder == str(cache_dir()):
            return f"{CACHE_DIR}/{found.inner}"
        return f"{self.show(found.folder, found.files)}/{found.inner}"

    def show(self, folder: str, files: Iterable[str] | None = None) -> str:
        """Show a folder of the real host's, or a copy of these of its files, under a path of the lab's; that path."""
        placed = self._machine.placed
        if folder not in placed:
            path = f"{PROGRAMS_DIR}/{len(placed)}"
            self._machine.ask({"op": "place", "path": path, "source": folder, "files": None if files is None else list(files)})
            placed[folder] = path
        return placed[folder]

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        self._machine.ask({"op": "write", "path": str(path), "mode": mode}, [data])

    def copy(self, source: Path, path: str | PurePath, *, mode: int = 0o644) -> None:
        self._machine.ask({"op": "copy", "source": str(source.absolute()), "path": str(path), "mode": mode})

    def read(self, path: str | PurePath) -> bytes:
        try:
            return self._machine.ask({"op": "read", "path": str(path)})[1][0]
        except LabFault as fault:
            why = fault.message.rpartition("] ")[2].partition(": ")[0]
            raise LabFault(f"{self.name}: {path} cannot be read: {why}") from None

    def collect(self, path: str, note_path: str = "") -> CollectedFile:
        found, (note,) = self._machine.ask({"op": "collect", "path": path, "note": note_path})
        return CollectedFile(int(found["size"]), str(found["sha256"]), note.decode(errors="replace"))

    def end_processes(self, variable: str) -> None:
        self._machine.ask({"op": "end"}, [variable.encode()])

    def _begin(self, command: Command) -> VirtualProcess:
        answer, _ = self._machine.ask({"op": "start", **self._asked(command)}, [command.stdin])
        return VirtualProcess(self._machine, command, int(answer["job"]))

    def _complete(self, command: Command) -> Completed:
        if command.argv[0] == "cat" and all(word.startswith("/proc/self/net/") for word in command.argv[1:]):
            return self._cat(command)
        endings = len(self._machine.endings)
        answer, blobs = self._machine.ask({"op": "run", **self._asked(command), "timeout_s": command.timeout_s}, [command.stdin])
        return completed(command, answer, _with_ending(self._machine, endings, blobs))

    def _cat(self, command: Command) -> Completed:
        """Read without a process: counters are read around every sample, and a process would cost as much as the sample."""
        started_ns = self._machine.now_ns
        _, (text,) = self._machine.ask({"op": "cat", "host": self._namespace, "paths": command.argv[1:]})
        return Completed(command.argv, 0, text, b"", started_ns, self._machine.now_ns, 0.0, 0.0)

    def _asked(self, command: Command) -> dict[str, Any]:
        return {
            "host": self._namespace,
            "argv": command.argv,
            "env": environment(command.env, of_machine=not self._within),
            "cwd": command.cwd or str(self.workdir),
            "root": command.root,
            "within": self._within,
            **({"user": [self.image.uid, self.image.gid, []]} if self.image and not command.root else {}),
            "at_ns": self._start_ns() if SAMPLE_VARIABLE in command.env else -1,
        }

    def _start_ns(self) -> int:
        """When the client begins: what was announced, else the machine's phase after its next tick."""
        announced, self._machine.start_ns = self._machine.start_ns, 0
        return announced or next_tick(self._machine.now_ns + _LEAD_NS) + self._machine.phase_ns


def environment(more: Mapping[str, str], *, of_machine: bool = True) -> dict[str, str]:
    """Variables of a command inside, none of them the caller's; `more` takes precedence.

    PATH has the standard folders and, `of_machine`, those that the lab itself has filled (`lab.assets.extracted`), by the cache's
    path inside. Looking for a program takes time in every folder before its own, and even a longer PATH would make every figure
    another one.
    """
    cache = cache_dir()
    folders = os.environ.get("PATH", "").split(os.pathsep) if of_machine else []
    ours = (inside(folder) for folder in folders if Path(folder).is_relative_to(cache))
    return {
        "PATH": os.pathsep.join(dict.fromkeys((*_STANDARD, *ours))),
        "HOME": HOME_DIR,
        "USER": LAB_USER,
        "LOGNAME": LAB_USER,
        "TMPDIR": f"{RUN_DIR}/lab/tmp",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "OPENSSL_ia32cap": _NO_PROCESSOR_ENTROPY,
        # Hashes of Python programs would differ between boots only by what is in their memory; here they do not at all.
        "PYTHONHASHSEED": "0",
        **more,
    }


def _with_ending(machine: Machine, before: int, blobs: Sequence[bytes]) -> Sequence[bytes]:
    """Add to a command's stderr that the lab ended it, if it did."""
    if len(machine.endings) == before:
        return blobs
    return [blobs[0], blobs[1] + f"\nthe lab ended it: it {machine.endings[-1]}\n".encode()]


def completed(command: Command, answer: Mapping[str, Any], blobs: Sequence[bytes]) -> Completed:
    """A command that has ended; its output goes to the caller's files, if any."""
    _append(command.stdout, blobs[0])
    _put(command.stderr, blobs[1])
    return Completed(
        argv=command.argv,
        returncode=int(answer["returncode"]),
        stdout=b"" if command.stdout else blobs[0],
        stderr=b"" if command.stderr else blobs[1],
        started_ns=int(answer["started_ns"]),
        ended_ns=int(answer["ended_ns"]),
        user_s=float(answer["user_s"]),
        system_s=float(answer["system_s"]),
        max_rss_bytes=answer["peak_bytes"],
        interruptions=int(answer["interruptions"]),
        timed_out=bool(answer["timed_out"]),
    )


def _append(path: Path | None, data: bytes) -> None:
    if path is not None:
        with path.open("ab") as file:
            file.write(data)


def _put(path: Path | None, data: bytes) -> None:
    if path is not None:
        path.write_bytes(data)
