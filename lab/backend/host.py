"""The one interface the rest of the lab sees: a `Host` runs a command, copies a file, reads a fact.

A namespace, a User-Mode Linux guest, a container, a VM and a Windows machine all look like this. A backend yields a
`Network`: the three hosts of a topology, wired but not yet shaped. Nothing here knows which backend it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal, Protocol, runtime_checkable

from lab.backend.clocks import Clock
from lab.spec.units import Duration

Platform = Literal["linux", "windows"]


# A command may print a hundred megabytes, all of them one line, or a terminal's control characters.
_QUOTED_FROM_BYTES = 1 << 16
_QUOTED_CHARACTERS = 300


@dataclass(frozen=True)
class Completed:
    """A command that has ended, with what the operating system says it cost.

    `started_ns` and `ended_ns` are CLOCK_MONOTONIC of the host the command ran on. CPU seconds include the command's
    own children; `max_rss_bytes` is the largest single process, None where the host cannot tell.
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

    @property
    def wall_s(self) -> float:
        return (self.ended_ns - self.started_ns) / 1e9

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """The last non-empty line of stderr (or of stdout): what a one-line message quotes; of a long one a part."""
        for stream in (self.stderr, self.stdout):
            lines = [line.strip() for line in stream[-_QUOTED_FROM_BYTES:].decode(errors="replace").splitlines() if line.strip()]
            if lines:
                return "".join(each if each.isprintable() else "?" for each in lines[-1][:_QUOTED_CHARACTERS])
        return f"exit code {self.returncode}"


@runtime_checkable
class Process(Protocol):
    """A command still running on a host. It dies with the network if nobody stops it."""

    @property
    def argv(self) -> tuple[str, ...]: ...

    def running(self) -> bool: ...

    def wait(self, timeout_s: float) -> Completed:
        """Wait for the end; after `timeout_s` the whole process group is killed and `timed_out` is set."""
        ...

    def stop(self, grace_s: float = 2.0) -> Completed:
        """SIGTERM to the group, SIGKILL after `grace_s`; returns what the command printed."""
        ...

    def sync(self) -> None:
        """Bring what the command has printed so far into the files that `start` was given, where it is not there by itself."""
        ...


class Host(Protocol):
    """Where something runs."""

    @property
    def name(self) -> str:
        """`client`, `router`, `server` (or `wire`, the place of the router's ports as seen from outside it)."""
        ...

    @property
    def address(self) -> str:
        """The IPv4 address at which the other hosts reach it; empty where it has none."""
        ...

    @property
    def platform(self) -> Platform: ...

    @property
    def workdir(self) -> PurePath:
        """An empty folder of this host's own; gone with the network."""
        ...

    def program(self, name: str) -> str:
        """Where a program is that the lab itself needs there (`nginx`, `python3`). Raises UsageProblem with the way to get it."""
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

        Raises LabFault when `check` and the command fails or times out, or when the host itself is gone.
        A command that does not exist is returncode 127, as a shell would say.
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
        """Start in the background. `stdout`/`stderr` name files of the lab's own machine (evidence), else kept in memory."""
        ...

    def write(self, path: str | PurePath, data: bytes, *, mode: int = 0o644) -> None:
        """Put a file on the host, whole or not at all, parents made."""
        ...

    @property
    def reads_host_files(self) -> bool:
        """Whether `copy` costs next to nothing, because this machine's files are there to be read."""
        ...

    def copy(self, source: Path, path: str | PurePath, *, mode: int = 0o644) -> None:
        """Put a file of the lab's own machine on the host, as `write` does."""
        ...

    def read(self, path: str | PurePath) -> bytes:
        """Get a file from the host. Raises LabFault when it is not there."""
        ...


@dataclass(frozen=True)
class Ports:
    """Two interface names of the middle hop: the one towards the client and the one towards the server."""

    client: str
    server: str


@dataclass(frozen=True)
class RouterFacts:
    """What the middle hop is; part of every result's provenance."""

    kind: Literal["kernel", "uml"]
    kernel: str
    iproute2: str
    supports_seed: bool
    receive_buffer_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())


class Network(Protocol):
    """The three hosts of a topology, wired and routed, alive until `close`.

    `router` is where tc runs (interfaces `router_ports`); `wire` is a host that sees every frame leave and enter the
    router (interfaces `wire_ports`): the router itself for a kernel router, the namespace outside it for UML. On both
    pairs `.client` carries the download (router to client) as *transmitted* by the router.
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
        """Where iperf3 and ping run: a Linux host on the client's side of the router; the client itself wherever it is one."""
        ...

    @property
    def own_delay(self) -> Duration:
        """What a packet takes one way beyond what netem is told, where the backend has measured it; else none."""
        ...

    @property
    def clock(self) -> Clock:
        """Its hosts' clock, by which everything that is measured or waited for on them goes."""
        ...

    @property
    def virtual_facts(self) -> Mapping[str, Any] | None:
        """The machine whose clock this is, as `VirtualMachine` in results has it; None in real time."""
        ...

    def vary(self, seed: int) -> None:
        """Before a sample: what is random in it (start phase, losses, ports) is the seed's. Without effect in real time."""
        ...

    def random_bytes(self, size: int) -> bytes:
        """For keys and names of a run: the system's, or those of a virtual machine's seed."""
        ...

    @property
    def backend_facts(self) -> Mapping[str, str]:
        """What made the hosts, for provenance: versions of an engine, ids of images; empty where it is this machine alone."""
        ...

    @property
    def first_processes(self) -> Sequence[int]:
        """Of hosts whose processes do not descend from this one, those from which they do; 0 for one that cannot be seen."""
        ...

    def close(self) -> None:
        """Stop everything; idempotent."""
        ...
