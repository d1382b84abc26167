"""What a run leaves behind, as closed, versioned models; `schema/cell.schema.json` is generated from them.

One file per cell. Plain numbers carry their unit in the name (`_s` seconds, `_ms`, `_bit_s`, `_byte_s`, `_bytes`; a bare
`_error`, `_deviation` or `_ratio` is a fraction). Goodput is TCP payload, counted once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lab.spec.models import Expectation, Link, Topology, Transfer

SCHEMA_VERSION = "1.1"

VerdictName = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]
DirectionName = Literal["up", "down"]
BodyClock = Literal["client", "wire", "exit"]
# 2,500 numbers are 20 KB a sample; a set of more keeps every second, third, ...
MOST_FILE_TIMES = 2500
_WINDOW_MS = 100.0
_START_MS = 500.0


class Closed(BaseModel):
    """Extra keys are errors: a schema that nobody enforces rots."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Interval(Closed):
    """A mean with its two-sided Student interval over `n` independent values."""

    n: int = Field(ge=1, description="independent values behind the mean")
    mean: float
    low: float
    high: float
    confidence: float = Field(gt=0, lt=1, description="two-sided, e.g. 0.90")


class DirectionCalibration(Closed):
    """One direction of the link, saturated by iperf3 and counted on the router's port between two instants."""

    direction: DirectionName
    goodput_bit_s: float = Field(description="TCP payload leaving the router per second, spurious retransmissions taken off")
    ideal_bit_s: float | None = Field(description="what theory gives for this link; null where it is unshaped")
    goodput_error: float | None = Field(description="goodput / ideal - 1; null where there is no ideal")
    window_s: float = Field(description="seconds counted, well after the start")
    wire_bytes: int = Field(description="Ethernet bytes counted in the window")
    wire_packets: int
    mean_packet_bytes: float = Field(description="of frames entering the router from the sender; above MTU + 14 offloads are on")
    retransmits: int
    router_drops: int
    iperf3_bit_s: float | None = Field(description="iperf3's own receiver figure for the whole run, start included")


class Calibration(Closed):
    """One look at the link: both directions and the idle round trip."""

    at: datetime
    attempt: int = Field(ge=1, description="1 unless an earlier look at the same instant was beyond tolerance")
    up: DirectionCalibration
    down: DirectionCalibration
    rtt_asked_ms: float
    rtt_ideal_ms: float = Field(description="asked, plus the probe's own serialisation")
    rtt_ms: list[float] = Field(description="every ping of the idle link")
    rtt_excess_ms: float = Field(description="median ping - rtt_ideal_ms")
    ok: bool
    problems: list[str] = Field(description="each way in which this look is beyond tolerance; empty when ok")


class Certificate(Closed):
    """The proof that the link was what it claims, before and after the samples."""

    link: Link
    congestion_control: str
    goodput_tolerance: float
    rtt_tolerance_ms: float
    before: list[Calibration]
    after: list[Calibration]
    qdisc_commands: list[str] = Field(description="the tc commands as applied")
    qdisc_readback: dict[str, object] = Field(description="`tc -s -j qdisc` per router port, after the samples")


class ClientNumbers(Closed):
    """What the client itself reports about one transfer; seconds from its start."""

    bytes: int | None = Field(description="null where it tells none; what arrived is counted by the lab all the same")
    total_s: float = Field(description="of a client without a report its process's time, by the lab's clock")
    first_byte_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    http_version: str | None = None
    status: int | None = None
    stream_byte_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="of several files over HTTP: the body rate of each by the client's clock, sorted; of many every second, "
        "third, ... with the slowest and the fastest",
    )
    raw: dict[str, object] = Field(default_factory=dict, description="the client's own report, untouched")


class WireSeries(Closed):
    """Payload per slot at the router's port towards the receiver, from the first to the last data packet."""

    slot_ms: float
    goodput_bit_s: list[float]
    worst_window_byte_s: float | None = Field(description="fastest 100 ms, bytes per second")
    slowest_window_byte_s: float | None = Field(description="slowest 100 ms between first and last byte")
    longest_gap_ms: float
    late_slots: int = Field(description="slots whose counter was read more than half a slot late")

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

    wire_bytes_down: int
    wire_bytes_up: int
    wire_packets_down: int
    wire_packets_up: int
    payload_bytes: int = Field(description="TCP payload towards the receiver, retransmissions included")
    retransmits: int = Field(description="segments the data's sender sent again (TcpRetransSegs of its namespace)")
    router_drops_down: int
    router_drops_up: int


class HostLoad(Closed):
    """What befell the machine over one span; null where this kernel does not tell.

    The lab's own is everything that the lab started (router, servers, client) and itself; all else on the machine is foreign.
    """

    span_s: float = Field(gt=0, description="seconds watched")
    steal_share: float | None = Field(description="of the machine's CPU time, what its hypervisor gave to others, 0 to 1")
    foreign_cores: float | None = Field(description="CPU seconds per second of processes that are not the lab's")
    lab_cores: float | None = Field(description="CPU seconds per second of the lab, its router, servers and client")
    cores: int = Field(ge=1, description="that the lab may use")
    late_p99_ms: float | None = Field(description="99th percentile of how late a timer asked for every 10 ms woke up")
    late_worst_ms: float | None = Field(description="the latest of them")
    frequency_mhz: float | None = Field(description="mean over the cores at the end of the span")
    load_1min: float | None = Field(description="load average of the last minute at the end of the span")


class Sample(Closed):
    """One whole transfer."""

    index: int = Field(ge=0)
    started_at: datetime
    exit_code: int
    ok: bool = Field(
        description="exit code 0, all bytes arrived, content right; what was thrown away by the client's count and the wire's"
    )
    problem: str = ""
    expected_bytes: int = Field(description="of all files together")
    client: ClientNumbers | None
    wall_s: float = Field(description="process start to process end, by the lab's clock")
    body_s: float | None = Field(description="first to last body byte: the denominator of body_byte_s")
    body_clock: BodyClock | None = Field(
        default=None,
        description="whose clock body_s is: the client's report, or (to some 10 ms) the router's port; exit: the port's first "
        "byte to the client's end, for a limited download of a client that tells nothing",
    )
    body_byte_s: float | None
    total_byte_s: float | None = Field(description="bytes / the client's total time, connection set-up included")
    deviation: float | None = Field(
        description="body_byte_s / limit - 1, of several files over HTTP that of the one furthest off its limit; null where the "
        "transfer has no limit"
    )
    slowest_stream_byte_s: float | None = Field(default=None, description="of several files over HTTP, by the client's clock")
    fastest_stream_byte_s: float | None = Field(default=None, description="likewise")
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
    cpu_user_s: float
    cpu_system_s: float
    max_rss_bytes: int | None
    series: WireSeries | None
    wire: WireCounters | None
    file_times_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="of a set: when each file was complete where it arrived (its ctime, which a kernel counts in ticks of 1 to "
        "10 ms), seconds from the client's start, sorted; of many files every file_times_every-th",
    )
    file_times_every: int = Field(default=1, ge=1)
    first_hundred_s_per_file: float | None = Field(
        default=None, description="of a set of 200 and more: from the first complete file to the hundredth, / 99"
    )
    last_hundred_s_per_file: float | None = Field(default=None, description="the same of the last hundred")
    pcap: str | None = Field(default=None, description="file beside this one, when --pcap asked for it")
    host: HostLoad | None = Field(default=None, description="what befell the machine meanwhile; null where it was not watched")


class SetAside(Closed):
    """A transfer that was taken again because of the machine it ran on; never because of what it shows."""

    reason: str = Field(description="what the host did, with the figure and its limit")
    sample: Sample


class HostQuality(Closed):
    """The machine around the samples of a cell."""

    before: HostLoad | None = Field(description="idle, before the first sample; null where it was not watched")
    after: HostLoad | None = Field(description="idle, after the last one")
    problems: list[str] = Field(description="each way in which the host was no place to judge a client; empty when it was quiet")


IntervalMethod = Literal["student", "student and bootstrap", "pairs", "welch"]


class Verdict(Closed):
    """The judgement and the reasoning a reader can check."""

    name: VerdictName
    reason: str = Field(description="one sentence with the number, the band, the interval and n")
    interval: Interval | None = None
    method: IntervalMethod | None = Field(
        default=None, description="how the interval was made; null where there is none, or in 1.0"
    )
    band_low: float | None = None
    band_high: float | None = None
    looks: list[int] = Field(default_factory=list, description="sample counts at which the interval was looked at")
    alpha_per_look: float | None = None
    warnings: list[str] = Field(default_factory=list)


class ClientIdentity(Closed):
    name: str
    version: str
    path: str
    sha256: str
    command: list[str] = Field(description="the first sample's command line, secrets never in it")
    program: str = Field(default="", description="what the user called it by: its name, a path, a file that describes it")
    notes: list[str] = Field(default_factory=list, description="settings that matter and that the command line does not show")


class HostSnapshot(Closed):
    """Provenance of one moment: flat, named facts per host (sysctls, offloads, routes, tc -s)."""

    at: datetime
    machine: dict[str, object]
    hosts: dict[str, dict[str, object]]


class CellResult(Closed):
    """Everything about one cell; everything else is derived from it."""

    schema_version: str = SCHEMA_VERSION
    id: str = Field(description="client--topology--transfer[--kind], as `lab run` takes it")
    run: str
    lab_version: str
    backend: str
    backend_facts: dict[str, str] = Field(
        default_factory=dict, description="what made the hosts: versions of a container engine, ids of images"
    )
    router: dict[str, object]
    client: ClientIdentity
    topology: Topology
    transfer: Transfer
    expectation: Expectation
    certificate: Certificate | None
    samples: list[Sample]
    set_aside: list[SetAside] = Field(
        default_factory=list, description="transfers that the host spoilt, in the order taken; not judged"
    )
    host: HostQuality | None = Field(default=None, description="null where the machine was not watched, as before schema 1.1")
    plan: list[int] = Field(
        default_factory=list, description="sample counts at which it was to be looked at; empty before schema 1.1"
    )
    verdict: Verdict
    started_at: datetime
    ended_at: datetime
    before: HostSnapshot
    after: HostSnapshot
    timing_s: dict[str, float] = Field(description="where the wall time went: bring_up, shape, calibrate, transfer, overhead")


class RunRecord(Closed):
    """The run as a whole: what was asked, in which order cells ran, and what came of them."""

    schema_version: str = SCHEMA_VERSION
    run: str
    command: list[str]
    lab_version: str
    git_revision: str | None
    started_at: datetime
    ended_at: datetime
    cells: list[str]
    studies: list[str] = Field(default_factory=list, description="comparisons of several of the cells; files in studies/")
    pairs: list[str] = Field(default_factory=list, description="cells beside those of a baseline; files in pairs/")
    baselines: list[str] = Field(default_factory=list, description="cells whose verdicts do not count: others ran beside them")
    findings: list[str] = Field(default_factory=list, description="studies that are no cells; files in findings/")
    verdicts: dict[str, VerdictName] = Field(description="of every cell, every study and every pair that is judged, by id")
    skipped: dict[str, str] = Field(default_factory=dict, description="cells and studies that their client cannot do, and why")
    exit_code: int
