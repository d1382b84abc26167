"""The best that a link can carry. Pure arithmetic; every constant names its source.

tc counts a frame as the kernel holds it: MTU plus the Ethernet header, without preamble, FCS and gap (tc-netem(8), `rate`). A
rate of 50 Mbit/s therefore carries 50 x 1448 / 1514 = 47.82 Mbit/s of TCP payload at MTU 1500: a client can reach that, and no
more.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from lab.model.units import BitRate, Duration

if TYPE_CHECKING:
    from lab.model.link import Link, LinkDirection

ETHERNET_HEADER_BYTES = 14  # IEEE 802.3: two addresses and a type
IPV4_HEADER_BYTES = 20  # RFC 791, no options
MORE_IN_IPV6_BYTES = 20  # RFC 8200: a header of 40 bytes, no extension
TCP_HEADER_BYTES = 20  # RFC 9293, no options
TCP_TIMESTAMPS_BYTES = 12  # RFC 7323: ten bytes and two of padding, in every segment once negotiated
# The headers of a data segment with timestamps.
SEGMENT_OVERHEAD_BYTES = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + TCP_HEADER_BYTES + TCP_TIMESTAMPS_BYTES
# ping(8): 56 bytes of data, 8 of ICMP (RFC 792).
PING_FRAME_BYTES = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + 8 + 56


def frame_bytes(mtu: int) -> int:
    """A full-sized frame as tc counts it: 1514 at MTU 1500."""
    return mtu + ETHERNET_HEADER_BYTES


def payload_per_segment(mtu: int, *, ipv6: bool = False) -> int:
    """TCP payload of a full-sized frame: 1448 at MTU 1500, 1428 over IPv6."""
    return frame_bytes(mtu) - SEGMENT_OVERHEAD_BYTES - (MORE_IN_IPV6_BYTES if ipv6 else 0)


def payload_bytes(wire_bytes: int, wire_packets: int) -> int:
    """TCP payload within counted frames: exact for IPv4 data segments with timestamps and no other option."""
    return wire_bytes - SEGMENT_OVERHEAD_BYTES * wire_packets


def ideal_goodput_bit_s(direction: LinkDirection, *, ipv6: bool = False) -> float | None:
    """TCP payload per second of a full link; None where nothing limits it. Packets lost at random never reach the rate."""
    if direction.rate is None:
        return None
    return direction.rate.bit_s * payload_per_segment(direction.mtu, ipv6=ipv6) / frame_bytes(direction.mtu)


def serialisation(frame: int, rate: BitRate | None) -> Duration:
    """The time that a frame of that many bytes takes at that rate; zero without a rate."""
    return Duration(round(frame * 8 * 1e9 / rate.bit_s)) if rate else Duration(0)


def ideal_rtt_ms(link: Link) -> float:
    """Round trip of a ping over the idle link: both delays, and the probe's own time on the wire both ways."""
    sides = [link.direction("up"), link.direction("down")]
    return math.fsum(side.delay.ms + serialisation(PING_FRAME_BYTES, side.rate).ms for side in sides)


def bdp_packets(rate: BitRate, rtt: Duration, mtu: int) -> int:
    """The bandwidth-delay product in full-sized frames, rounded up."""
    return math.ceil(Fraction(rate.bit_s * rtt.ns, 8 * 10**9 * frame_bytes(mtu)))
