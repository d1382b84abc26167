"""Link and schedule -> tc commands over time. Pure: nothing is run here."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from lab.link.layers import LayeredPlan, layered
from lab.link.theory import ideal_goodput_bit_s, payload_per_segment
from lab.link.trace import MS_NS, peak_bit_s, period_ns, slowest_bit_s
from lab.model.link import DirectionName, Link
from lab.model.topology import LinkState, Schedule
from lab.model.trace import Trace
from lab.model.units import Ratio

_SEEDS = 2**32
# The shortest time over which the lab judges a rate.
_SPAN_MS = 100


class Change(NamedTuple):
    """tc argument lists that are due at the same time."""

    at_ns: int
    commands: tuple[tuple[str, ...], ...]


def plan_state(state: LinkState, way: DirectionName, index: int = 0) -> LayeredPlan:
    """The plan of the direction in that state. The state's `index` decides the seed: a change starts netem's numbers again."""
    found = layered(state.link.direction(way), state.link.rtt, supports_seed=True)
    netem = replace(
        found.netem,
        loss=found.netem.loss if state.passing else Ratio(1.0),
        # `up` has the next number of `down`'s.
        seed=None if found.netem.seed is None else (found.netem.seed + 2 * index) % _SEEDS,
    )
    return replace(found, netem=netem)


def plan_changes(link: Link, schedule: Schedule, devices: dict[DirectionName, str]) -> list[Change]:
    """The changes of one repetition. Only a schedule that repeats has commands for its beginning: they set everything."""
    found: list[Change] = []
    before: dict[DirectionName, LayeredPlan | None] = dict.fromkeys(devices)
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
    """TCP payload per second in the worst state, or in the worst 100 ms of a trace; 0 with an outage."""
    if isinstance(schedule.trace, Trace):
        return slowest_bit_s(schedule.trace, link, way, _SPAN_MS)
    states = schedule.states(link)
    if not all(state.passing for state in states):
        return 0.0
    return min(ideal_goodput_bit_s(state.link.direction(way)) or 0.0 for state in states)


def fastest_bit_s(link: Link, schedule: Schedule, way: DirectionName) -> int:
    """The highest rate that it has, over two milliseconds of a trace."""
    if isinstance(schedule.trace, Trace):
        return round(peak_bit_s(schedule.trace, link, way, 2))
    rates = (state.link.direction(way).rate for state in schedule.states(link))
    return max(rate.bit_s for rate in rates if rate is not None)


class Course(NamedTuple):
    """The times of a schedule, in nanoseconds: what comes once, and what then repeats. The last state of a schedule without
    `repeat` lasts, so that any length stands for it."""

    once_ns: int
    period_ns: int

    def visits(self, at_ns: int, until_ns: int) -> int:
        """The number of times before `until_ns` that the link is as at `at_ns`."""
        if at_ns >= until_ns:
            return 0
        return 1 if at_ns < self.once_ns else 1 + (until_ns - at_ns - 1) // self.period_ns


def course(schedule: Schedule | None, link: Link, least_ns: int) -> Course:
    """A trace's round trips repeat with its way down."""
    if schedule is None:
        return Course(0, least_ns)
    if isinstance(schedule.trace, Trace):
        return Course(0, period_ns(schedule.trace, "down"))
    if schedule.repeat is not None:
        return Course(0, schedule.repeat.ns)
    return Course(schedule.states(link)[-1].at_ns, least_ns)


def carried_bytes(link: Link, schedule: Schedule, way: DirectionName, from_ns: int, to_ns: int) -> float:
    """TCP payload that a full link carries between two instants of its schedule: nothing in an outage."""
    return _carried_until(link, schedule, way, to_ns) - _carried_until(link, schedule, way, from_ns)


def _carried_until(link: Link, schedule: Schedule, way: DirectionName, end_ns: int) -> float:
    trace, total = schedule.trace, 0.0
    if isinstance(trace, Trace):
        rounds, rest_ns = divmod(end_ns, period_ns(trace, way))
        counts = trace.direction(way).counts
        frames = rounds * sum(counts) + sum(counts[: -(-rest_ns // MS_NS)])
        return float(frames * payload_per_segment(link.direction(way).mtu))
    states = schedule.states(link)
    if schedule.repeat is not None:
        rounds, end_ns = divmod(end_ns, schedule.repeat.ns)
        if rounds:
            total = rounds * _carried_until(link, schedule.model_copy(update={"repeat": None}), way, schedule.repeat.ns)
    for state, following in pairwise([*states, LinkState(max(end_ns, states[-1].at_ns), link)]):
        lasts_ns = max(0, min(end_ns, following.at_ns) - state.at_ns)
        if state.passing:
            total += (ideal_goodput_bit_s(state.link.direction(way)) or 0.0) / 8e9 * lasts_ns
    return total
