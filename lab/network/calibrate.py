"""Proves the link: iperf3 saturates it in each direction, the router's own ports are counted, an idle ping is timed.

Counted on the wire between two instants well after the start, because iperf3's own figure for a short run with -O overstates (the
queue that filled in the omitted seconds drains into the counted ones) and without -O understates (slow start).
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from lab.backend.host import Host, Network
from lab.errors import LabFault
from lab.link import theory
from lab.measure.ports import PortReading, PortSampler
from lab.measure.tcp import retransmits
from lab.network.shape import read_qdiscs, router_port
from lab.result.models import Calibration, DirectionCalibration, DirectionName
from lab.spec.models import Link

IPERF3_PORT = 5201
# One cubic flow may leave slow start long before the link is full; four never all do.
STREAMS = 4
PINGS = 11
_UDP_PAYLOAD_BYTES = 1448
_UDP_HEADERS_BYTES = 14 + 20 + 8


@dataclass(frozen=True)
class Tolerance:
    """How far a link may be from its claim before its cells are INVALID. The lab's own target is half of it."""

    goodput: float = 0.01
    rtt_ms: float = 1.0


class Reading(NamedTuple):
    """One reading of a direction at the router: what it sent towards the receiver, what it got from the sender."""

    t_ns: int
    out_bytes: int
    out_packets: int
    in_bytes: int
    in_packets: int


@dataclass(frozen=True)
class Window:
    """What was counted between two instants."""

    seconds: float
    out_bytes: int
    out_packets: int
    in_bytes: int
    in_packets: int


@dataclass(frozen=True)
class Schedule:
    """Seconds from the first data packet: how long to let the flows grow, then how long to count."""

    warm_s: float
    window_s: float


def schedule(link: Link, direction: DirectionName) -> Schedule:
    """Slow start fills a link in about ten round trips; the window holds at least 600 packets (one is then < 0.2 %)."""
    rtt_s = link.rtt.s
    rate = link.direction(direction).rate
    packets_s = 600 * theory.frame_bytes(link.mtu) * 8 / rate.bit_s if rate else 0.0
    return Schedule(warm_s=0.25 + 12 * rtt_s, window_s=min(10.0, max(0.75, 5 * rtt_s, packets_s)))


def cut_window(readings: Sequence[Reading], plan: Schedule) -> Window | None:
    """The counted window, or None when data did not flow for long enough.

    Starts `warm_s` after the first slot with data and ends `window_s` later; both at real readings: their true distance counts.
    """
    data = [later for earlier, later in pairwise(readings) if later.out_bytes - earlier.out_bytes > 2 * 1514]
    if not data:
        return None
    start_ns = data[0].t_ns + round(plan.warm_s * 1e9)
    end_ns = start_ns + round(plan.window_s * 1e9)
    if data[-1].t_ns < end_ns:
        return None
    first = next(reading for reading in readings if reading.t_ns >= start_ns)
    last = next((reading for reading in readings if reading.t_ns >= end_ns), readings[-1])
    return Window((last.t_ns - first.t_ns) / 1e9, *(b - a for a, b in zip(first[1:], last[1:], strict=True)))


def goodput_bit_s(window: Window, *, udp: bool, mtu: int, duplicate_share: float) -> float:
    """TCP payload per second. For UDP probes: what TCP at the same wire rate would carry."""
    wire_bit_s = window.out_bytes * 8 / window.seconds
    if udp:
        return wire_bit_s * theory.payload_per_segment(mtu) / theory.frame_bytes(mtu)
    payload = theory.payload_bytes(window.out_bytes, window.out_packets)
    return payload * 8 / window.seconds * (1 - duplicate_share)


def calibrate(
    network: Network, link: Link, congestion_control: str, *, tolerance: Tolerance = Tolerance(), attempt: int = 1
) -> Calibration:
    """One look at the link, both ways; a few seconds. Raises LabFault when nothing can be measured at all."""
    at = datetime.now(UTC)
    rtts = ping(network.client, network.server.address)
    up, down = (_direction(network, link, name, congestion_control) for name in ("up", "down"))
    ideal_ms = theory.ideal_rtt_ms(link)
    excess = statistics.median(rtts) - ideal_ms
    problems = []
    if link.shaped:
        problems = _problems(up, tolerance) + _problems(down, tolerance)
        # Jitter moves the median by design; it may not move it by more than itself.
        allowed = tolerance.rtt_ms + 2 * link.jitter.ms
        if abs(excess) > allowed:
            problems.append(f"idle RTT is {excess:+.2f} ms from the ideal {ideal_ms:.2f} ms (allowed {allowed:.2f})")
    for side in (up, down):
        if side.mean_packet_bytes > theory.frame_bytes(link.mtu):
            problems.append(
                f"{side.direction}: frames of {side.mean_packet_bytes:.0f} bytes enter the router: segmentation offload is on"
            )
    return Calibration(
        at=at,
        attempt=attempt,
        up=up,
        down=down,
        rtt_asked_ms=link.rtt.ms,
        rtt_ideal_ms=ideal_ms,
        rtt_ms=rtts,
        rtt_excess_ms=excess,
        ok=not problems,
        problems=problems,
    )


def _problems(side: DirectionCalibration, tolerance: Tolerance) -> list[str]:
    if side.goodput_error is None or side.ideal_bit_s is None or abs(side.goodput_error) <= tolerance.goodput:
        return []
    return [
        f"{side.direction}: goodput {side.goodput_bit_s / 1e6:.2f} Mbit/s is {side.goodput_error:+.2%} from the ideal "
        f"{side.ideal_bit_s / 1e6:.2f} (allowed {tolerance.goodput:.1%})"
    ]


def ping(host: Host, address: str) -> list[float]:
    """Round trips in ms over the idle link; at least three must come back (a lossy link may eat some)."""
    argv = ["ping", "-n", "-c", str(PINGS), "-i", "0.02", "-W", "2", address]
    done = host.run(argv, root=True, check=False, timeout_s=30)
    times = [float(text) for text in re.findall(r"time=([\d.]+) ms", done.text)]
    if len(times) < 3:
        raise LabFault(f"only {len(times)} of {PINGS} pings crossed the link: {done.error_text}")
    return times


def _direction(network: Network, link: Link, name: DirectionName, congestion_control: str) -> DirectionCalibration:
    sender = network.client if name == "up" else network.server
    side = link.direction(name)
    udp = side.loss.value > 0
    plan = schedule(link, name)
    flags = ["-P", str(STREAMS)]
    if udp and side.rate is not None:
        # TCP cannot fill a link that drops at random; a constant bit rate just above it can.
        offered = round(1.1 * side.rate.bit_s / (1 - side.loss.value))
        flags = ["-u", "-l", str(_UDP_PAYLOAD_BYTES), "-b", str(offered)]
    argv = ["iperf3", "-c", network.server.address, "-p", str(IPERF3_PORT), "-t", "60", "-J", *flags]
    if name == "down":
        argv.append("-R")
    drops_before, retransmits_before = _drops(network, name), retransmits(sender)
    with PortSampler(network) as sampler:
        report, problem = _saturate(network.client, argv, seconds=8 * link.rtt.s + plan.warm_s + plan.window_s + 0.15)
        readings = [_reading(row, network, name) for row in sampler.rows()]
    drops, again = _drops(network, name) - drops_before, retransmits(sender) - retransmits_before
    window = cut_window(readings, plan)
    if window is None:
        raise LabFault(f"the calibration could not fill the link ({name}): {problem or 'data stopped early'}")
    used = str(report.get("end", {}).get("sender_tcp_congestion", congestion_control))
    if not udp and used != congestion_control:
        raise LabFault(f"{sender.name} sends with {used}, not {congestion_control}")
    total_packets = max(1, readings[-1].out_packets - readings[0].out_packets)
    duplicate_share = 0.0 if udp else max(0, again - drops) / total_packets
    goodput = goodput_bit_s(window, udp=udp, mtu=link.mtu, duplicate_share=duplicate_share)
    ideal = theory.ideal_goodput_bit_s(side)
    return DirectionCalibration(
        direction=name,
        goodput_bit_s=goodput,
        ideal_bit_s=ideal,
        goodput_error=goodput / ideal - 1 if ideal else None,
        window_s=window.seconds,
        wire_bytes=window.out_bytes,
        wire_packets=window.out_packets,
        mean_packet_bytes=window.in_bytes / max(1, window.in_packets),
        retransmits=again,
        router_drops=drops,
        iperf3_bit_s=_iperf3_figure(report),
    )


def _saturate(client: Host, argv: list[str], *, seconds: float) -> tuple[dict[str, dict[str, object]], str]:
    """Run iperf3 for about `seconds`. Its server needs a moment between two tests and says `busy` until then."""
    problem = ""
    for _ in range(5):
        process = client.start(argv)
        deadline = time.monotonic() + seconds
        while process.running() and time.monotonic() < deadline:
            time.sleep(0.02)
        cut_short = process.running()
        done = process.stop(grace_s=3.0)
        try:
            report = json.loads(done.stdout or b"{}")
        except ValueError:
            report = {}
        if cut_short:
            return report, ""
        problem = str(report.get("error", done.error_text))
        if "busy" not in problem and "unable to connect" not in problem:
            break
        time.sleep(0.05)
    return {}, problem


def _iperf3_figure(report: dict[str, dict[str, object]]) -> float | None:
    end = report.get("end", {})
    total = end.get("sum_received") or end.get("sum")
    return float(total["bits_per_second"]) if isinstance(total, dict) and "bits_per_second" in total else None


def _drops(network: Network, name: DirectionName) -> int:
    from lab.link.readback import drops

    return drops(read_qdiscs(network)[router_port(network, name)])


def _reading(row: PortReading, network: Network, name: DirectionName) -> Reading:
    """`up` enters the router at its client's port and leaves at its server's; `down` the other way round."""
    ports = network.wire_ports
    out, into = (ports.server, ports.client) if name == "up" else (ports.client, ports.server)
    return Reading(row.t_ns, row[out].tx_bytes, row[out].tx_packets, row[into].rx_bytes, row[into].rx_packets)
