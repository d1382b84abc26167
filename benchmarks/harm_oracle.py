"""What the best sender could do to a bystander on a link with a schedule: pure arithmetic, no machine (ADR 0035).

It knows the rate at every instant, sends full packets evenly at a share of it, and loses packets in outages only. The
link is netem's: the delay first, whose jitter keeps the order, then the line.
`python -m benchmarks.harm_oracle 4g-bad down 0.3 0.9`; a share
`0.9/0.2` is the second one wherever the round trip is longer than at first.
"""

from __future__ import annotations

import heapq
import random
import sys
from bisect import bisect_right
from dataclasses import dataclass

from lab.judge.quantile import quantile
from lab.link.theory import frame_bytes
from lab.model.link import DirectionName
from lab.model.load import load_topology
from lab.model.topology import LinkState, Topology
from lab.model.units import Duration

ROUNDS = 4
"""Repetitions of the schedule, or the minutes of the longest: a percentile needs some thousand packets."""
_MOST_S = 120.0
_INTERVAL_S = 0.02
_BYSTANDER_BYTES, _ACK_BYTES = 106, 66


@dataclass
class Way:
    """One direction: when its last packet is due behind the delay, and when its line is free."""

    name: DirectionName
    due_s: float = 0.0
    free_s: float = 0.0


class Course:
    """The states of a topology over time."""

    def __init__(self, topology: Topology) -> None:
        schedule = topology.schedule
        assert schedule is not None
        assert schedule.repeat is not None
        self.states = schedule.states(topology.link)
        self.repeat_s = schedule.repeat.s
        self.begins_s = [state.at_ns / 1e9 for state in self.states]

    def at(self, now_s: float) -> LinkState:
        return self.states[bisect_right(self.begins_s, now_s % self.repeat_s) - 1]

    def byte_s(self, now_s: float, way: DirectionName) -> float:
        rate = self.at(now_s).link.direction(way).rate
        assert rate is not None
        return rate.bit_s / 8

    def shares(self, way: DirectionName, fast: float, slow: float) -> float:
        """The part of what the link carries that such a sender gets."""
        total = got = 0.0
        for state, end_s in zip(self.states, [*self.begins_s[1:], self.repeat_s], strict=True):
            carries = self.byte_s(state.at_ns / 1e9, way) * (end_s - state.at_ns / 1e9) * state.passing
            total += carries
            got += carries * (slow if state.link.rtt > self.states[0].link.rtt else fast)
        return got / total


def round_trips(course: Course, way: DirectionName, fast: float, slow: float) -> list[float]:
    """The bystander's, in ms, next to a sender with those shares; without one where they are 0."""
    dice, jobs = random.Random(1), list[tuple[float, int, str, float]]()
    ways = {"up": Way("up"), "down": Way("down")}
    back = ways["up" if way == "down" else "down"]
    frame, found, total_s = frame_bytes(1500), list[float](), min(_MOST_S, ROUNDS * course.repeat_s)
    count = 0

    def later(at_s: float | None, kind: str, began_s: float = 0.0) -> None:
        nonlocal count
        if at_s is not None:
            count += 1
            heapq.heappush(jobs, (at_s, count, kind, began_s))

    def passes(on: Way, now_s: float, size: int) -> float | None:
        state = course.at(now_s)
        jitter = state.link.direction(on.name).jitter
        assert isinstance(jitter, Duration), "only jitter that keeps the order"
        jitter_s = jitter.s
        late_s = dice.uniform(-jitter_s, jitter_s)
        if not state.passing:
            return None
        on.due_s = max(on.due_s, now_s + state.link.direction(on.name).delay.s + late_s)
        begins_s = max(on.due_s, on.free_s)
        on.free_s = begins_s + size / course.byte_s(begins_s, on.name)
        return on.free_s

    later(0.007, "ask")
    later(0.0 if fast or slow else None, "send")
    while jobs and jobs[0][0] < total_s:
        now_s, number, kind, began_s = heapq.heappop(jobs)
        if kind == "ask":
            later(now_s + _INTERVAL_S, "ask")
            later(passes(ways["up"], now_s, _BYSTANDER_BYTES), "echo", now_s)
        elif kind == "echo":
            later(passes(ways["down"], now_s, _BYSTANDER_BYTES), "answer", began_s)
        elif kind == "answer":
            found.append((now_s - began_s) * 1e3)
        elif kind == "send":
            longer = course.at(now_s).link.rtt > course.states[0].link.rtt
            share = slow if longer else fast
            later(now_s + frame / course.byte_s(now_s, way) / max(share, 1e-3), "send")
            later(passes(ways[way], now_s, frame), "data")
        elif number % 2:
            # Every other packet is acknowledged.
            passes(back, now_s, _ACK_BYTES)
    return found


def main(name: str, way: DirectionName, *shares: str) -> None:
    course = Course(load_topology(name))
    alone = round_trips(course, way, 0.0, 0.0)
    for text in shares:
        fast, _, slow = text.partition("/")
        both = float(fast), float(slow or fast)
        beside = round_trips(course, way, *both)
        p50, p95 = ((quantile(beside, at) or 0) - (quantile(alone, at) or 0) for at in (0.5, 0.95))
        print(f"{name} {way} {text}: {course.shares(way, *both):.0%} of the line, added p50 {p50:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1], "up" if sys.argv[2] == "up" else "down", *sys.argv[3:])
