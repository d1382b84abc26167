"""One transfer as it was measured: the client's own report, the wire, and what the machine did meanwhile.

Plain numbers carry their unit in the name, as in `lab.model.results`.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import AwareDatetime, Field

from lab.model.base import Model
from lab.model.diagnosis import Diagnosis

BodyClock = Literal["client", "wire", "exit"]
# 2,500 numbers are 20 KB a sample; a larger set keeps every second, third, ... time.
MOST_FILE_TIMES = 2500
_WINDOW_MS = 100.0
_START_MS = 500.0


class ClientNumbers(Model):
    """The client's own report on one transfer; times are in seconds from the transfer's start."""

    bytes: int | None = Field(
        description="body bytes that it reports; null where it reports none; the lab counts what arrived in any case"
    )
    total_s: float = Field(description="until it was done; without a report, the time of its process by the lab's clock")
    first_byte_s: float | None = Field(default=None, description="until the first body byte arrived; null where not reported")
    connect_s: float | None = Field(default=None, description="until the TCP connection was set up; null where not reported")
    tls_s: float | None = Field(
        default=None, description="until TLS (over SFTP: SSH) was set up; null without TLS or where not reported"
    )
    http_version: str | None = Field(default=None, description="as the client names it; null where not reported")
    status: int | None = Field(default=None, description="HTTP status code; null where not reported")
    stream_byte_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="for several files over HTTP: the body rate of each by the client's clock, sorted; for many files, every "
        "second, third, ... and always the slowest and the fastest",
    )
    raw: dict[str, object] = Field(default_factory=dict, description="the client's own report, untouched")


class WireSeries(Model):
    """Payload per slot at the router's port towards the receiver, from the first to the last data packet."""

    slot_ms: float = Field(description="length of one slot")
    goodput_bit_s: list[float] = Field(description="TCP payload (over h3 UDP payload) of each slot, bits per second")
    worst_window_byte_s: float | None = Field(description="fastest 100 ms, bytes per second")
    slowest_window_byte_s: float | None = Field(description="slowest 100 ms between first and last byte")
    longest_gap_ms: float = Field(description="longest time between first and last byte in which nothing arrived")
    late_slots: int = Field(description="number of slots whose counter was read more than half a slot late")

    @property
    def begun_window_byte_s(self) -> float:
        """The fastest 100 ms after the first half second; of the complete transfer if it is shorter than a second.

        A sender may send a first window before its receiver has read anything (64 to 300 KB with the kernel's addition). So every
        client that limits itself by reading slowly has one burst at the start. A client that saves up and spends has many. A
        transfer of less than 100 ms is one burst.
        """
        slots = [rate / 8 * self.slot_ms / 1e3 for rate in self.goodput_bit_s]
        window, start = round(_WINDOW_MS / self.slot_ms), round(_START_MS / self.slot_ms)
        seen = slots[start:] if len(slots) >= 2 * start else slots
        sums = [math.fsum(seen[at : at + window]) for at in range(len(seen) - window + 1)]
        return max(sums, default=math.fsum(seen)) * 1e3 / _WINDOW_MS


class WireCounters(Model):
    """Counted over one sample."""

    wire_bytes_down: int = Field(description="Ethernet bytes towards the client")
    wire_bytes_up: int = Field(description="Ethernet bytes towards the server")
    wire_packets_down: int = Field(description="Ethernet frames towards the client")
    wire_packets_up: int = Field(description="Ethernet frames towards the server")
    payload_bytes: int = Field(
        description="TCP payload towards the receiver, retransmissions included; over h3 UDP payload, with QUIC's own headers"
    )
    retransmits: int | None = Field(
        description="segments the data's sender sent again (TcpRetransSegs of its namespace); null over h3, because QUIC "
        "encrypts what would tell a datagram that is sent again from a new one"
    )
    router_drops_down: int = Field(description="packets that the router's queue towards the client dropped")
    router_drops_up: int = Field(description="packets that the router's queue towards the server dropped")


class HostLoad(Model):
    """Load and disturbances of the machine over one span; null where the kernel does not report a value.

    The lab's own processes are the lab and everything it started (router, servers, client). All others are foreign.
    """

    span_s: float = Field(gt=0, description="seconds watched")
    steal_share: float | None = Field(
        description="share of the machine's CPU time that its hypervisor gave to other guests, 0 to 1"
    )
    foreign_cores: float | None = Field(description="CPU seconds per second of processes that are not the lab's")
    lab_cores: float | None = Field(description="CPU seconds per second of the lab, its router, servers and client")
    cores: int = Field(ge=1, description="number of CPUs that the lab may use")
    late_p99_ms: float | None = Field(description="99th percentile of how late a timer asked for every 10 ms woke up")
    late_worst_ms: float | None = Field(description="how late the latest of these timers woke up")
    frequency_mhz: float | None = Field(description="mean CPU frequency of the cores at the end of the span")
    load_1min: float | None = Field(
        description="number of processes that ran or waited for a CPU: load average of the last minute at the end of the span"
    )


class Sample(Model):
    """One complete transfer."""

    index: int = Field(ge=0, description="its place among the samples of the cell, from 0")
    seed: int | None = Field(
        default=None, description="seed of this sample in virtual time: varies start phases, losses and ports; null in real time"
    )
    started_at: AwareDatetime = Field(description="when the client's process was started, UTC, by the cell's clock")
    command: list[str] = Field(
        default_factory=list,
        description="command line of the client's process as it was started, secrets never in it; empty before schema 2.1",
    )
    exit_code: int = Field(description="exit code of the client's process; negative: ended by that signal")
    ok: bool = Field(
        description="exit code 0, all bytes arrived, content right; discarded bytes are counted by the client and on the wire"
    )
    problem: str = Field(default="", description="what the client did wrong; empty where it did nothing wrong")
    expected_bytes: int = Field(description="body bytes of all files together")
    client: ClientNumbers | None = Field(description="the client's own report; null where it gave none that could be read")
    wall_s: float = Field(description="process start to process end, by the lab's clock")
    body_s: float | None = Field(description="first to last body byte: the denominator of body_byte_s")
    body_clock: BodyClock | None = Field(
        default=None,
        description="whose clock body_s is. wire: the receiver's port or, where that is not tapped, the router's; exit: the "
        "router's port for the first byte and the client's end for the last; client: its own report, where nothing was counted",
    )
    body_error_s: float | None = Field(
        default=None, ge=0, description="how far body_s may be off; null where the clock is the client's, and before schema 2.0"
    )
    said_body_s: float | None = Field(
        default=None, description="first to last body byte by the client's own report; never judged; null where it reports none"
    )
    tail_s: float | None = Field(default=None, ge=0, description="from the last body byte to the end of the client's process")
    body_byte_s: float | None = Field(
        description="body bytes per second: expected_bytes / body_s; null where the transfer failed or its time is not known"
    )
    total_byte_s: float | None = Field(description="bytes / time from the client's first packet to the end of its process")
    deviation: float | None = Field(
        description="a fraction: body_byte_s / limit - 1; for several files over HTTP, of the file furthest from its limit; "
        "null where the transfer has no limit"
    )
    slowest_stream_byte_s: float | None = Field(
        default=None,
        description="body bytes per second of the slowest of several files over HTTP, by the client's clock; null for one file",
    )
    fastest_stream_byte_s: float | None = Field(default=None, description="the same for the fastest")
    burst_ratio: float | None = Field(
        default=None,
        description="fastest 100 ms on the wire (after the first half second, if the transfer takes a second or more) / what "
        "the limit of all files together allows; null for a transfer without a limit",
    )
    goodput_ratio: float | None = Field(
        default=None, description="body_byte_s / ideal goodput of the link that way; null where the link is unshaped"
    )
    requests_per_s: float | None = Field(
        default=None, description="for requests for one file whose content is discarded: their number / body_s"
    )
    cpu_user_s: float = Field(description="CPU seconds of the client in user mode")
    cpu_system_s: float = Field(description="CPU seconds of the client in the kernel")
    max_rss_bytes: int | None = Field(description="peak resident set of the client; null where nothing measured it")
    interruptions: int = Field(
        default=0,
        ge=0,
        description="number of times that the kernel of virtual time interrupted a program which had computed for half a second "
        "of processor time (later 20 ms) without a system call; 10 ms pass each time; the sample may then not repeat to the byte",
    )
    series: WireSeries | None = Field(description="goodput over time; null where the port was not read")
    wire: WireCounters | None = Field(description="null where the ports were not read")
    file_times_s: list[float] = Field(
        default_factory=list,
        max_length=MOST_FILE_TIMES,
        description="for a set: when each file was complete where it arrived (its ctime, which a kernel counts in ticks of 1 to "
        "10 ms), seconds from the client's start, sorted; for many files, every file_times_every-th",
    )
    file_times_every: int = Field(default=1, ge=1, description="number of files for each time above; 1 is all of them")
    first_hundred_s_per_file: float | None = Field(
        default=None, description="for a set of 200 files or more: from the first complete file to the hundredth, / 99"
    )
    last_hundred_s_per_file: float | None = Field(default=None, description="the same for the last hundred")
    pcap: str | None = Field(
        default=None, description="name of its packet capture in evidence/ID/ of the run; null without --pcap"
    )
    why: Diagnosis | None = Field(
        default=None, description="what held it back; null without --why; where it failed, what the router dropped"
    )
    host: HostLoad | None = Field(
        default=None, description="load of the machine during the sample; null where it was not watched"
    )
