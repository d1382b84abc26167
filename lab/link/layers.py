"""A link in layers -> tc commands. Pure: nothing is run here.

netem alone cannot manage a queue, and cannot change its rate in time: it fixes a packet's departure when the packet arrives, so
what is queued leaves at the old rate (ADR 0030 has the figures). Where either is asked the parts are apart:

    root 1: netem    loss and delay; its rate of 100 Gbit/s only keeps the order when the delay falls
      2: htb         one class, 2:1, with the rate and a burst of 3 us: a new rate holds from the next packet on
        3: the queue

cake and tbf, which is the policer, shape by themselves and stand in htb's place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from lab.link.plan import UNLIMITED, QdiscPlan, plan, queue_packets
from lab.link.theory import bdp_packets, frame_bytes
from lab.model.errors import UsageProblem
from lab.model.units import BitRate, Duration, Queue, Ratio

if TYPE_CHECKING:
    from lab.model.impairments import ManagedQueue
    from lab.model.link import LinkDirection

IN_ORDER = BitRate(100_000_000_000)
# The rate before a policer. Packets that are due in the same instant leave netem together, and the policer's tbf has room for
# one: it dropped most of a burst that its bucket would have let through. At 1 Gbit/s the packets are 12 us apart.
_BEFORE_POLICER = BitRate(1_000_000_000)
_ROOT, _SHAPER, _CLASS, _QUEUE = "1:", "2:", "2:1", "3:"
# Room in the delay line, on top of what a fast host sends during the delay, and of what the queue holds: netem's limit counts
# the packets below it, and would drop from the end what a managed queue wants to drop by its own rule.
_DELAY_LINE_PACKETS = 1000
# cake holds 4 MiB of memory, a packet of which takes at least some 400 B; the least frame of Ethernet.
_CAKE_PACKETS, _LEAST_FRAME_BYTES = 10_000, 60
# htb's timer comes 200 to 450 ns late, at every packet. Without a burst that time is lost: 0.37 % of 100 Mbit/s, 0.8 % of 500.
# tc cuts to microseconds.
_LATENESS_NS = 3000
_SHAPING = frozenset({"cake", "tbf"})
_IN_BYTES = frozenset({"bfifo", "red", "tbf"})
_BIT_NS_PER_BYTE = 8 * 10**9
# red: shares of the limit, and the probability, as tc-red(8) advises.
_RED_LEAST, _RED_MOST, _RED_PROBABILITY = Fraction(1, 10), Fraction(3, 10), Ratio(0.02)
_CAKE_RTT = Duration(100_000_000)


@dataclass(frozen=True)
class QueuePlan:
    """A qdisc by tc's kind, words, and the options that tc prints of it: integers, and times in microseconds."""

    kind: str
    words: tuple[str, ...]
    options: tuple[tuple[str, int | bool], ...]

    @property
    def most_packets(self) -> int:
        """The most packets that it may hold."""
        limit = int(dict(self.options).get("limit", _CAKE_PACKETS))
        return limit // _LEAST_FRAME_BYTES if self.kind in _IN_BYTES else limit

    @property
    def shapes(self) -> bool:
        """True if the queue's discipline has the link's rate itself."""
        return self.kind in _SHAPING


@dataclass(frozen=True)
class LayeredPlan:
    """One egress: its delay line, its rate and its queue."""

    netem: QdiscPlan
    rate: BitRate
    queue: QueuePlan
    frame_bytes: int

    @property
    def below(self) -> tuple[str, ...]:
        """The kinds of qdiscs below netem, from the root on."""
        return (self.queue.kind,) if self.queue.shapes else ("htb", self.queue.kind)

    @property
    def burst_bytes(self) -> int:
        """htb's bucket: the lateness that it makes up for."""
        return math.ceil(self.rate.bit_s * _LATENESS_NS / _BIT_NS_PER_BYTE)

    def setup(self, device: str) -> list[tuple[str, ...]]:
        """tc argument lists that make it from nothing."""
        (netem,) = self.netem.commands(device, "add")
        if self.queue.shapes:
            return [_with_handle(netem), self._queue(device, "add")]
        return [
            _with_handle(netem),
            ("tc", "qdisc", "add", "dev", device, "parent", f"{_ROOT}1", "handle", _SHAPER, "htb", "default", "1"),
            self._class(device, "add"),
            self._queue(device, "add"),
        ]

    def changes(self, device: str, before: LayeredPlan | None) -> list[tuple[str, ...]]:
        """tc argument lists from that state to this one, in place; all of them without `before`."""
        found: list[tuple[str, ...]] = []
        if before is None or replace(before.netem, seed=self.netem.seed) != self.netem:
            (netem,) = self.netem.commands(device, "change")
            found.append(_with_handle(netem))
        if not self.queue.shapes and (before is None or before.rate != self.rate):
            found.append(self._class(device, "change"))
        if before is None or before.queue != self.queue:
            found.append(self._queue(device, "change"))
        return found

    def _class(self, device: str, verb: str) -> tuple[str, ...]:
        rate = f"{self.rate.bit_s}bit"
        words = ["tc", "class", verb, "dev", device, "parent", _SHAPER, "classid", _CLASS, "htb", "rate", rate, "ceil", rate]
        burst = str(self.burst_bytes)
        return (*words, "burst", burst, "cburst", burst, "quantum", str(self.frame_bytes))

    def _queue(self, device: str, verb: str) -> tuple[str, ...]:
        parent, handle = (f"{_ROOT}1", _SHAPER) if self.queue.shapes else (_CLASS, _QUEUE)
        return ("tc", "qdisc", verb, "dev", device, "parent", parent, "handle", handle, self.queue.kind, *self.queue.words)


def layered(direction: LinkDirection, rtt: Duration, *, supports_seed: bool) -> LayeredPlan:
    """The layers of this direction of a link with that round trip. Raises UsageProblem where it has no rate."""
    found = plan(direction, rtt, supports_seed=supports_seed)
    if found is None or direction.rate is None:
        raise UsageProblem("a schedule and a managed queue need a link with a rate", remedy="set link.rate")
    on_the_way = bdp_packets(UNLIMITED, Duration(found.delay.ns + found.reach_ns), direction.mtu)
    queue = _queue(direction, direction.rate, rtt)
    before = max(_BEFORE_POLICER, BitRate(2 * direction.rate.bit_s)) if queue.kind == "tbf" else IN_ORDER
    netem = replace(found, rate=before, limit_packets=_DELAY_LINE_PACKETS + on_the_way + queue.most_packets)
    return LayeredPlan(netem, direction.rate, queue, frame_bytes(direction.mtu))


def link_plan(
    direction: LinkDirection, rtt: Duration, *, supports_seed: bool, own_delay: Duration = Duration(0)
) -> QdiscPlan | LayeredPlan | None:
    """The router's plan for this direction: one netem, layers for a managed queue, or None."""
    if direction.managed:
        return layered(direction, rtt, supports_seed=supports_seed)
    return plan(direction, rtt, supports_seed=supports_seed, own_delay=own_delay)


def _queue(direction: LinkDirection, rate: BitRate, rtt: Duration) -> QueuePlan:
    packets, managed = queue_packets(direction, rate, rtt), direction.managed
    if managed is None:
        return QueuePlan("pfifo", ("limit", str(packets)), (("limit", packets),))
    size = _bytes(direction, rate, packets)
    if managed.kind == "fifo":
        kind, limit = ("bfifo", size) if managed.limit.kind in ("bytes", "time") else ("pfifo", packets)
        return QueuePlan(kind, ("limit", str(limit)), (("limit", limit),))
    if managed.kind == "cake":
        trip = managed.rtt or _CAKE_RTT
        words = ("bandwidth", f"{rate.bit_s}bit", "besteffort", "flows", "raw", "rtt", _us(trip))
        return QueuePlan("cake", words, (("bandwidth", rate.bit_s // 8), ("rtt", trip.ns // 1000)))
    frame = frame_bytes(direction.mtu)
    if managed.kind == "policer":
        assert managed.burst is not None
        return policer(rate, managed.burst.bytes, frame)
    if managed.kind == "red":
        return _red(managed, size, rate, frame)
    return _delay_managed(managed, packets)


def policer(rate: BitRate, burst_bytes: int, frame: int) -> QueuePlan:
    """A bucket that passes `burst_bytes` at once and `rate` in the long run, and drops the rest (ADR 0032, decision 4)."""
    bucket = ("rate", f"{rate.bit_s}bit", "burst", str(burst_bytes), "limit", str(frame))
    return QueuePlan("tbf", bucket, (("rate", rate.bit_s // 8), ("limit", frame)))


def _delay_managed(managed: ManagedQueue, packets: int) -> QueuePlan:
    """fq_codel, codel and pie: the same words for the same settings."""
    words, options = ["limit", str(packets)], [("limit", packets)]
    for name, time in (("target", managed.target), ("interval", managed.interval)):
        if time is not None:
            words += [name, _us(time)]
            options.append((name, time.ns // 1000))
    words.append("ecn" if managed.ecn else "noecn")
    return QueuePlan(managed.kind, tuple(words), (*options, ("ecn", managed.ecn)))


def _red(managed: ManagedQueue, size: int, rate: BitRate, frame: int) -> QueuePlan:
    """tc-red(8): `burst` is the number of packets after which the average follows, (2 x min + max) / (3 x avpkt)."""

    least = _amount_bytes(managed.least, rate, frame) if managed.least else max(frame, round(size * _RED_LEAST))
    most = _amount_bytes(managed.most, rate, frame) if managed.most else max(frame + 1, round(size * _RED_MOST))
    if not least < most <= size:
        raise UsageProblem(
            f"red's `least` ({least} B), `most` ({most} B) and `limit` ({size} B) must rise", remedy="give a longer limit"
        )
    burst = max(1, (2 * least + most) // (3 * frame) + 1)
    share = (managed.probability or _RED_PROBABILITY).value
    words = ["limit", str(size), "min", str(least), "max", str(most), "avpkt", str(frame), "burst", str(burst)]
    words += ["probability", f"{share:g}", "bandwidth", f"{rate.bit_s}bit", *(["ecn"] if managed.ecn else [])]
    return QueuePlan("red", tuple(words), (("limit", size), ("min", least), ("max", most), ("ecn", managed.ecn)))


def _amount_bytes(queue: Queue, rate: BitRate, frame: int) -> int:
    if queue.kind == "bytes":
        return queue.amount
    if queue.kind == "time":
        return rate.bit_s * queue.amount // _BIT_NS_PER_BYTE
    if queue.kind == "packets":
        return queue.amount * frame
    raise UsageProblem("red's `least` and `most` are bytes, packets or times, not multiples of the BDP", remedy="e.g. 10 ms")


def _bytes(direction: LinkDirection, rate: BitRate, packets: int) -> int:
    limit, frame = direction.queue_limit, frame_bytes(direction.mtu)
    return packets * frame if limit.kind == "bdp" else max(frame, _amount_bytes(limit, rate, frame))


def _us(time: Duration) -> str:
    return f"{max(1, time.ns // 1000)}us"


def _with_handle(netem: tuple[str, ...]) -> tuple[str, ...]:
    at = netem.index("root") + 1
    return (*netem[:at], "handle", _ROOT, *netem[at:])
