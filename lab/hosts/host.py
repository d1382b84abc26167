"""The interface between the lab and its backends: a `Host` runs commands, a `Network` is the three hosts of a topology.

A namespace, a User-Mode Linux guest, a container, a VM and a Windows machine are all a `Host`, and no caller asks which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from lab.hosts.clocks import Clock
from lab.model.image import ImageConfig
from lab.model.units import Duration

Platform = Literal["linux", "windows"]


# A command may print a hundred megabytes, all of them one line, or a terminal's control characters.
_QUOTED_FROM_BYTES = 1 << 16
_QUOTED_CHARACTERS = 300


@dataclass(frozen=True)
class Completed:
    """A command that has ended, with its cost according to the operating system.

    `started_ns` and `ended_ns` are CLOCK_MONOTONIC of the host the command ran on. CPU seconds include the command's
    own children; `max_rss_bytes` is the largest single process, None where the host does not report it. `interruptions` is how
    often a machine in virtual time took the processor back from a program that computed for long: the run may not repeat.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    started_ns: int
    ended_ns: int
    user_s: float
    system_s: float
    max_rss_bytes: int | None = None
    timed_out: bool = False
    interruptions: int = 0

    @property
    def wall_s(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """The last non-empty line of stderr (or of stdout), shortened, for one-line messages."""
        for stream in (self.stderr, self.stdout):
            lines = [line.strip() for line in stream[-_QUOTED_FROM_BYTES:].decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return "".join(each if each.isprintable() else "?" for each in lines[-1][:_QUOTED_CHARACTERS])
        return f"exit code {self.returncode}"


def shell_code(returncode: int) -> int:
    """An exit code as a shell has it: 128 and the number of the signal that ended the process."""
    return 128 - returncode if returncode < 0 else returncode


@runtime_checkable
class Process(Protocol):
    """A command still running on a host. It ends with the network at the latest."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    def running(self) -> bool: ...

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the end; after `timeout_s` the process group is killed and `timed_out` is set."""
        ...

    def stop(self, grace_s: float = 2.0) -> Completed:
        """SIGTERM to the group, SIGKILL after `grace_s`; returns what the command printed."""
        ...

    def sync(self) -> None:
        """Write the output so far to the files that `start` was given, where the host does not do so itself."""
        ...


class AttachedProcess(Process, Protocol):
    """A command on the caller's descriptors."""

    def ended(self, timeout_s: float) -> bool:
        """Wait for the end at most that long, without killing."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the process group."""
        ...


class CollectedFile(NamedTuple):
    """A file that was checked and removed. `sha256` is empty where there was no file; `note` is a small text file next to it."""

    size: int
    sha256: str
    note: str = ""


class Host(Protocol):
    """A place where commands run. Every method raises LabFault where the host does not answer."""

    @property
    def name(self) -> str:
        """`client`, `router`, `server`, `prober`, or `wire`, from which the router's ports are observed."""
        ...

    @property
    def address(self) -> str:
        """The IPv4 address at which the other hosts reach it; empty where it has none."""
        ...

    @property
    def platform(self) -> Platform: ...

    @property
    def workdir(self) -> PurePath:
        """The host's own empty folder, which is removed with the network."""
        ...

    def program(self, name: str) -> str:
        """The path of a program that the lab needs (`nginx`, `python3`). Raises UsageProblem with the way to get it."""
        ...

    def place(self, program: str) -> str:
        """The path by which a program of the lab's machine, a client, runs on the host; as given where the host has it there."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float = 30.0,
        check: bool = True,
        root: bool = False,
    ) -> Completed:
        """Run to the end. `root` asks for the host's administrator; otherwise the lab's ordinary user runs it.

        Raises LabFault when `check` and the command fails or times out. returncode is 127 for a command that does not exist.
        """
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        root: bool = False,
        stdout: Path | None = None,
        stderr: Path | None = None,
    ) -> Process:
        """Start in the background. `stdout` and `stderr` are files of the lab's machine; without them output stays in memory."""
        ...

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        """Put a file on the host, complete or not at all; parents are made."""
        ...

    @property
    def under_test(self) -> Host:
        """This host as the programs under test see it: in its userland, where it has one. The lab's own programs run outside."""
        ...

    @property
    def image(self) -> ImageConfig | None:
        """The container image whose root it has, as `under_test` of a host may."""
        ...

    @property
    def reads_host_files(self) -> bool:
        """True if `copy` is almost free, because the host can read the lab machine's files."""
        ...

    def copy(self, source: Path, path: str | PurePath, *, mode: int = 0o644) -> None:
        """Put a file of the lab's own machine on the host, as `write` does."""
        ...

    def read(self, path: str | PurePath) -> bytes:
        """Get a file from the host. Raises LabFault when it does not exist."""
        ...

    def put(self, files: Mapping[PurePath, Path]) -> None:
        """Copy files of the lab's machine to the host, each complete or not at all; parents are made."""
        ...

    def prepare_folder(self, path: str) -> None:
        """Make an empty folder in place of what was there. Raises UsageProblem where the completion time of a file is unknown."""
        ...

    def make_payload(self, path: PurePath, size: int, seed: int, count: int = 0, name: str = "") -> list[str]:
        """Write a file of `size` bytes that follow from the seed, or a folder of `count` such files called `name % index`.

        Returns the sha256 of each. Raises LabFault when there is no room.
        """
        ...

    def collect(self, path: str, note_path: str = "") -> CollectedFile:
        """Check a file and remove it, together with a small text file at `note_path`."""
        ...

    @property
    def shares_files(self) -> bool:
        """True if the folders, environment and user of the lab's caller exist on the host too."""
        ...

    @property
    def ends_orphans(self) -> bool:
        """True if a process that outlives its command ends with the network at the latest."""
        ...

    @property
    def interactive(self) -> bool:
        """True if `attach` gives a command the caller's terminal; elsewhere `attach` raises UsageProblem."""
        ...

    def attach(
        self, argv: Sequence[str], fds: tuple[int, int, int], *, env: Mapping[str, str], cwd: str, uid: int, terminal: bool
    ) -> AttachedProcess:
        """Run on the caller's own descriptors. uid 0 is the host's root."""
        ...

    # Operations of the lab on a client or a server --------------------------------------------------------------------------

    def pin(self, congestion_control: str, mtu: int) -> None:
        """Set TCP and the lab's port as far as the system allows, only where they differ. Idempotent."""
        ...

    def unpinned(self, congestion_control: str) -> list[str]:
        """Every setting that does not hold, in words."""
        ...

    def bypass(self, other: Host) -> str:
        """The bypass by which a packet can reach `other` without passing the router, in words; empty if none exists."""
        ...

    def retransmits(self) -> int:
        """TCP segments retransmitted since the host started."""
        ...

    def facts(self) -> dict[str, object]:
        """The host's state for provenance; `unread` lists what could not be read."""
        ...

    def identify(
        self, program: str, version_flags: Sequence[str], teller: str = "", env: Mapping[str, str] | None = None
    ) -> Completed:
        """Print the path, the sha256 and the version of a program, the latter by `teller` for a program that cannot.

        `env` are variables for it. returncode 127 when there is no such program.
        """
        ...

    def end_processes(self, variable: str) -> None:
        """End every process whose environment has `variable` (NAME=VALUE), as far as this system can tell."""
        ...

    def cpu_score(self, rounds: int) -> str:
        """The output of `cpu_score_script`."""
        ...

    @property
    def capture_port(self) -> str:
        """The interface on which tcpdump captures the host's traffic; empty where it cannot."""
        ...

    @property
    def tap_port(self) -> str:
        """The interface whose packets the lab may time by the lab's own monotonic clock; empty where it cannot."""
        ...

    @property
    def reports_peak_memory(self) -> bool:
        """True if `Completed.max_rss_bytes` is the command's own peak; elsewhere GNU time measures the peak."""
        ...


@dataclass(frozen=True)
class Ports:
    """The router's interface towards the client and the one towards the server."""

    client: str
    server: str


@dataclass(frozen=True)
class RouterFacts:
    """The router's kind and versions; part of every result's provenance. `none`: client and server are one host."""

    kind: Literal["kernel", "uml", "none"]
    kernel: str
    iproute2: str
    supports_seed: bool
    receive_buffer_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def recorded(self) -> dict[str, object]:
        """The facts as a result has them: plain values for JSON."""
        return {**vars(self), "notes": list(self.notes)}


class Network(Protocol):
    """The three hosts of a topology, wired and routed, until `close`.

    tc runs on `router` (interfaces `router_ports`); `wire` sees every frame that leaves or enters the router (interfaces
    `wire_ports`): it is the router itself for a kernel router, the namespace outside it for UML. On both
    pairs `.client` carries the download (router to client) as *transmitted* by the router.

    Where client and server are one host (`router_facts.kind` is `none`), all of these are its loopback: nothing may be shaped
    on it, and its counters have both directions in one.
    """

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> str: ...

    @property
    def client(self) -> Host: ...

    @property
    def router(self) -> Host: ...

    @property
    def server(self) -> Host: ...

    @property
    def wire(self) -> Host: ...

    @property
    def router_ports(self) -> Ports: ...

    @property
    def wire_ports(self) -> Ports: ...

    @property
    def router_facts(self) -> RouterFacts: ...

    @property
    def prober(self) -> Host:
        """The Linux host on the client's side that runs iperf3 and ping: the client itself unless that is Windows."""
        ...

    @property
    def own_delay(self) -> Duration:
        """One-way delay of the path without netem, where the backend has measured it; else 0."""
        ...

    @property
    def clock(self) -> Clock:
        """The hosts' clock, for every measurement and every wait on them."""
        ...

    @property
    def virtual_facts(self) -> Mapping[str, Any] | None:
        """The virtual machine's facts, as `VirtualMachine` in results; None in real time."""
        ...

    def vary(self, seed: int) -> None:
        """Seed the next sample: its start phase, losses and ports follow from the seed. Without effect in real time."""
        ...

    def random_bytes(self, size: int) -> bytes:
        """Random bytes for keys and names of a run: the system's, or from a virtual machine's seed."""
        ...

    @property
    def backend_facts(self) -> Mapping[str, str]:
        """Versions of a container engine, ids of images and the like, for provenance; may be empty."""
        ...

    @property
    def first_processes(self) -> Sequence[int]:
        """First processes of hosts that are not descendants of the lab's process; 0 for a process that is out of sight."""
        ...

    def close(self) -> None:
        """Stop everything; idempotent."""
        ...


class LiveNetwork(Network, Protocol):
    """A network that can live on without the process that started it."""

    def remember(self, note: Mapping[str, object]) -> None:
        """Leave a note with the network, for another process that attaches to it."""
        ...

    def detach(self) -> None:
        """Let the network live on when this process ends."""
        ...
