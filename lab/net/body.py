"""When a body began and ended, from what passed the receiver's port and from what its programs took. Pure.

The definitions are in docs/how-it-decides.md. TLS and SSH hide where the content begins and ends within their stream, but not the
order of what passes: an opening exchange waits for its answers, and content does not. So the body begins with the run of segments
towards the receiver in which the stream outgrows an opening exchange, and it ends with the run before a closing exchange.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.net.tap import Content, Event, Mark, Unread, Woken

Way = Literal["get", "put"]

# Bytes of a stream towards the receiver that may precede the content (headers, handshakes, the opening of a file) and follow it
# (alerts, the closing of a file). More than any client measured needs, less than a client sends between two answers of its peer.
_BEFORE: dict[tuple[str, Way], int] = {
    ("http1", "get"): 1 << 10,
    ("http1", "put"): 1 << 10,
    ("https1", "get"): 6 << 10,
    ("https1", "put"): 2 << 10,
    ("h2", "get"): 6 << 10,
    ("h2", "put"): 2 << 10,
    ("sftp", "get"): 8 << 10,
    ("sftp", "put"): 8 << 10,
}
_AFTER: dict[str, int] = {"http1": 0, "https1": 256, "h2": 256, "sftp": 1 << 10}
# The longest run of SSH's client around an upload, to open a file and to close it: its times, a new name.
_SSH_FILE_RUN = 320
_OTHER = 8 << 10
# The longest run that one side of TLS or SSH sends in its opening without waiting for the other: a flight of certificates.
_LARGEST_OPENING_RUN = 3 << 10
# SSH's client sends no more than this at a time once its two large runs have passed: its banner with the algorithms, and its key.
_SSH_LARGE_RUNS = 2
_SSH_LATER_RUN = 3 << 9
# A run towards the receiver does not rest this long before it outgrows an opening, unless a segment was lost on the way or the
# server waits: then what came before the rest may have been the answer's head alone, and the content's first byte behind it.
_PAUSE_S = 0.05
LEAST_BODY_BYTES = 64 << 10
"""A smaller body is over in a few segments: its opening exchange would be a large part of it."""


@dataclass(frozen=True)
class Body:
    """Instants of the receiver's clock; `opened_ns` is the first SYN's. `error_s`: how far the body's length may be off."""

    opened_ns: int
    start_ns: int
    end_ns: int
    error_s: float

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True)
class _Step:
    """A piece of content and how many bytes have passed towards the receiver on all connections by its end."""

    t0_ns: int
    t_ns: int
    towards: bool
    passed: int


def time_body(events: Sequence[Event], protocol: str, way: Way, size: int, exit_ns: int) -> Body | None:
    """The body of a transfer of `size` bytes whose client ended at `exit_ns`; None where less than `size` bytes passed.

    The events are the receiver's: the client's for a download, the server's for an upload.
    """
    if size < LEAST_BODY_BYTES:
        return None
    opened = {event.connection: event.t_ns for event in events if isinstance(event, Mark) and event.opened}
    steps = _steps(events, opened, towards_opener=way == "get")
    passed = steps[-1].passed if steps else 0
    if passed < size:
        return None
    before = min(_BEFORE.get((protocol, way), _OTHER) * max(1, len(opened)), passed - size)
    ssh_upload = (protocol, way) == ("sftp", "put")
    # Several connections may open at the same time, so their runs are not counted.
    alone = ssh_upload and len(opened) == 1
    first, certain = _first(steps, before, _SSH_LARGE_RUNS if alone else len(steps))
    if alone:
        first = _after_small(steps, first)
    largest = _SSH_FILE_RUN if ssh_upload else passed
    last = _last(steps, passed - min(_AFTER.get(protocol, _OTHER), passed - size), largest)
    start_ns, wire_ns = steps[first].t0_ns, steps[last].t_ns
    end_ns, error_s = (wire_ns, 0.0) if way == "put" else _taken(events, steps[last:], wire_ns, exit_ns)
    paused_s = (steps[certain].t0_ns - start_ns) / 1e9
    if paused_s > _PAUSE_S:
        error_s += paused_s
    return Body(min(opened.values()), start_ns, end_ns, error_s + _latest(events, start_ns, end_ns))


def _latest(events: Sequence[Event], start_ns: int, end_ns: int) -> float:
    """Seconds that the machine let a program wait for a processor meanwhile: a client may look at its clock as late."""
    return max((each.late_ns for each in events if isinstance(each, Woken) and start_ns <= each.t_ns <= end_ns), default=0) / 1e9


def _steps(events: Sequence[Event], opened: dict[int, int], *, towards_opener: bool) -> list[_Step]:
    positions: dict[int, int] = {}
    steps: list[_Step] = []
    passed = 0
    for event in sorted((each for each in events if isinstance(each, Content)), key=lambda each: each.t0_ns):
        if event.connection not in opened:
            continue
        towards = event.from_opener != towards_opener
        if towards:
            passed += event.position - positions.get(event.connection, 0)
            positions[event.connection] = event.position
        steps.append(_Step(event.t0_ns, event.t_ns, towards, passed))
    return steps


def _first(steps: Sequence[_Step], before: int, large_runs: int) -> tuple[int, int]:
    """The first step of the content, and the step that made it certain.

    It begins the first run towards the receiver that is too large, or too late, for an opening. The first
    `large_runs` may be larger.
    """
    start, passed, runs = -1, 0, 0
    for index, step in enumerate(steps):
        if not step.towards:
            start = -1
            continue
        if start < 0:
            start, passed = index, steps[index - 1].passed if index else 0
            runs += 1
        largest = _LARGEST_OPENING_RUN if runs <= large_runs else _SSH_LATER_RUN
        if step.passed > before or step.passed - passed > largest:
            return start, index
    raise AssertionError("less has passed than came before the content")


def _after_small(steps: Sequence[_Step], first: int) -> int:
    """The first step behind the last run of at most `_SSH_FILE_RUN` bytes before `first`, where a run begins.

    Such a run opens the file, and the first write follows it: the answer has the handle that a write needs.
    """
    content = first
    for begin, size in reversed(_runs(steps[:first])):
        if size <= _SSH_FILE_RUN:
            return content
        content = begin
    return first


def _runs(steps: Sequence[_Step]) -> list[tuple[int, int]]:
    """Each run of steps towards the receiver: the index of its first, and its bytes."""
    found: list[tuple[int, int]] = []
    passed = 0
    for index, step in enumerate(steps):
        if step.towards:
            begin, size = found.pop() if index and steps[index - 1].towards else (index, 0)
            found.append((begin, size + step.passed - passed))
            passed = step.passed
    return found


def _last(steps: Sequence[_Step], reached: int, largest: int) -> int:
    """The last step of the content: in the run that reaches `reached`, or in a later one of more than `largest` bytes."""
    crossing = next(index for index, step in enumerate(steps) if step.passed >= reached)
    last, before = crossing, steps[crossing].passed
    while last + 1 < len(steps) and steps[last + 1].towards:
        last += 1
    for index in range(last + 1, len(steps)):
        step = steps[index]
        if not step.towards:
            before = step.passed
        elif step.passed - before > largest:
            last = index
    return last


def _taken(events: Sequence[Event], after: Sequence[_Step], wire_ns: int, exit_ns: int) -> tuple[int, float]:
    """When the program had taken the last byte, and how far that instant may be off.

    The receive queues are looked at now and then; between two looks it is the program's next act that tells: what it sent, or its
    end.
    """
    queue = [event for event in events if isinstance(event, Unread)]
    at = bisect_left(queue, wire_ns, key=lambda each: each.t_ns)
    held = at > 0 and queue[at - 1].bytes > 0
    since_ns, until_ns = wire_ns, exit_ns
    for look in queue[at:]:
        if look.bytes == 0:
            until_ns = min(exit_ns, look.t_ns)
            break
        since_ns, held = look.t_ns, True
    until_ns = max(since_ns, until_ns)
    acts = [step.t0_ns for step in after if not step.towards]
    acts += [event.t_ns for event in events if isinstance(event, Mark) and not event.opened]
    within = [t_ns for t_ns in acts if since_ns <= t_ns <= until_ns]
    if within:
        end_ns = max(within)
    elif held:
        end_ns = exit_ns if exit_ns == until_ns else (since_ns + until_ns) // 2
    else:
        # A program that took everything as it came took the last byte as well.
        end_ns = wire_ns
    return end_ns, max(end_ns - since_ns, until_ns - end_ns) / 1e9
