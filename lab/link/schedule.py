"""Link and schedule -> tc commands over time. Pure: nothing is run here.

netem alone cannot change its rate in time: it fixes a packet's departure when the packet arrives, so what is queued leaves at
the old rate (ADR 0030 has the figures). On a link with a schedule the parts are apart:

    root 1: netem    loss and delay; its rate of 100 Gbit/s only keeps the order when the delay falls
      2: htb         one class, 2:1, with the rate and no burst: a new rate holds from the next packet on
        3: pfifo     the queue
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from lab.link.plan import UNLIMITED, QdiscPlan, plan, queue_packets
from lab.link.theory import bdp_packets, frame_bytes, ideal_goodput_bit_s
from lab.model.errors import UsageProblem
from lab.model.topology import DirectionName, Link, LinkState, Schedule
from lab.model.units import BitRate, Duration, Ratio

IN_ORDER = BitRate(100_000_000_000)
_SEEDS = 2**32
_ROOT, _SHAPER, _CLASS, _QUEUE = "1:", "2:", "2:1", "3:"
# Room in the delay line, on top of what a fast host sends during the delay.
_DELAY_LINE_PACKETS = 1000


@dataclass(frozen=True)
class ScheduledPlan:
    """One egress in one state of a schedule."""

    netem: QdiscPlan
    rate: BitRate
    queue_packets: int
    frame_bytes: int

    def setup(self, device: str) -> list[tuple[str, ...]]:
        """tc argument lists that make it from nothing."""
        (netem,) = self.netem.commands(device, "add")
        return [
            _with_handle(netem),
            ("tc", "qdisc", "add", "dev", device, "parent", f"{_ROOT}1", "handle", _SHAPER, "htb", "default", "1"),
            self._class(device, "add"),
            self._queue(device, "add"),
        ]

    def changes(self, device: str, before: ScheduledPlan | None) -> list[tuple[str, ...]]:
        """tc argument lists from that state to this one, in place; all of them without `before`."""
        found: list[tuple[str, ...]] = []
        if before is None or replace(before.netem, seed=self.netem.seed) != self.netem:
            (netem,) = self.netem.commands(device, "change")
            found.append(_with_handle(netem))
        if before is None or before.rate != self.rate:
            found.append(self._class(device, "change"))
        if before is None or before.queue_packets != self.queue_packets:
            found.append(self._queue(device, "change"))
        return found

    def _class(self, device: str, verb: str) -> tuple[str, ...]:
        rate = f"{self.rate.bit_s}bit"
        words = ["tc", "class", verb, "dev", device, "parent", _SHAPER, "classid", _CLASS, "htb", "rate", rate, "ceil", rate]
        return (*words, "burst", "1", "cburst", "1", "quantum", str(self.frame_bytes))

    def _queue(self, device: str, verb: str) -> tuple[str, ...]:
        return ("tc", "qdisc", verb, "dev", device, "parent", _CLASS, "handle", _QUEUE, "pfifo", "limit", str(self.queue_packets))


class Change(NamedTuple):
    """tc argument lists that are due at the same time."""

    at_ns: int
    commands: tuple[tuple[str, ...], ...]


def plan_state(state: LinkState, way: DirectionName, index: int = 0) -> ScheduledPlan:
    """That direction in that state. `index` of the state decides the seed: netem starts its numbers again with every change."""
    direction = state.link.direction(way)
    found = plan(direction, state.link.rtt, supports_seed=True)
    if found is None or direction.rate is None:
        raise UsageProblem("a schedule needs a link with a rate in both directions", remedy="set link.rate")
    on_the_way = bdp_packets(UNLIMITED, Duration(found.delay.ns + found.jitter.ns), direction.mtu)
    netem = replace(
        found,
        rate=IN_ORDER,
        limit_packets=_DELAY_LINE_PACKETS + on_the_way,
        loss=found.loss if state.passing else Ratio(1.0),
        # `up` has the next number of `down`'s.
        seed=None if found.seed is None else (found.seed + 2 * index) % _SEEDS,
    )
    queued = queue_packets(direction, direction.rate, state.link.rtt)
    return ScheduledPlan(netem, direction.rate, queued, frame_bytes(direction.mtu))


def plan_changes(link: Link, schedule: Schedule, devices: dict[DirectionName, str]) -> list[Change]:
    """The changes of one repetition. Only a schedule that repeats has commands for its beginning: they set everything."""
    found: list[Change] = []
    before: dict[DirectionName, ScheduledPlan | None] = dict.fromkeys(devices)
    for index, state in enumerate(schedule.states(link)):
        commands: list[tuple[str, ...]] = []
        for way, device in devices.items():
            now = plan_state(state, way, index)
            if index or schedule.repeat is not None:
                commands += now.changes(device, before[way])
            before[way] = now
        if commands:
            found.append(Change(state.at_ns, tuple(commands)))
    return found


def slowest_goodput_bit_s(link: Link, schedule: Schedule, way: DirectionName) -> float:
    """TCP payload per second in the worst state; 0 with an outage."""
    states = schedule.states(link)
    if not all(state.passing for state in states):
        return 0.0
    return min(ideal_goodput_bit_s(state.link.direction(way)) or 0.0 for state in states)


def _with_handle(netem: tuple[str, ...]) -> tuple[str, ...]:
    at = netem.index("root") + 1
    return (*netem[:at], "handle", _ROOT, *netem[at:])
