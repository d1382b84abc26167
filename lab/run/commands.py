"""Any command on the client's host, and what crossed the link meanwhile as the router's ports counted it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from lab.hosts.agent.places import SAMPLE_VARIABLE
from lab.hosts.host import Network, Process, shell_code
from lab.net.ports import PortReading, PortSampler
from lab.net.scheduled import RunningSchedule
from lab.net.series import SLOT_NS, body_span, build_series, payload_between
from lab.run.sample import reading_of, run_client


@dataclass(frozen=True)
class Way:
    """One direction of the link during a command."""

    wire_bytes: int
    """Ethernet frames."""
    payload_bytes: int
    """TCP payload, repeated segments included; handshakes and headers of protocols count."""
    payload_s: float | None
    """First to last payload byte, to 10 ms; None for less than 64 KiB."""
    longest_gap_s: float | None
    """The longest time without payload between the first and the last; None without any."""

    @property
    def byte_s(self) -> float | None:
        """Payload per second while it flowed; None for less than 64 KiB."""
        return self.payload_bytes / self.payload_s if self.payload_s else None


@dataclass(frozen=True)
class Measured:
    """A command that has ended. Seconds are the client host's: virtual where its clock is. `up` is towards the server."""

    argv: tuple[str, ...]
    exit_code: int
    """A shell's exit code: 128 plus the signal's number for a command that was killed, 127 for a command that does not exist."""
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool
    up: Way
    down: Way

    def __str__(self) -> str:
        words = " ".join(self.argv)
        moved = ", ".join(f"{way.payload_bytes} bytes {name}" for name, way in (("up", self.up), ("down", self.down)))
        ended = "killed after" if self.timed_out else f"exit code {self.exit_code} after"
        return f"{words if len(words) <= 200 else words[:200] + '...'}: {ended} {self.seconds:.3f} s, {moved}"


def measure(
    network: Network,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: str,
    timeout_s: float,
    meanwhile: Callable[[Process], None] | None = None,
    schedule: AbstractContextManager[RunningSchedule | None] | None = None,
) -> Measured:
    """Run it in that folder of the client's host. Processes that it leaves behind are ended. Raises LabFault as a host does.

    `schedule` begins with the command.
    """
    client, ports = network.client, network.wire_ports
    mark = network.random_bytes(8).hex()
    with schedule or nullcontext() as changing, PortSampler(network) as sampler:
        if changing:
            changing.start()
        done = run_client(client.under_test, argv, {**environment, SAMPLE_VARIABLE: mark}, folder, timeout_s, meanwhile)
        client.end_processes(f"{SAMPLE_VARIABLE}={mark}")
        rows = sampler.between(done.started_ns, done.ended_ns + SLOT_NS)
    return Measured(
        argv=tuple(argv),
        exit_code=shell_code(done.returncode),
        stdout=done.text,
        stderr=done.stderr.decode(errors="replace"),
        seconds=done.wall_s,
        timed_out=done.timed_out,
        up=_way(rows, ports.server),
        down=_way(rows, ports.client),
    )


def _way(rows: Sequence[PortReading], port: str) -> Way:
    readings = [reading_of(row, port) for row in rows]
    span, series = body_span(readings), build_series(readings)
    return Way(
        wire_bytes=readings[-1].bytes - readings[0].bytes if readings else 0,
        payload_bytes=payload_between(readings[0], readings[-1]) if readings else 0,
        payload_s=(span.end_ns - span.start_ns) / 1e9 if span else None,
        longest_gap_s=series.longest_gap_ms / 1e3 if series else None,
    )
