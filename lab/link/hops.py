"""A link's treatment of UDP alone, or of packets that are too large -> commands. Pure: nothing is run here.

    to-client ─> mtu-up ─> udp-up ─> to-server, which has the link's own qdiscs

The kernel of virtual time has neither filters of traffic nor act_police, but a rule of routing can tell UDP from TCP. It sends
those packets over a wire of the router's own, a veth with both ends on the router, whose qdisc drops what it should:

    udp: blocked       netem that loses everything
    udp: {policed: R}  the policer of `layers`, a tbf with room for one frame
    hidden_mtu: N      a tbf whose bucket holds one frame of N bytes; a larger one could never pass, and is dropped

The packets that pass then meet the link as all others do. The hops of a direction follow each other in this order, MTU first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.link.layers import QueuePlan, policer
from lab.link.plan import NETEM_DEFAULT_LIMIT, QdiscPlan
from lab.link.readback import compare, compare_options
from lab.link.theory import frame_bytes
from lab.model.units import BitRate, Duration, Ratio

if TYPE_CHECKING:
    from lab.model.link import DirectionName, LinkDirection

# A wire faster than any link: it only tells sizes apart. Its timer is late by 200 to 450 ns at every frame.
_WIRE_RATE = BitRate(10_000_000_000)
_WIRE_QUEUE_BYTES = 10_000_000
# They exist on the router's own wires only. A permanent neighbour: an ARP exchange would shift which packet a seed drops.
_MACS = ("02:54:4c:03:00:01", "02:54:4c:03:00:02")
# Numbers of routing tables, and of rules, which come before the kernel's own (32766).
_DETOUR = "ipv6-up"
_NUMBERS = {"mtu-up": 101, "udp-up": 102, "mtu-down": 103, "udp-down": 104, _DETOUR: 105}
IPV6_RULE = str(_NUMBERS[_DETOUR])
"""The rule by which packets of IPv6 fare otherwise than those of IPv4."""
HOPS: frozenset[str] = frozenset(_NUMBERS) - {_DETOUR}
"""The devices of all hops of a link that a router may have."""
# Room for a second of 1 Gbit/s.
_DETOUR_PACKETS = 100_000


@dataclass(frozen=True)
class Hop:
    """A wire of the router's own. Its packets come from `port`; `selector` says which of them, in words of ip-rule(8)."""

    device: str
    port: str
    selector: tuple[str, ...]
    qdisc: QdiscPlan | QueuePlan
    ipv6: bool = False
    """True if it is for packets of IPv6, and not of IPv4."""

    @property
    def end(self) -> str:
        """The device where its packets come out."""
        return f"{self.device}-end"

    def setup(self, address: str) -> list[tuple[str, ...]]:
        """Argument lists that make it, for packets to that address. The rule comes last: until then nothing goes there."""
        number, device, (own, other) = str(_NUMBERS[self.device]), self.device, _MACS
        ip = ("ip", "-6") if self.ipv6 else ("ip",)
        if isinstance(self.qdisc, QdiscPlan):
            (qdisc,) = self.qdisc.commands(device, "add")
        else:
            qdisc = ("tc", "qdisc", "add", "dev", device, "root", self.qdisc.kind, *self.qdisc.words)
        return [
            ("ip", "link", "add", device, "address", own, "type", "veth", "peer", "name", self.end, "address", other),
            ("ip", "link", "set", device, "up"),
            ("ip", "link", "set", self.end, "up"),
            qdisc,
            (*ip, "neighbour", "replace", address, "lladdr", other, "nud", "permanent", "dev", device),
            (*ip, "route", "add", "default", "dev", device, "table", number),
            (*ip, "rule", "add", "pref", number, "iif", self.port, *self.selector, "lookup", number),
        ]

    def problems(self, qdiscs: Sequence[Mapping[str, Any]]) -> list[str]:
        """The differences of the device's qdisc from the plan, in words; empty if there are none."""
        if isinstance(self.qdisc, QdiscPlan):
            found = compare(self.qdisc, qdiscs)
        elif [qdisc.get("kind") for qdisc in qdiscs] != [self.qdisc.kind]:
            found = [f"{self.qdisc.kind} is not there"]
        else:
            found = compare_options(self.qdisc, qdiscs[0].get("options", {}))
        return [f"{self.device}: {problem}" for problem in found]


def removal(device: str) -> list[tuple[str, ...]]:
    """Argument lists that take that hop away, its rule first; its route goes with the device."""
    return [("ip", "rule", "del", "pref", str(_NUMBERS[device])), ("ip", "link", "del", device)]


def hops_of(direction: LinkDirection, way: DirectionName, port: str) -> list[Hop]:
    """The hops of one direction in their order; `port` is where its packets enter the router."""
    found: list[Hop] = []
    if direction.hidden_mtu is not None:
        frame = frame_bytes(direction.hidden_mtu)
        words = ("rate", f"{_WIRE_RATE.bit_s}bit", "burst", str(frame), "limit", str(_WIRE_QUEUE_BYTES))
        # tc prints a limit of that size as a latency, and the burst in ticks of 80 bytes: only counting proves it to a byte.
        plan = QueuePlan("tbf", words, (("rate", _WIRE_RATE.bit_s // 8),))
        found.append(Hop(f"mtu-{way}", port, (), plan))
    if direction.udp != "open":
        enters = found[-1].end if found else port
        policed = direction.policed_udp
        qdisc = policer(policed.policed, policed.burst.bytes, frame_bytes(direction.mtu)) if policed else _BLOCKED
        found.append(Hop(f"udp-{way}", enters, ("ipproto", "udp"), qdisc))
    return found


def ipv6_detour(port: str, delay: Duration) -> Hop:
    """A longer way for packets of IPv6 that enter the router at `port`."""
    return Hop(_DETOUR, port, (), replace(_BLOCKED, loss=Ratio(0), delay=delay, limit_packets=_DETOUR_PACKETS), ipv6=True)


_BLOCKED = QdiscPlan(
    limit_packets=NETEM_DEFAULT_LIMIT,
    delay=Duration(0),
    jitter=Duration(0),
    rate=None,
    loss=Ratio(1.0),
    reorder=Ratio(0),
    corrupt=Ratio(0),
    duplicate=Ratio(0),
    seed=None,
)
