"""What a run leaves behind, as closed, versioned models; `schema/cell.schema.json` is generated from them.

One file per cell. Plain numbers carry their unit in the name (`_s` seconds, `_ms`, `_bit_s`, `_byte_s`, `_bytes`; a bare
`_error`, `_deviation` or `_ratio` is a fraction). Goodput is TCP payload, counted once.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from lab.spec.clock import Clock
from lab.spec.models import Expectation, Link, Topology, Transfer

SCHEMA_VERSION = "1.2"

VerdictName = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
DirectionName = Literal["up", "down"]
BodyClock = Literal["client", "wire", "exit"]
# What every kind of result says of itself. Times without an offset cannot be put in order, so they are refused.
SchemaVersion = Annotated[
    str,
    Field(description="MAJOR.MINOR of the schema that this file keeps to", json_schema_extra={"const": SCHEMA_VERSION}),
]
RunName = Annotated[str, Field(description="the run it belongs to: the name that its folder was made with")]
LabVersion = Annotated[str, Field(description="of the lab that wrote it")]
StartedAt = Annotated[AwareDatetime, Field(description="when it began, UTC, by the real machine's clock")]
EndedAt = Annotated[AwareDatetime, Field(description="when it was over, UTC, by the real machine's clock")]
# 2,500 numbers are 20 KB a sample; a set of more keeps every second, third, ...
MOST_FILE_TIMES = 2500
_WINDOW_MS = 100.0
_START_MS = 500.0


class Closed(BaseModel):
    """Extra keys are errors: a schema that nobody enforces rots."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Interval(Closed):
    """A mean with its two-sided Student interval over `n` independent values."""

    n: int = Field(ge=1, description="number of independent values behind the mean")
    mean: float = Field(description="of the values, in the unit of what is judged (a fraction for a deviation or a ratio)")
    low: float = Field(description="lower end, in the same unit")
    high: float = Field(description="upper end, in the same unit")
    confidence: float = Field(gt=0, lt=1, description="share of such intervals that hold the true mean, two-sided, e.g. 0.90")


class DirectionCalibration(Closed):
    """One direction of the link, saturated by iperf3 and counted on the router's port between two instants."""

    direction: DirectionName = Field(description="up: client to server; down: server to client")
    goodput_bit_s: float = Field(description="TCP payload leaving the router per second, spurious retransmissions taken off")
    ideal_bit_s: float | None = Field(description="what theory gives for this link; null where it is unshaped")
    goodput_error: float | None = Field(description="a fraction: goodput / ideal - 1; null where there is no ideal")
    window_s: float = Field(description="seconds counted, well after the start")
    wire_bytes: int = Field(description="Ethernet bytes counted in the window")
    wire_packets: int = Field(description="Ethernet frames counted in the window")
    mean_packet_bytes: float = Field(description="of frames entering the router from the sender; above MTU + 14 offloads are on")
    retransmits: int = Field(description="segments the sender sent again in the window")
    router_drops: int = Field(description="packets that the router's queue dropped in the window")
    iperf3_bit_s: float | None = Field(description="iperf3's own receiver figure for the whole run, start included")


class Calibration(Closed):
    """One look at the link: both directions and the idle round trip."""

    at: AwareDatetime = Field(description="when the look began, UTC")
    attempt: int = Field(
        ge=1, description="number of the look at this instant, from 1; more where an earlier one was beyond tolerance"
    )
    up: DirectionCalibration = Field(description="client to server")
    down: DirectionCalibration = Field(description="server to client")
    rtt_asked_ms: float = Field(description="idle round trip that the link was asked to have")
    rtt_ideal_ms: float = Field(description="asked, plus the probe's own serialisation")
    rtt_ms: list[float] = Field(description="every ping of the idle link")
    rtt_excess_ms: float = Field(description="median ping - rtt_ideal_ms; above 0 the link is slower than asked")
    ok: bool = Field(description="whether both directions and the round trip were within tolerance")
    problems: list[str] = Field(description="each way in which this look is beyond tolerance; empty when ok")


class Certificate(Closed):
    """The proof that the link was what it claims, before and after the samples."""

    link: Link = Field(description="what was asked of the shaped hop")
    congestion_control: str = Field(description="of both hosts, as the kernel calls it")
    goodput_tolerance: float = Field(description="how far goodput may be from theory, as a fraction of it")
    rtt_tolerance_ms: float = Field(description="how far the median ping may be from theory")
    before: list[Calibration] = Field(description="looks at the link before the first sample; the last one counts")
    after: list[Calibration] = Field(description="looks after the last sample; the last one counts")
    qdisc_commands: list[str] = Field(description="the tc commands as applied")
    qdisc_readback: dict[str, object] = Field(description="`tc -s -j qdisc` per router port, after the samples")


class ClientNumbers(Closed):
    """What the client itself reports about one transfer; seconds from its start."""

    bytes: int | None = Field(
        description="body bytes that it says it moved; null where it tells none; the lab counts what arrived all the same"
    )
    total_s: float = Field(description="until it was done; of a client without a report its process's time, by the lab's clock")
    first_byte_s: float | None = Field(default=None, description="until the first body byte arrived; null where it tells none")
    connect_s: float | None = Field(default=None, description="until the TCP connection stood; null where it tells none")
    tls_s: float | None = Field(
        default=None, description="until TLS (over SFTP: SSH) stood; null where there is none or it tells none"
    )
    http_version: str | None = Field(default=None, description="as the client names it; null where it tells none")
    status: int | None = Field(default=None, description="HTTP status code; null where it tells none")
    stream_byte_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="of several files over HTTP: the body rate of each by the client's clock, sorted; of many every second, "
        "third, ... with the slowest and the fastest",
    )
    raw: dict[str, object] = Field(default_factory=dict, description="the client's own report, untouched")


class WireSeries(Closed):
    """Payload per slot at the router's port towards the receiver, from the first to the last data packet."""

    slot_ms: float = Field(description="length of one slot")
    goodput_bit_s: list[float] = Field(description="TCP payload of each slot, bits per second")
    worst_window_byte_s: float | None = Field(description="fastest 100 ms, bytes per second")
    slowest_window_byte_s: float | None = Field(description="slowest 100 ms between first and last byte")
    longest_gap_ms: float = Field(description="longest time between first and last byte in which nothing arrived")
    late_slots: int = Field(description="number of slots whose counter was read more than half a slot late")

    @property
    def begun_window_byte_s(self) -> float:
        """The fastest 100 ms after the first half second, where there is as much again to look at; else of the whole.

        What a sender may have on its way before its receiver has read anything (the window of the first packets, and what the
        kernel adds to it: some 64 to 300 KB) is a burst of every client that limits itself by reading slowly, once. One that
        saves up and spends does it again and again. What crossed in less than 100 ms is one burst.
        """
        slots = [rate / 8 * self.slot_ms / 1e3 for rate in self.goodput_bit_s]
        window, start = round(_WINDOW_MS / self.slot_ms), round(_START_MS / self.slot_ms)
        seen = slots[start:] if len(slots) >= 2 * start else slots
        sums = [sum(seen[at : at + window]) for at in range(len(seen) - window + 1)]
        return max(sums, default=sum(seen)) * 1e3 / _WINDOW_MS


class WireCounters(Closed):
    """Counted over one sample."""

    wire_bytes_down: int = Field(description="Ethernet bytes towards the client")
    wire_bytes_up: int = Field(description="Ethernet bytes towards the server")
    wire_packets_down: int = Field(description="Ethernet frames towards the client")
    wire_packets_up: int = Field(description="Ethernet frames towards the server")
    payload_bytes: int = Field(description="TCP payload towards the receiver, retransmissions included")
    retransmits: int = Field(description="segments the data's sender sent again (TcpRetransSegs of its namespace)")
    router_drops_down: int = Field(description="packets that the router's queue towards the client dropped")
    router_drops_up: int = Field(description="packets that the router's queue towards the server dropped")


class HostLoad(Closed):
    """What befell the machine over one span; null where this kernel does not tell.

    The lab's own is everything that the lab started (router, servers, client) and itself; all else on the machine is foreign.
    """

    span_s: float = Field(gt=0, description="seconds watched")
    steal_share: float | None = Field(description="of the machine's CPU time, what its hypervisor gave to others, 0 to 1")
    foreign_cores: float | None = Field(description="CPU seconds per second of processes that are not the lab's")
    lab_cores: float | None = Field(description="CPU seconds per second of the lab, its router, servers and client")
    cores: int = Field(ge=1, description="number of CPUs that the lab may use")
    late_p99_ms: float | None = Field(description="99th percentile of how late a timer asked for every 10 ms woke up")
    late_worst_ms: float | None = Field(description="how late the latest of them woke up")
    frequency_mhz: float | None = Field(description="mean over the cores at the end of the span")
    load_1min: float | None = Field(
        description="number of processes that ran or waited for a CPU: load average of the last minute at the end of the span"
    )


class Sample(Closed):
    """One whole transfer."""

    index: int = Field(ge=0, description="its place among the samples of the cell, from 0")
    seed: int | None = Field(
        default=None, description="of this sample in virtual time: moves start phases, losses and ports; null in real time"
    )
    started_at: AwareDatetime = Field(description="when the client's process was started, UTC, by the cell's clock")
    exit_code: int = Field(description="of the client's process; negative: ended by that signal")
    ok: bool = Field(
        description="exit code 0, all bytes arrived, content right; what was thrown away by the client's count and the wire's"
    )
    problem: str = Field(default="", description="what the client did wrong; empty where nothing was")
    expected_bytes: int = Field(description="body bytes of all files together")
    client: ClientNumbers | None = Field(
        description="what the client says of itself; null where it gave no report that could be read"
    )
    wall_s: float = Field(description="process start to process end, by the lab's clock")
    body_s: float | None = Field(description="first to last body byte: the denominator of body_byte_s")
    body_clock: BodyClock | None = Field(
        default=None,
        description="whose clock body_s is: the client's report, or (to some 10 ms) the router's port; exit: the port's first "
        "byte to the client's end, for a limited download of a client that tells nothing",
    )
    body_byte_s: float | None = Field(
        description="body bytes per second: expected_bytes / body_s; null where the transfer failed or its time is not known"
    )
    total_byte_s: float | None = Field(description="bytes / the client's total time, connection set-up included")
    deviation: float | None = Field(
        description="a fraction: body_byte_s / limit - 1, of several files over HTTP that of the one furthest off its limit; "
        "null where the transfer has no limit"
    )
    slowest_stream_byte_s: float | None = Field(
        default=None,
        description="body bytes per second of the slowest of several files over HTTP, by the client's clock; null of one file",
    )
    fastest_stream_byte_s: float | None = Field(default=None, description="likewise of the fastest")
    burst_ratio: float | None = Field(
        default=None,
        description="fastest 100 ms on the wire, after the first half second of a transfer of a second and more, / what "
        "the limit of all at once allows; null where there is none",
    )
    goodput_ratio: float | None = Field(
        default=None, description="body_byte_s / ideal goodput of the link that way; null where the link is unshaped"
    )
    requests_per_s: float | None = Field(
        default=None, description="of requests for one file that is thrown away: their number / body_s"
    )
    cpu_user_s: float = Field(description="CPU seconds of the client in user mode")
    cpu_system_s: float = Field(description="CPU seconds of the client in the kernel")
    max_rss_bytes: int | None = Field(description="peak resident set of the client; null where nothing measured it")
    series: WireSeries | None = Field(description="goodput over time; null where the port was not read")
    wire: WireCounters | None = Field(description="null where the ports were not read")
    file_times_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="of a set: when each file was complete where it arrived (its ctime, which a kernel counts in ticks of 1 to "
        "10 ms), seconds from the client's start, sorted; of many files every file_times_every-th",
    )
    file_times_every: int = Field(default=1, ge=1, description="number of files for each time above; 1 is all of them")
    first_hundred_s_per_file: float | None = Field(
        default=None, description="of a set of 200 and more: from the first complete file to the hundredth, / 99"
    )
    last_hundred_s_per_file: float | None = Field(default=None, description="the same of the last hundred")
    pcap: str | None = Field(default=None, description="file beside this one, when --pcap asked for it")
    host: HostLoad | None = Field(default=None, description="what befell the machine meanwhile; null where it was not watched")


class SetAside(Closed):
    """A transfer that was taken again because of the machine it ran on; never because of what it shows."""

    reason: str = Field(description="what the host did, with the figure and its limit")
    sample: Sample = Field(description="the transfer as it was measured")


class HostQuality(Closed):
    """The machine around the samples of a cell."""

    before: HostLoad | None = Field(description="idle, before the first sample; null where it was not watched")
    after: HostLoad | None = Field(description="idle, after the last one")
    problems: list[str] = Field(description="each way in which the host was no place to judge a client; empty when it was quiet")


IntervalMethod = Literal["student", "student and bootstrap", "pairs", "welch"]


class Verdict(Closed):
    """The judgement and the reasoning a reader can check."""

    name: VerdictName = Field(
        description="PASS, FAIL: proven; INCONCLUSIVE: not decided at the last look; INVALID: the lab was at fault"
    )
    reason: str = Field(description="one sentence with the number, the band, the interval and n")
    interval: Interval | None = Field(default=None, description="of the mean that is judged; null where there are too few values")
    method: IntervalMethod | None = Field(
        default=None, description="how the interval was made; null where there is none, or in 1.0"
    )
    band_low: float | None = Field(
        default=None, description="lower edge of what passes, in the unit of the interval; null where there is none"
    )
    band_high: float | None = Field(
        default=None, description="upper edge of what passes, in the same unit; null where there is none"
    )
    looks: list[int] = Field(default_factory=list, description="sample counts at which the interval was looked at")
    alpha_per_look: float | None = Field(
        default=None, description="chance of an error that each look may take, 0 to 1; null where nothing was looked at"
    )
    warnings: list[str] = Field(
        default_factory=list, description="what a reader should know before relying on it, one sentence each"
    )


class ClientIdentity(Closed):
    """The program under test, and how it was called."""

    name: str = Field(description="as cells are named by it, e.g. curl or curl@8.4.0")
    version: str = Field(description="as the program itself says")
    path: str = Field(description="of the program on its host")
    sha256: str = Field(description="of the file at path, 64 hexadecimal digits")
    command: list[str] = Field(description="the first sample's command line, secrets never in it")
    program: str = Field(default="", description="what the user called it by: its name, a path, a file that describes it")
    notes: list[str] = Field(default_factory=list, description="settings that matter and that the command line does not show")


class HostSnapshot(Closed):
    """Provenance of one moment: flat, named facts per host (sysctls, offloads, routes, tc -s)."""

    at: AwareDatetime = Field(description="when it was taken, UTC")
    machine: dict[str, object] = Field(description="facts of the machine by name: kernel, CPU, clock, versions of tools")
    hosts: dict[str, dict[str, object]] = Field(description="by host (client, router, server): facts by name")


class VirtualMachine(Closed):
    """The guest whose clock a cell in virtual time ran by."""

    seed: int = Field(description="of the guest: derived from the session's and from the cells that it was booted for")
    session_seed: int | None = Field(default=None, description="what --seed said; every sample's seed is derived from it too")
    kernel_release: str = Field(description="of the guest's kernel, as uname tells it")
    kernel_sha256: str = Field(description="of the guest's kernel, 64 hexadecimal digits")
    charge_ns: int = Field(ge=0, description="virtual price of a system call or a page fault, nanoseconds")
    charge_most_ns: int = Field(ge=0, description="highest price that a program which never waits comes to, nanoseconds")
    conditions: dict[str, bool] = Field(description="conditions of determinism by name, and whether each held in this guest")
    real_s: float | None = Field(
        default=None, description="seconds of the real machine that the guest took; differs every time, so no part of the result"
    )


class CellResult(Closed):
    """Everything about one cell; everything else is derived from it."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer[--kind], as `lab run` takes it")
    run: RunName
    lab_version: LabVersion
    backend: str = Field(description="what made the hosts: virtual, namespaces, compose or vagrant")
    clock: Clock = Field(default="real", description="what every time and rate of the cell is measured by")
    virtual: VirtualMachine | None = Field(
        default=None, description="facts of the guest; null in real time, and where no guest came up"
    )
    backend_facts: dict[str, str] = Field(
        default_factory=dict, description="what made the hosts: versions of a container engine, ids of images"
    )
    router: dict[str, object] = Field(description="what shaped the link: its kind, kernel and notes, by name")
    client: ClientIdentity = Field(description="the program under test")
    topology: Topology = Field(description="the network it ran on, as it was then")
    transfer: Transfer = Field(description="what the client was asked to do")
    expectation: Expectation = Field(description="what a PASS asserts")
    certificate: Certificate | None = Field(description="null where the link was not proven; the cell is then INVALID")
    samples: list[Sample] = Field(description="whole transfers in the order taken; those that are judged")
    set_aside: list[SetAside] = Field(
        default_factory=list, description="transfers that the host spoilt, in the order taken; not judged"
    )
    host: HostQuality | None = Field(default=None, description="null where the machine was not watched, as before schema 1.1")
    plan: list[int] = Field(
        default_factory=list, description="sample counts at which it was to be looked at; empty before schema 1.1"
    )
    verdict: Verdict = Field(description="the judgement of the samples")
    started_at: StartedAt
    ended_at: EndedAt
    before: HostSnapshot = Field(description="facts of the hosts before the first sample")
    after: HostSnapshot = Field(description="facts of the hosts after the last one")
    timing_s: dict[str, float] = Field(description="where the wall time went: bring_up, shape, calibrate, transfer, overhead")


class RunRecord(Closed):
    """The run as a whole: what was asked, in which order cells ran, and what came of them."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    run: RunName
    command: list[str] = Field(description="the command line as it was given")
    lab_version: LabVersion
    git_revision: str | None = Field(description="of the lab's checkout; null where it is none")
    started_at: StartedAt
    ended_at: EndedAt
    clocks: list[Clock] = Field(default=["real"], description="every clock that its cells and findings ran by")
    cells: list[str] = Field(description="ids in the order in which they were done; files in cells/")
    studies: list[str] = Field(default_factory=list, description="comparisons of several of the cells; files in studies/")
    pairs: list[str] = Field(default_factory=list, description="cells beside those of a baseline; files in pairs/")
    baselines: list[str] = Field(default_factory=list, description="cells whose verdicts do not count: others ran beside them")
    findings: list[str] = Field(default_factory=list, description="studies that are no cells; files in findings/")
    verdicts: dict[str, VerdictName] = Field(description="of every cell, every study and every pair that is judged, by id")
    skipped: dict[str, str] = Field(default_factory=dict, description="cells and studies that their client cannot do, and why")
    exit_code: int = Field(
        description="of the command: 0 pass, 1 fail, 3 inconclusive, 4 invalid; the verdicts of baselines do not count"
    )
