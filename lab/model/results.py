"""The models of a cell and of a run, closed and versioned; the JSON Schemas in `lab/store` are generated from them.

Plain numbers carry their unit in the name (`_s` seconds, `_ms`, `_bit_s`, `_byte_s`, `_bytes`; a bare
`_error`, `_deviation` or `_ratio` is a fraction). Goodput is TCP payload, counted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from lab.model.clock import Clock
from lab.model.errors import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_PASS
from lab.model.link import Link, carrier
from lab.model.sample import MOST_FILE_TIMES, BodyClock, ClientNumbers, HostLoad, Sample, WireCounters, WireSeries
from lab.model.topology import Topology
from lab.model.transfer import Expectation, Transfer
from lab.model.units import Duration
from lab.model.userland import UserlandFacts

# The parts of a sample may be imported from here as well.
__all__ = ["MOST_FILE_TIMES", "BodyClock", "ClientNumbers", "HostLoad", "Sample", "WireCounters", "WireSeries"]

SCHEMA_VERSION = "2.3"

VerdictName = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
DirectionName = Literal["up", "down"]
# Fields that all kinds of result share. Times without an offset cannot be put in order, so they are refused.
SchemaVersion = Annotated[
    str,
    Field(description="MAJOR.MINOR of the schema of this file", json_schema_extra={"const": SCHEMA_VERSION}),
]
RunName = Annotated[str, Field(description="name of its run: the name that the folder was made with")]
LabVersion = Annotated[str, Field(description="version of the lab that wrote it")]
StartedAt = Annotated[AwareDatetime, Field(description="when it started, UTC, by the real clock")]
EndedAt = Annotated[AwareDatetime, Field(description="when it ended, UTC, by the real clock")]


class Closed(BaseModel):
    """Extra keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Interval(Closed):
    """A mean with its two-sided Student interval over `n` independent values."""

    n: int = Field(ge=1, description="number of independent values behind the mean")
    mean: float = Field(description="mean of the values, in the unit of what is judged (a fraction for a deviation or a ratio)")
    low: float = Field(description="lower end, in the same unit")
    high: float = Field(description="upper end, in the same unit")
    confidence: float = Field(gt=0, lt=1, description="share of such intervals that hold the true mean, two-sided, e.g. 0.90")


class DirectionCalibration(Closed):
    """One direction of the link, saturated by iperf3 and counted on the router's port between two instants."""

    direction: DirectionName = Field(description="up: client to server; down: server to client")
    goodput_bit_s: float = Field(description="TCP payload leaving the router per second, spurious retransmissions taken off")
    ideal_bit_s: float | None = Field(description="goodput by theory for this link; null for an unshaped link")
    goodput_error: float | None = Field(description="a fraction: goodput / ideal - 1; null for an unshaped link")
    window_s: float = Field(description="seconds counted, well after the start")
    wire_bytes: int = Field(description="Ethernet bytes counted in the window")
    wire_packets: int = Field(description="Ethernet frames counted in the window")
    mean_packet_bytes: float = Field(description="mean size of frames from the sender; above MTU + 14 bytes, offloads are on")
    retransmits: int = Field(description="segments the sender sent again in the window")
    router_drops: int = Field(description="packets that the router's queue dropped in the window")
    iperf3_bit_s: float | None = Field(description="goodput that iperf3's receiver reports for its complete run, start included")


class TraceDirectionDelivery(Closed):
    """The delivery of its trace by one direction while that direction was kept full."""

    delivered_bytes: list[int] = Field(description="frames' bytes per slot, from the trace's beginning on")
    planned_bytes: list[int] = Field(description="frames' bytes per slot by the trace")
    worst_slot_frames: float = Field(description="the largest difference of a slot, in full-sized frames; above 0: too much")
    mean_error: float = Field(description="difference of the sums, as a fraction of the trace's")
    problems: list[str] = Field(description="each way in which it is not the trace; empty when it is")


class TraceDelivery(Closed):
    """Proof that a link follows its trace: both directions at once, in a machine of their own."""

    slot_ms: int = Field(gt=0, description="length of a slot")
    up: TraceDirectionDelivery = Field(description="client to server")
    down: TraceDirectionDelivery = Field(description="server to client")


class DatagramCount(Closed):
    """Numbered datagrams through what a link does to UDP alone or to large packets, counted at their receiver."""

    direction: DirectionName = Field(description="up: client to server; down: server to client")
    packet_bytes: int = Field(description="size of each IP packet")
    sent: int = Field(description="packets sent")
    arrived: int = Field(description="packets that arrived intact")
    least: int = Field(description="the fewest packets that must arrive")
    most: int = Field(description="the most packets that may arrive")


class Calibration(Closed):
    """One measurement of the link: both directions and the idle round trip."""

    at: AwareDatetime = Field(description="when it began, UTC")
    attempt: int = Field(ge=1, description="number of the attempt, from 1; above 1 where an earlier one was out of tolerance")
    up: DirectionCalibration = Field(description="client to server")
    down: DirectionCalibration = Field(description="server to client")
    rtt_asked_ms: float = Field(description="idle round trip that the link was asked to have")
    rtt_ideal_ms: float = Field(description="asked, plus the probe's own serialisation")
    rtt_ms: list[float] = Field(description="every ping of the idle link")
    rtt_excess_ms: float = Field(description="median ping - rtt_ideal_ms; above 0 the link is slower than asked")
    ok: bool = Field(description="whether both directions and the round trip were within tolerance")
    problems: list[str] = Field(description="each way in which it is out of tolerance; empty when ok")
    datagrams: list[DatagramCount] = Field([], description="proof of `udp` and `hidden_mtu`; empty for links without them")
    trace: TraceDelivery | None = Field(None, description="what a link that follows a trace delivered of it; null for others")


class NatProof(Closed):
    """Words of a server to clients behind a NAT that were silent for shorter and for longer than it remembers."""

    udp_idle: Duration = Field(description="as asked")
    tcp_idle: Duration = Field(description="as asked")
    waits_s: list[float] = Field(description="the silences: two of UDP, then two of TCP")
    arrived: list[bool] = Field(description="whether a word after each silence arrived")
    problems: list[str] = Field(description="each way in which the NAT was not as asked; empty if it was")


class PathCertificate(Closed):
    """Proof of a path with nodes besides the judged link."""

    links: dict[str, Calibration] = Field(description="the calibration of each other link alone, by its node's name")
    combined: Calibration = Field(description="all links together, counted at the last port in each direction")
    nats: dict[str, NatProof] = Field(description="by the node's name")
    problems: list[str] = Field(description="each way in which the path was not as asked; empty if it was")

    @property
    def looks(self) -> dict[str, Calibration]:
        """Its calibrations by what they are of."""
        return {**{f"node {name}": look for name, look in self.links.items()}, "path": self.combined}


class Certificate(Closed):
    """Proof that the link had the properties asked of it, before and after the samples."""

    link: Link = Field(description="the link as asked")
    congestion_control: str = Field(description="congestion control of both hosts, as the kernel calls it")
    goodput_tolerance: float = Field(description="how far goodput may be from theory, as a fraction of it")
    rtt_tolerance_ms: float = Field(description="how far the median ping may be from theory")
    path: PathCertificate | None = Field(None, description="the rest of the path; null where the link is all of it")
    before: list[Calibration] = Field(description="calibrations before the first sample; the last one counts")
    after: list[Calibration] = Field(description="calibrations after the last sample; the last one counts")
    qdisc_commands: list[str] = Field(description="the tc commands as applied")
    qdisc_readback: dict[str, object] = Field(description="`tc -s -j qdisc` per router port, after the samples")


class SetAside(Closed):
    """A transfer that was repeated because the host was disturbed; never because of its result."""

    reason: str = Field(description="what the host did, with the figure and its limit")
    sample: Sample = Field(description="the transfer as it was measured")


class HostQuality(Closed):
    """The machine around the samples of a cell."""

    before: HostLoad | None = Field(description="idle host before the first sample; null where it was not watched")
    after: HostLoad | None = Field(description="idle host after the last sample; null where it was not watched")
    problems: list[str] = Field(description="each way in which the host was too busy to judge a client; empty when it was quiet")


Cause = Literal["figure", "transfer", "verdicts", "lab", "setup"]
IntervalMethod = Literal["student", "student and bootstrap", "pairs", "welch"]


class Verdict(Closed):
    """The verdict, and the reasoning for a reader to check."""

    name: VerdictName = Field(
        description="PASS, FAIL: proven; INCONCLUSIVE: not decided at the last look; INVALID: the lab was at fault"
    )
    reason: str = Field(description="one sentence with the number, the band, the interval and n")
    interval: Interval | None = Field(default=None, description="interval of the mean that is judged; null for too few values")
    method: IntervalMethod | None = Field(
        default=None, description="how the interval was made; null without an interval, and in schema 1.0"
    )
    band_low: float | None = Field(
        default=None, description="lower edge of what passes, in the unit of the interval; null for an open side"
    )
    band_high: float | None = Field(
        default=None, description="upper edge of what passes, in the same unit; null for an open side"
    )
    looks: list[int] = Field(default_factory=list, description="sample counts at which the interval was looked at")
    alpha_per_look: float | None = Field(
        default=None, description="error probability of each look, 0 to 1; null where there was no look"
    )
    warnings: list[str] = Field(
        default_factory=list, description="what a reader should know before relying on it, one sentence each"
    )
    host_notes: list[str] = Field(
        default_factory=list, description="what the host did meanwhile that did not change the verdict, one phrase each"
    )
    cause: Cause | None = Field(
        default=None,
        description="what decided it. figure: the interval; transfer: a failed transfer; verdicts: the verdicts of the cells "
        "compared; lab: a fault of the lab; setup: the client cannot be run; null where not recorded",
    )

    @property
    def notes(self) -> list[str]:
        """Warnings and host notes, one sentence each."""
        return [*self.warnings, *(f"host was busy: {note}" for note in self.host_notes)]


class ClientIdentity(Closed):
    """The program under test, and how it was called."""

    name: str = Field(description="the client in the names of cells, e.g. curl or curl@8.4.0")
    version: str = Field(description="version, as the program itself reports it")
    path: str = Field(description="path of the program on its host")
    sha256: str = Field(description="of the file at path, 64 hexadecimal digits")
    command: list[str] = Field(
        description="command line of the first transfer that ran, secrets never in it; empty where none ran"
    )
    variables: dict[str, str] = Field(
        default_factory=dict, description="environment variables that the caller gave it with --env, by name, with their values"
    )
    program: str = Field(default="", description="the value of --client: a name, a path, or a file that describes the client")
    notes: list[str] = Field(default_factory=list, description="settings that matter and that the command line does not show")


class HostSnapshot(Closed):
    """Provenance of one moment: flat, named facts per host (sysctls, offloads, routes, tc -s)."""

    at: AwareDatetime = Field(description="when it was taken, UTC")
    machine: dict[str, object] = Field(description="facts of the machine by name: kernel, CPU, clock, versions of tools")
    hosts: dict[str, dict[str, object]] = Field(description="by host (client, router, server): facts by name")


class VirtualMachine(Closed):
    """The guest that a cell in virtual time ran in."""

    seed: int = Field(description="seed of the guest, derived from the session's seed and from the cells that it was booted for")
    session_seed: int | None = Field(default=None, description="the value of --seed; the seeds of samples follow from it too")
    kernel_release: str = Field(description="release of the guest's kernel, as uname prints it")
    kernel_sha256: str = Field(description="digest of the guest's kernel, 64 hexadecimal digits")
    charge_ns: int = Field(ge=0, description="virtual price of a system call or a page fault, nanoseconds")
    charge_most_ns: int = Field(ge=0, description="highest price, reached by a program that never waits, nanoseconds")
    conditions: dict[str, bool] = Field(description="conditions of determinism by name, and whether each held in this guest")
    counts: dict[str, str] = Field(
        default_factory=dict,
        description="what the cell's bytes follow from, by name: version, price, seed, and digests (client, its libraries, "
        "server, kernel); empty where it was not recorded",
    )
    digest: str = Field(default="", description="of all that `counts` has, 64 hexadecimal digits: one digest, the same bytes")
    real_s: float | None = Field(
        default=None, description="real seconds that the guest ran; differs every time and is not part of the result"
    )


class CellResult(Closed):
    """A cell: one client, link and transfer with the samples and the verdict. Everything else is derived from it."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer[--kind], as `lab run` takes it")
    run: RunName
    lab_version: LabVersion
    backend: str = Field(description="what made the hosts: virtual, namespaces, compose or vagrant")
    clock: Clock = Field(default="real", description="the clock of every time and rate of the cell")
    virtual: VirtualMachine | None = Field(default=None, description="the guest; null in real time, and where no guest came up")
    userlands: dict[str, UserlandFacts] = Field(
        default_factory=dict,
        description="by host (client, server): the userland whose programs ran there; a host without one ran the machine's own",
    )
    backend_facts: dict[str, str] = Field(
        default_factory=dict, description="what made the hosts: versions of a container engine, ids of images"
    )
    router: dict[str, object] = Field(description="what shaped the link: its kind, kernel and notes, by name")
    client: ClientIdentity = Field(description="the program under test")
    topology: Topology = Field(description="the network at that time")
    transfer: Transfer = Field(description="what the client was asked to do")
    expectation: Expectation = Field(description="what a PASS asserts")
    certificate: Certificate | None = Field(description="null where the link was not calibrated; the cell is then INVALID")
    samples: list[Sample] = Field(description="transfers in the order taken; these are judged")
    set_aside: list[SetAside] = Field(
        default_factory=list, description="transfers spoilt by the host, in the order taken; not judged"
    )
    host: HostQuality | None = Field(default=None, description="null where the machine was not watched, as before schema 1.1")
    plan: list[int] = Field(default_factory=list, description="sample counts of the planned looks; empty before schema 1.1")
    verdict: Verdict = Field(description="the judgement of the samples")
    started_at: StartedAt
    ended_at: EndedAt
    before: HostSnapshot = Field(description="facts of the hosts before the first sample")
    after: HostSnapshot = Field(description="facts of the hosts after the last one")
    timing_s: dict[str, float] = Field(description="where the wall time went: bring_up, shape, calibrate, transfer, overhead")

    @property
    def paced(self) -> bool:
        """True if the transfer's limit or the link's rate that way sets the pace, and not the machine."""
        way = carrier(self.transfer.direction)
        return self.transfer.limit is not None or self.topology.link.direction(way).rate is not None

    @property
    def limit_byte_s(self) -> int | None:
        """The limit of everything moved at once."""
        return self.transfer.limit_byte_s


Ended = Literal["complete", "interrupted", "timeout", "disk", "killed"]
"""The way a run ended. The record is written with `killed` when a run starts, and written again when the run ends."""


class RunRecord(Closed):
    """A run: the command, its cells and answers in the order in which they ran, and their verdicts."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    run: RunName
    command: list[str] = Field(description="the command line as it was given")
    lab_version: LabVersion
    git_revision: str | None = Field(description="revision of the lab's checkout; null outside a checkout")
    started_at: StartedAt
    ended_at: EndedAt
    clocks: list[Clock] = Field(default=["real"], description="every clock that its cells and answers ran by")
    cells: list[str] = Field(description="ids in the order in which they were done; files in cells/")
    answers: list[str] = Field(default_factory=list, description="ids in the order in which they were done; files in answers/")
    baselines: list[str] = Field(
        default_factory=list,
        description="cells and answers whose verdicts do not count: of a baseline, compared with one, and trials of a search",
    )
    verdicts: dict[str, VerdictName] = Field(
        description="verdicts of all cells and of all answers that are judged, by id; a qualification's repeats these"
    )
    skipped: dict[str, str] = Field(
        default_factory=dict,
        description="cells and answers that were not run, because client, clock or machine cannot do that, and why",
    )
    planned: list[str] = Field(
        default_factory=list, description="ids of the cells and answers that were asked for; empty where that was not recorded"
    )
    ended: Ended | None = Field(
        default=None,
        description="complete; interrupted (by a signal, or by a problem of the lab); timeout (by SIGTERM, once the limit of a "
        "`timeout` that called it had passed); disk (it is full); killed (the record as it is written at the start); "
        "null: not recorded, before schema 2.1",
    )
    exit_code: int = Field(
        description="exit code of the command: 0 pass, 1 fail, 3 inconclusive, 4 invalid; those of `baselines` do not count; "
        "of a run that is not complete: 130 ended by SIGINT (Ctrl-C), 143 by SIGTERM, 129 by SIGHUP, 2 usage, else 4"
    )

    @property
    def missing(self) -> list[str]:
        """The cells and answers that were asked for, were not skipped, and have no result."""
        there = {*self.cells, *self.answers, *self.skipped}
        return [name for name in self.planned if name not in there]

    @property
    def whole(self) -> bool:
        """True if the run came to its end with everything that was asked for. A run of an older lab is taken at its word."""
        return self.ended in {"complete", None} and not self.missing


def count_line(verdicts: Iterable[VerdictName]) -> str:
    """`3 PASS, 0 FAIL, 1 INCONCLUSIVE, 0 INVALID`: every word, so that a reader can search for it."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in get_args(VerdictName))


_EXIT_CODES: dict[VerdictName, int] = {
    "FAIL": EXIT_FAIL,
    "INVALID": EXIT_INVALID,
    "INCONCLUSIVE": EXIT_INCONCLUSIVE,
    "PASS": EXIT_PASS,
}
WORST_FIRST: tuple[VerdictName, ...] = tuple(_EXIT_CODES)


def worst(verdicts: Iterable[VerdictName]) -> VerdictName:
    """The verdict of several together: FAIL before INVALID before INCONCLUSIVE; PASS for none.

    FAIL comes first: a proven fault of the client stands, whatever happened to the other cells.
    """
    seen = set(verdicts)
    return next((name for name in WORST_FIRST if name in seen), "PASS")


def exit_code(verdicts: Iterable[VerdictName]) -> int:
    """The exit code for a shell: that of the worst verdict."""
    return _EXIT_CODES[worst(verdicts)]


def verdict_of_exit_code(code: int) -> VerdictName:
    """The verdict that a run's exit code stands for."""
    return next((name for name, each in _EXIT_CODES.items() if each == code), "PASS")
