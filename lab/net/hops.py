"""Proves what a link does to UDP alone and to large packets: numbered datagrams through it, counted at the other end."""

from __future__ import annotations

import math
from typing import NamedTuple

from lab.hosts.host import Network
from lab.link.counting import ALLOWED_SIGMA, Counted, chain_of
from lab.link.theory import frame_bytes
from lab.model.link import DirectionName, Link, LinkDirection
from lab.model.results import DatagramCount
from lab.model.units import BitRate
from lab.net.counted import Flow, count

# Enough to see a packet that should not have passed.
_PROBES, _PROBE_BYTES = 200, 500
# So many pass after the bucket is empty that a frame more or less is a thousandth.
_POLICED_PACKETS = 1000
# The rate of probes on a link without a rate, and their shares of a link's rate: its queue's drops are not the policer's doing.
_UNLIMITED = BitRate(100_000_000)
_OFFERED, _GENTLE = 0.98, 0.4


class Probe(NamedTuple):
    """Datagrams to send: `packets` IP packets of `size` bytes, `interval_ns` apart. `passes`: whether they fit."""

    packets: int
    size: int
    interval_ns: int
    passes: bool


def probes(side: LinkDirection) -> list[Probe]:
    """The probes that show the treatment of UDP and of large packets; none where the direction treats all packets alike."""
    carried = (side.for_udp().rate or _UNLIMITED).bit_s
    found = []
    if side.udp == "blocked":
        found.append(Probe(_PROBES, _PROBE_BYTES, _interval_ns(_PROBE_BYTES, _GENTLE * carried), passes=False))
    if side.hidden_mtu is not None:
        for size, passes in ((side.hidden_mtu, True), (side.hidden_mtu + 1, False)):
            found.append(Probe(_PROBES, size, _interval_ns(size, _GENTLE * carried), passes=passes))
    if policed := side.policed_udp:
        size = side.hidden_mtu or side.mtu
        offered = _OFFERED * (side.rate or BitRate(2 * policed.policed.bit_s)).bit_s
        # Until the bucket is empty everything passes, and then `policed / offered` of it.
        filled_s = 8 * policed.burst.bytes / (offered - policed.policed.bit_s)
        total_s = filled_s + _POLICED_PACKETS * frame_bytes(size) * 8 / policed.policed.bit_s
        found.append(Probe(round(total_s * offered / 8 / frame_bytes(size)), size, _interval_ns(size, offered), passes=True))
    return found


def allowed(side: LinkDirection, probe: Probe, sending_s: float, tolerance: float) -> tuple[int, int]:
    """The fewest and the most arrivals that are as asked, of a probe that was sent for so long. Random losses widen it."""
    if not probe.passes:
        return 0, 0
    wanted, slack = float(probe.packets), 0.0
    if policed := side.policed_udp:
        bucket = (policed.burst.bytes + policed.policed.bit_s / 8 * sending_s) / frame_bytes(probe.size)
        if bucket < wanted:
            wanted, slack = bucket, tolerance * bucket + 2
    chain = chain_of(side.loss)
    share = chain.share()
    spread = ALLOWED_SIGMA * math.sqrt(wanted * share * (1 - share) * chain.widened())
    arriving = wanted * (1 - share)
    return max(0, math.floor(arriving - slack - spread)), min(probe.packets, math.ceil(arriving + slack + spread))


def count_datagrams(network: Network, link: Link, way: DirectionName, tolerance: float) -> list[DatagramCount]:
    """The counts of the direction's probes. Raises LabFault where they cannot be counted."""
    side, found = link.direction(way), []
    for probe in probes(side):
        (counted,) = count(network, way, [Flow(probe.packets, probe.interval_ns)], size=probe.size, drain_s=1.0 + link.rtt.s)
        least, most = allowed(side, probe, _sending_s(probe, counted), tolerance)
        arrived = probe.packets - len(counted.missing)
        found.append(
            DatagramCount(direction=way, packet_bytes=probe.size, sent=probe.packets, arrived=arrived, least=least, most=most)
        )
    return found


def count_problems(found: list[DatagramCount]) -> list[str]:
    """Each count that is not as asked, in words."""
    return [
        f"{each.direction}: {each.arrived} of {each.sent} UDP packets of {each.packet_bytes} bytes arrived, "
        f"not {each.least if each.least == each.most else f'{each.least} to {each.most}'}"
        for each in found
        if not each.least <= each.arrived <= each.most
    ]


def _sending_s(probe: Probe, counted: Counted) -> float:
    """From the first packet that arrived to the last: a sender that was late fills the bucket meanwhile."""
    seen = [each.sent_ns for each in counted.intact]
    return (max(seen) - min(seen)) / 1e9 if seen else probe.packets * probe.interval_ns / 1e9


def _interval_ns(size: int, bit_s: float) -> int:
    return math.ceil(frame_bytes(size) * 8e9 / bit_s)
