"""Where the lab sees a body begin and end, from events as a receiver's tap prints them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest

from lab.net.body import time_body
from lab.net.tap import Content, Event, Mark, Unread, Woken

MS = 1_000_000
SIZE = 1 << 20
FRAME = 1448


def content(towards_client: bool, t_ms: float, position: int, connection: int = 0) -> Content:
    return Content(connection, not towards_client, round(t_ms * MS), round(t_ms * MS), position)


def opened(t_ms: float = 0, connection: int = 0) -> Mark:
    return Mark(connection, round(t_ms * MS), opened=True)


def closed(t_ms: float) -> Mark:
    return Mark(0, round(t_ms * MS), opened=False)


def queue(*looks: tuple[float, int]) -> list[Event]:
    return [Unread(round(t_ms * MS), size) for t_ms, size in looks]


def flow(before: int, begin_ms: float, *, towards_client: bool = True, after: int = 0, each_ms: float = 1) -> list[Event]:
    """Content of SIZE bytes in frames from `begin_ms` on, in a stream that had `before` bytes."""
    frames = range(FRAME, SIZE + after + FRAME, FRAME)
    return [
        content(towards_client, begin_ms + index * each_ms, before + min(at, SIZE + after)) for index, at in enumerate(frames)
    ]


LAST_MS = -(-SIZE // FRAME) - 1


def seconds(events: Sequence[Event], protocol: str = "http1", way: str = "get", exit_ms: float = 10_000) -> tuple[float, float]:
    body = time_body(events, protocol, way, SIZE, round(exit_ms * MS))  # type: ignore[arg-type]
    assert body is not None
    return body.start_ns / MS, body.end_ns / MS


def test_a_download_begins_with_its_first_segment_and_ends_with_the_last_that_the_program_took() -> None:
    events = [opened(), content(False, 30, 80), *flow(250, 60), *queue((50, 0), (60 + LAST_MS - 2, 0), (60 + LAST_MS + 5, 0))]
    assert seconds(events) == (60, 60 + LAST_MS)


def test_a_rest_behind_the_head_of_the_answer_may_be_before_the_body_or_in_it() -> None:
    """The first segment of the body was lost, and came 0.7 s later: the client's clock begins there, the wire's with the head."""
    head = [opened(), content(False, 30, 80), content(True, 60, 250)]
    errors = []
    for begin_ms in (760, 61):
        last_ms = begin_ms + LAST_MS
        looks = queue((last_ms - 2, 0), (last_ms + 5, 0))
        body = time_body([*head, *flow(250, begin_ms), *looks], "http1", "get", SIZE, 10_000 * MS)
        assert body is not None
        assert body.start_ns == 60 * MS
        errors.append(body.error_s)
    assert errors[0] - errors[1] == pytest.approx(0.7)


def test_what_lies_in_the_receive_queue_has_not_been_taken() -> None:
    last = 60 + LAST_MS
    looks = queue((last - 1, 70_000), (last + 9, 40_000), (last + 29, 9_000), (last + 31, 0), (last + 39, 0))
    events = [opened(), content(False, 30, 80), *flow(250, 60), *looks]
    assert seconds(events) == (60, pytest.approx(last + 30))
    # What the program does next tells when within these two milliseconds.
    assert seconds([*events, closed(last + 30.5)]) == (60, last + 30.5)
    assert seconds(events, exit_ms=last + 30.25) == (60, last + 30.25)
    body = time_body(events, "http1", "get", SIZE, 10_000 * MS)
    assert body is not None
    assert body.error_s == pytest.approx(0.001)


def test_an_upload_is_the_content_that_reached_the_server() -> None:
    head = [opened(), content(False, 12, 180)]
    assert seconds([*head, *flow(180, 13, towards_client=False), content(True, 900, 200)], way="put") == (12, 13 + LAST_MS)
    expects = [opened(), content(False, 12, 180), content(True, 13, 25)]
    assert seconds([*expects, *flow(180, 40, towards_client=False)], way="put") == (40, 40 + LAST_MS)


def test_a_machine_that_lets_programs_wait_makes_the_time_less_certain() -> None:
    """By the longest wait during the body: an instant that a program notes is at most that late."""
    calm = [opened(), content(False, 12, 180), *flow(180, 13, towards_client=False)]
    waits = [(1, 90), (20, 2), (30, 3), (14 + LAST_MS, 90)]
    late = [Woken(at_ms * MS, late_ms * MS) for at_ms, late_ms in waits]
    bodies = [time_body(events, "http1", "put", SIZE, 10_000 * MS) for events in (calm, [*calm, *late])]
    assert [body and body.error_s for body in bodies] == [0, pytest.approx(0.003)]


@pytest.mark.parametrize(("protocol", "opening"), [("h2", [460, 550]), ("sftp", [40, 1100, 1650, 1800, 2300, 2800])])
def test_an_opening_exchange_is_not_content(protocol: str, opening: list[int]) -> None:
    exchange: list[Event] = [opened()]
    for turn, position in enumerate(opening):
        exchange += [content(True, 20 * turn + 10, position), content(False, 20 * turn + 11, 300 * (turn + 1))]
    framing = SIZE // 400
    looks = queue((1_000, 0), (1_300, 0))
    events = [*exchange, *flow(opening[-1], 500, after=framing), *looks, content(False, 9_000, 9_000)]
    start, end = seconds(events, protocol)
    assert start == 500
    assert end == pytest.approx(500 + LAST_MS, abs=5)


@pytest.mark.parametrize("sizes", [[3000], [1000, 1600], [400, 800, 1500, 3000]])
def test_an_upload_over_ssh_may_begin_with_a_small_write(sizes: list[int]) -> None:
    """Several that no opening outgrows among them: a slow limit lets through that much at a time."""
    opening: list[Event] = [opened()]
    for turn, position in enumerate([40, 1600, 2850, 3300, 4100, 4200]):
        opening += [content(False, 20 * turn + 10, position), content(True, 20 * turn + 11, 300 * (turn + 1))]
    reached = [*accumulate(sizes)]
    reached += [*range(reached[-1] + sizes[-1], SIZE, sizes[-1]), SIZE]
    writes = [content(False, 500 + 3 * turn, 4200 + at) for turn, at in enumerate(reached)]
    answers = [content(True, 501 + 3 * turn, 2000 + 60 * turn) for turn in range(len(writes))]
    assert seconds([*opening, *writes, *answers], "sftp", "put") == (500, 500 + 3 * (len(writes) - 1))


def test_the_last_write_of_an_upload_over_ssh_may_be_small() -> None:
    opening: list[Event] = [opened(), content(False, 10, 4200), content(True, 11, 2000)]
    writes = [content(False, 500 + 4 * turn, 4200 + 4000 * (turn + 1)) for turn in range(SIZE // 4000)]
    answers = [content(True, 501 + 4 * turn, 2000 + 60 * turn) for turn in range(len(writes))]
    at, end_ms = 4200 + 4000 * len(writes), 500 + 4 * len(writes)
    last = [content(False, end_ms, at + 430), content(True, end_ms + 1, 90_000)]
    closing = [
        event
        for turn, position in enumerate([530, 680, 760])
        for event in (content(False, end_ms + 2 + turn, at + position), content(True, end_ms + 2.5 + turn, 90_100 + 60 * turn))
    ]
    assert seconds([*opening, *writes, *answers, *last, *closing], "sftp", "put")[1] == end_ms


def test_a_slow_start_without_a_large_run_is_found_by_its_position() -> None:
    steps = [
        event for turn in range(1200) for event in (content(False, turn, turn + 1), content(True, turn + 0.5, 1000 * (turn + 1)))
    ]
    start, _ = seconds([opened(), *steps], "sftp")
    assert start == 8.5


def test_several_connections_are_one_body() -> None:
    half = [content(True, 60 + at, 250 + at * 2 * FRAME) for at in range(1, 200)]
    other = [content(True, 60.5 + at, 250 + at * 2 * FRAME, 1) for at in range(1, 200)]
    events = [opened(), opened(1, 1), content(False, 30, 80), content(False, 31, 80, 1), *half, *other]
    start, end = seconds(events)
    assert (start, end) == (61, 259.5)


def test_a_part_of_the_body_is_not_timed() -> None:
    events = [opened(), content(False, 30, 80), *flow(250, 60)]
    assert time_body(events[:-2], "http1", "get", SIZE, 10_000 * MS) is None
    assert time_body([], "http1", "get", SIZE, 0) is None
    assert time_body(events, "http1", "get", 1000, 0) is None
    assert time_body(events[1:], "http1", "get", SIZE, 10_000 * MS) is None
