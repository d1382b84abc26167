"""Proves the link: iperf3 saturates it in each direction, the router's ports are counted, an idle ping is timed.

Counted on the wire between two instants well after the start, because iperf3's own figure for a short run with -O overstates (the
queue that filled in the omitted seconds drains into the counted ones) and without -O understates (slow start).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lab.hosts.host import Host, Network, Process
from lab.hosts.ping import ping
from lab.hosts.tcp_counters import read_counters
from lab.link import theory
from lab.link.plan import queue_packets
from lab.link.readback import backlog, drops
from lab.model.clock import Clock as ClockName
from lab.model.errors import LabFault
from lab.model.link import Link, LinkDirection
from lab.model.results import Calibration, DatagramCount, DirectionCalibration, DirectionName
from lab.model.units import BitRate
from lab.net.hops import count_datagrams, count_problems
from lab.net.pins import assert_pinned
from lab.net.ports import PortReading, PortSampler
from lab.net.qdiscs import read_qdiscs
from lab.net.shape import DIRECTIONS, lift_hops, put_hops, router_port
from lab.servers import iperf3

# One cubic flow may leave slow start long before the link is full; four never all do.
STREAMS = 4
LEAST_PINGS, MOST_PINGS = 7, 15
_UDP_PAYLOAD_BYTES = 1448
_POLL_S = 0.03
_NOT_YET = ("busy", "unable to connect", "unable to receive control message")
# iperf3's server can wait for good for a test that has ended, where packets are lost (3.12: 7 Mbit/s, 2 ms, 1 %). After three
# refusals another server takes over.
_PATIENCE, _OTHER_PORT = 2, iperf3.PORT + 1
_MARGIN_NS = 40_000_000
_LATE_NS = 2_000_000_000
# Packets that a window should hold, and how many seconds it may take at most.
_WINDOWS: dict[ClockName, tuple[int, float]] = {"real": (600, 10.0), "virtual": (20_000, 30.0)}
# Packets that the window of a slow link holds, however long that takes.
_LEAST_PACKETS = 100
# A link is slow where a frame takes this long: readings are some 10 ms apart.
_SLOW_FRAME_S = 0.04
_IPERF3_S = 60
_UNLIMITED_BYTES = 16 << 20
_FRAME_BYTES = 1514


@dataclass(frozen=True)
class Tolerance:
    """The largest deviations of a link from its claim before its cells are INVALID. The lab's own target is half of each."""

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
    """The counts between two instants."""

    seconds: float
    out_bytes: int
    out_packets: int
    in_bytes: int
    in_packets: int


@dataclass(frozen=True)
class Schedule:
    """Seconds: from the first data packet until the link may count as full, until it is taken as it is, and to count.

    `handshake_s`: iperf3's, at most, before that packet. `frame_s`: a full frame's at the link's rate.
    """

    least_warm_s: float
    most_warm_s: float
    window_s: float
    handshake_s: float = 5.0
    frame_s: float = 0.0

    @property
    def slow(self) -> bool:
        """True where readings fall between the packets of the link."""
        return self.frame_s > _SLOW_FRAME_S

    @property
    def margin_ns(self) -> int:
        """Nanoseconds after the window within which a full link sends another packet."""
        return max(_MARGIN_NS, round(2e9 * self.frame_s))

    @property
    def longest_s(self) -> float:
        """The most that all of it takes."""
        return self.handshake_s + self.most_warm_s + self.window_s + 1


def schedule(link: Link, direction: DirectionName, clock: ClockName = "real") -> Schedule:
    """Slow start takes some ten round trips, a flow that left it early longer.

    A window is exact to a packet: 600 of them make that < 0.2 % of it, and 20,000, which is 0.005 %, cost a virtual clock little.
    """
    rtt_s = link.rtt.s
    rate = link.direction(direction).rate
    packets, most_s = _WINDOWS[clock]
    frame_s = _frame_s(link, rate)
    return Schedule(
        least_warm_s=0.25 + 4 * rtt_s,
        most_warm_s=4.0 + 30 * rtt_s if rate else 0.25 + 4 * rtt_s,
        # Without a claimed rate a short look is enough.
        window_s=min(max(most_s, _LEAST_PACKETS * frame_s), max(0.75, 5 * rtt_s, packets * frame_s)) if rate else 0.4,
        handshake_s=_handshake_s(link),
        frame_s=frame_s,
    )


def _frame_s(link: Link, rate: BitRate | None) -> float:
    """Seconds that a full frame takes at `rate`."""
    return theory.frame_bytes(link.mtu) * 8 / rate.bit_s if rate else 0.0


def _handshake_s(link: Link) -> float:
    """Seconds that iperf3 may take to begin: some eight round trips, each with a frame or less in both directions."""
    frames_s = sum(_frame_s(link, link.direction(way).rate) for way in DIRECTIONS)
    return 5 + 10 * (link.rtt.s + frames_s)


def first_data_ns(readings: Sequence[Reading], wire_bit_s: float | None = None) -> int | None:
    """When more than iperf3's control connection began to flow: over two full frames within one slot of the sampler.

    A slow link needs longer for them: there it is the time of four frames.
    """
    span_ns = round(4 * _FRAME_BYTES * 8e9 / wire_bit_s) if wire_bit_s else 0
    start = 0
    for index, later in enumerate(readings[1:]):
        while start < index and later.t_ns - readings[start].t_ns > span_ns:
            start += 1
        if later.out_bytes - readings[start].out_bytes > 2 * _FRAME_BYTES:
            return later.t_ns
    return None


def full_ns(readings: Sequence[Reading], plan: Schedule, wire_bit_s: float | None, rtt_s: float) -> int | None:
    """The instant from which the link counts as full; None while it does not.

    That is when it has carried 97 % of its rate over the last RTT (at least 200 ms), or when it had time enough: a link that is
    not what it claims must be measured too. What is counted comes after that instant: choosing it does not flatter the link.
    """
    first = first_data_ns(readings, wire_bit_s)
    if first is None:
        return None
    start = first + round(plan.least_warm_s * 1e9)
    last = readings[-1]
    if last.t_ns >= first + round(plan.most_warm_s * 1e9):
        return last.t_ns
    span_ns = round(max(0.2, rtt_s) * 1e9)
    earlier = next((reading for reading in reversed(readings) if reading.t_ns <= last.t_ns - span_ns), None)
    if last.t_ns < start or earlier is None or wire_bit_s is None:
        return None
    carried = (last.out_bytes - earlier.out_bytes) * 8e9 / (last.t_ns - earlier.t_ns)
    return last.t_ns if carried >= 0.97 * wire_bit_s else None


def cut_window(readings: Sequence[Reading], start_ns: int, window_s: float, *, slow: bool = False) -> Window | None:
    """The counts from the first reading at or after `start_ns` for `window_s`; None when data stopped before the window's end.

    Both ends are real readings, and the time between them counts, not `window_s`. On a slow link both are readings at which a
    packet has left: between packets, a packet more or less would be some percent of the window.
    """
    end_ns = start_ns + round(window_s * 1e9)
    moved = [later for earlier, later in pairwise(readings) if later.out_packets > earlier.out_packets]
    if not moved or moved[-1].t_ns < end_ns:
        return None
    if slow:
        readings = moved
    first = next(reading for reading in readings if reading.t_ns >= start_ns)
    last = next(reading for reading in readings if reading.t_ns >= end_ns)
    return Window((last.t_ns - first.t_ns) / 1e9, *(b - a for a, b in zip(first[1:], last[1:], strict=True)))


def goodput_bit_s(window: Window, *, udp: bool, mtu: int, duplicate_share: float) -> float:
    """TCP payload per second. For UDP probes: what TCP at the same wire rate would carry."""
    wire_bit_s = window.out_bytes * 8 / window.seconds
    if udp:
        return wire_bit_s * theory.payload_per_segment(mtu) / theory.frame_bytes(mtu)
    payload = theory.payload_bytes(window.out_bytes, window.out_packets)
    return payload * 8 / window.seconds * (1 - duplicate_share)


def calibrate(
    network: Network,
    link: Link,
    congestion_control: str,
    *,
    tolerance: Tolerance = Tolerance(),
    attempt: int = 1,
    counted_at: Mapping[DirectionName, Network] | None = None,
) -> Calibration:
    """One look at the link, both ways; a few seconds. A direction is counted at the router of its network in `counted_at`.

    Wires that treat UDP or large packets apart are taken away while the line is measured, and proven after that.

    Raises LabFault when a host does not hold its settings, or when nothing can be measured at all.
    """
    at = network.clock.now()
    assert_pinned(network, congestion_control)
    has_hops = any(link.direction(way).has_hops for way in DIRECTIONS)
    if has_hops:
        lift_hops(network)
    wait_for_silence(network, link)
    # A quarter of a second of them, but never too few for a median.
    probes = max(LEAST_PINGS, min(MOST_PINGS, int(0.25 / max(link.rtt.s, 0.001))))
    rtts = ping(network.prober, network.server.address, probes)
    places = {**dict.fromkeys(DIRECTIONS, network), **(counted_at or {})}
    up, down = (_look(places[name], link, name, congestion_control, tolerance) for name in DIRECTIONS)
    ideal_ms = theory.ideal_rtt_ms(link)
    excess = statistics.median(rtts) - ideal_ms
    problems = []
    if link.shaped:
        problems = _problems(up, tolerance) + _problems(down, tolerance)
        # Jitter moves the median by design; it may not move it by more than itself.
        allowed = tolerance.rtt_ms + sum(link.direction(way).jitter.ms for way in DIRECTIONS)
        if abs(excess) > allowed:
            problems.append(f"idle RTT is {excess:+.2f} ms from the ideal {ideal_ms:.2f} ms (allowed {allowed:.2f})")
    for side in (up, down):
        # A loopback hands over what was sent, up to 64 KiB at once.
        if side.mean_packet_bytes > theory.frame_bytes(link.mtu) and network.router_facts.kind != "none":
            problems.append(
                f"{side.direction}: frames of {side.mean_packet_bytes:.0f} bytes enter the router: segmentation offload is on"
            )
    datagrams: list[DatagramCount] = []
    if has_hops:
        put_hops(network, link)
        for way in DIRECTIONS:
            wait_for_silence(network, link)
            datagrams += count_datagrams(network, link, way, tolerance.goodput)
        problems += count_problems(datagrams)
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
        datagrams=datagrams,
    )


def _problems(side: DirectionCalibration, tolerance: Tolerance) -> list[str]:
    if side.goodput_error is None or side.ideal_bit_s is None or abs(side.goodput_error) <= tolerance.goodput:
        return []
    return [
        f"{side.direction}: goodput {side.goodput_bit_s / 1e6:.2f} Mbit/s is {side.goodput_error:+.2%} from the ideal "
        f"{side.ideal_bit_s / 1e6:.2f} (allowed {tolerance.goodput:.1%})"
    ]


def wait_for_silence(network: Network, link: Link) -> None:
    """Wait until the router has forwarded nothing for one round trip, and its queues are empty.

    What an earlier look or sample left in queues and in closed sockets would be taken for delay of the link. Four closed sockets
    were seen to hold some four queues of data.
    Raises LabFault when the link does not fall silent.
    """
    clock, rtt_s = network.clock, link.rtt.s
    deadline_ns = clock.monotonic_ns() + round((10 + 5 * rtt_s + 6 * _longest_queue_s(link)) * 1e9)
    before = None
    while clock.monotonic_ns() < deadline_ns:
        qdiscs = read_qdiscs(network)
        now = [sum(int(qdisc.get("bytes", 0)) for qdisc in port) for port in qdiscs.values()]
        if now == before and all(backlog(port) == (0, 0) for port in qdiscs.values()):
            return
        before = now
        clock.sleep(max(0.02, 1.2 * rtt_s))
    raise LabFault("the link does not fall silent before its calibration: something keeps sending on it")


def _longest_queue_s(link: Link) -> float:
    """Seconds until a full queue of either direction has left."""
    ways = [link.direction(way) for way in DIRECTIONS]
    return max((queue_packets(way, way.rate, link.rtt) * _frame_s(link, way.rate) for way in ways if way.rate), default=0.0)


def _look(
    network: Network, link: Link, name: DirectionName, congestion_control: str, tolerance: Tolerance
) -> DirectionCalibration:
    """By TCP where that can fill the link. In virtual time a link that four flows did not fill is looked at again by UDP.

    There the same flows lose the same packets in each look. Behind a slow start that overshoots by a queue of 600 ms they recover
    for most of the window, and what falls short is them and not the link.
    """
    udp = _needs_udp(link.direction(name))
    found = _direction(network, link, name, congestion_control, udp=udp)
    if network.clock.kind == "virtual" and not udp and _problems(found, tolerance):
        wait_for_silence(network, link)
        return _direction(network, link, name, congestion_control, udp=True)
    return found


def _needs_udp(side: LinkDirection) -> bool:
    """TCP cannot fill a link that drops at random, or by a bucket; a constant bit rate just above it can."""
    policed = side.managed is not None and side.managed.kind == "policer"
    return (side.loss.value > 0 or policed) and side.rate is not None


def _direction(network: Network, link: Link, name: DirectionName, congestion_control: str, *, udp: bool) -> DirectionCalibration:
    prober = network.prober
    sender, receiver = (prober, network.server) if name == "up" else (network.server, prober)
    side = link.direction(name)
    if side.rate is None and network.clock.kind == "virtual":
        return _unlimited(network, name)
    flags = ["-P", str(STREAMS)]
    if udp and side.rate is not None:
        offered = round(1.1 * side.rate.bit_s / (1 - side.loss.value))
        flags = ["-u", "-l", str(_UDP_PAYLOAD_BYTES), "-b", str(offered)]
    plan = schedule(link, name, network.clock.kind)
    seconds = str(max(_IPERF3_S, math.ceil(plan.longest_s)))
    argv = ["iperf3", "-c", network.server.address, "-p", str(iperf3.PORT), "-t", seconds, "-J", *flags]
    if name == "down":
        argv.append("-R")
    drops_before, retransmits_before = _drops(network, name), sender.retransmits()
    with PortSampler(network) as sampler:
        flow = _Flow(network, sampler, name, receiver)
        window, duplicates, report = flow.saturate(argv, plan, side.rate, link.rtt.s)
    used = str(report.get("end", {}).get("sender_tcp_congestion", congestion_control))
    if not udp and used != congestion_control:
        raise LabFault(f"congestion control on {sender.name} is {used}, not {congestion_control}")
    duplicate_share = 0.0 if udp else min(1.0, duplicates / max(1, window.out_packets))
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
        retransmits=sender.retransmits() - retransmits_before,
        router_drops=_drops(network, name) - drops_before,
        iperf3_bit_s=_iperf3_figure(report),
    )


def _unlimited(network: Network, name: DirectionName) -> DirectionCalibration:
    """A direction without a rate, in virtual time: a fixed number of bytes, because no processor limits it.

    Only the virtual cost of system calls limits it; its goodput just has to exceed what any client asks for.
    """
    argv = ["iperf3", "-c", network.server.address, "-p", str(iperf3.PORT), "-n", str(_UNLIMITED_BYTES), "-J"]
    port = network.wire_ports.server if name == "up" else network.wire_ports.client
    into = network.wire_ports.client if name == "up" else network.wire_ports.server
    with PortSampler(network) as sampler:
        before = sampler.rows()[-1]
        done = network.prober.run(argv + (["-R"] if name == "down" else []), timeout_s=30)
        after = sampler.between(done.started_ns, done.ended_ns)[-1]
    end = _parse(done.stdout).get("end", {})
    total = end.get("sum_received")
    if not isinstance(total, dict) or not total.get("bits_per_second"):
        raise LabFault(f"the calibration could not use the link ({name}): {done.error_text}")
    packets = after[into].rx_packets - before[into].rx_packets
    return DirectionCalibration(
        direction=name,
        goodput_bit_s=float(total["bits_per_second"]),
        ideal_bit_s=None,
        goodput_error=None,
        window_s=float(total["seconds"]),
        wire_bytes=after[port].tx_bytes - before[port].tx_bytes,
        wire_packets=after[port].tx_packets - before[port].tx_packets,
        mean_packet_bytes=(after[into].rx_bytes - before[into].rx_bytes) / max(1, packets),
        retransmits=0,
        router_drops=0,
        iperf3_bit_s=float(total["bits_per_second"]),
    )


@dataclass
class _Flow:
    """iperf3 in one direction, watched at the router's ports."""

    network: Network
    sampler: PortSampler
    name: DirectionName
    receiver: Host

    def saturate(
        self, argv: list[str], plan: Schedule, rate: BitRate | None, rtt_s: float
    ) -> tuple[Window, int, dict[str, dict[str, object]]]:
        """The counts once the link was full, how many segments arrived twice meanwhile, and iperf3's report.

        iperf3's server needs a moment between two tests: it says `busy` until then, or takes the connection and resets it. On a
        link that loses much its own connection may end, once, or the server stay busy: then another one is started.
        """
        problem, again = "", True
        with ExitStack() as others:
            for attempt in range(6):
                process = self.network.prober.start(argv)
                since = self.network.clock.monotonic_ns()
                found = self._count(process, since, plan, rate, rtt_s)
                done = process.stop(grace_s=3.0)
                report = _parse(done.stdout)
                if found is not None:
                    return (*found, report)
                problem = str(report.get("error", done.error_text))
                if not any(sign in problem for sign in _NOT_YET):
                    if not again:
                        break
                    again = False
                elif attempt == _PATIENCE and "refused" not in problem:
                    others.callback(iperf3.start(self.network.server, port=_OTHER_PORT).stop)
                    argv = [str(_OTHER_PORT) if word == str(iperf3.PORT) else word for word in argv]
                self.network.clock.sleep(0.05)
        raise LabFault(f"the calibration could not fill the link ({self.name}): {problem}")

    def _count(
        self, process: Process, since_ns: int, plan: Schedule, rate: BitRate | None, rtt_s: float
    ) -> tuple[Window, int] | None:
        clock = self.network.clock
        start_ns = self._wait(process, since_ns, plan, rate, rtt_s)
        if start_ns is None:
            return None
        before = duplicates_received(self.receiver)
        end_ns = start_ns + round(plan.window_s * 1e9)
        while process.running() and clock.monotonic_ns() < end_ns + plan.margin_ns:
            clock.sleep(_POLL_S)
        duplicates = duplicates_received(self.receiver) - before
        readings = self._readings(since_ns)
        # Another machine's readings arrive in batches, and late where it is slow.
        while process.running() and readings[-1].t_ns < end_ns + plan.margin_ns and clock.monotonic_ns() < end_ns + _LATE_NS:
            clock.sleep(_POLL_S)
            readings = self._readings(since_ns)
        window = cut_window(readings, start_ns, plan.window_s, slow=plan.slow)
        return (window, duplicates) if window else None

    def _wait(self, process: Process, since_ns: int, plan: Schedule, rate: BitRate | None, rtt_s: float) -> int | None:
        """Until the link is full."""
        clock = self.network.clock
        deadline_ns = clock.monotonic_ns() + round((plan.handshake_s + plan.most_warm_s) * 1e9)
        while process.running() and clock.monotonic_ns() < deadline_ns:
            start_ns = full_ns(self._readings(since_ns), plan, rate.bit_s if rate else None, rtt_s)
            if start_ns is not None:
                return start_ns
            clock.sleep(_POLL_S)
        return None

    def _readings(self, since_ns: int) -> list[Reading]:
        return [_reading(row, self.network, self.name) for row in self.sampler.rows() if row.t_ns >= since_ns]


def _parse(report: bytes) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(report or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _iperf3_figure(report: dict[str, dict[str, object]]) -> float | None:
    end = report.get("end", {})
    total = end.get("sum_received") or end.get("sum")
    # A client that was stopped has not heard from its server what arrived there, and says 0.
    return (float(total["bits_per_second"]) or None) if isinstance(total, dict) and "bits_per_second" in total else None


def duplicates_received(host: Host) -> int:
    """Segments that arrived a second time: each makes the receiver send a DSACK (RFC 2883)."""
    counters = read_counters(host)
    return counters.get("TcpExtTCPDSACKOldSent", 0) + counters.get("TcpExtTCPDSACKOfoSent", 0)


def _drops(network: Network, name: DirectionName) -> int:
    return drops(read_qdiscs(network)[router_port(network, name)])


def _reading(row: PortReading, network: Network, name: DirectionName) -> Reading:
    """`up` enters the router at its client's port and leaves at its server's; `down` the other way round."""
    ports = network.wire_ports
    out, into = (ports.server, ports.client) if name == "up" else (ports.client, ports.server)
    return Reading(row.t_ns, row[out].tx_bytes, row[out].tx_packets, row[into].rx_bytes, row[into].rx_packets)
