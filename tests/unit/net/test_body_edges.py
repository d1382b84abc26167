"""The bounds of a body's beginning and end, each just kept and just broken."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.net.body import Body, time_body
from lab.net.tap import Content, Event, Mark, Unread, Woken

MS = 1_000_000
SIZE = 1 << 20


def opened(t_ms: float = 0, connection: int = 0) -> Mark:
    return Mark(connection, round(t_ms * MS), opened=True)


def down(t_ms: float, position: int, connection: int = 0) -> Content:
    """To the client, which opened the connection."""
    return Content(connection, False, round(t_ms * MS), round(t_ms * MS) + 7, position)


def up(t_ms: float, position: int, connection: int = 0) -> Content:
    return Content(connection, True, round(t_ms * MS), round(t_ms * MS) + 7, position)


def body(events: Sequence[Event], protocol: str = "http1", way: str = "get", exit_ms: float = 10_000, size: int = SIZE) -> Body:
    found = time_body(events, protocol, way, size, round(exit_ms * MS))  # type: ignore[arg-type]
    assert found is not None
    return found


def start_ms(events: Sequence[Event], protocol: str, way: str) -> float:
    return body(events, protocol, way).start_ns / MS


@pytest.mark.parametrize(
    ("protocol", "way", "before"),
    [
        ("http1", "get", 1024),
        ("http1", "put", 1024),
        ("https1", "get", 6144),
        ("https1", "put", 2048),
        ("h2", "get", 6144),
        ("h2", "put", 2048),
        ("sftp", "get", 8192),
        ("sftp", "put", 8192),
        ("other", "get", 8192),
    ],
)
def test_a_run_is_content_once_more_has_passed_than_precedes_any(protocol: str, way: str, before: int) -> None:
    """Small runs, each after an answer; the first that ends beyond the bound begins the content."""
    towards, back = (down, up) if way == "get" else (up, down)
    for over, begin in ((0, 1_000), (1, 90)):
        passed = [before * part // 9 for part in range(1, 9)] + [before + over]
        events: list[Event] = [opened()]
        for turn, at in enumerate(passed):
            events += [towards(10 * turn + 10, at), back(10 * turn + 15, 400 * (turn + 1))]
        events.append(towards(1_000, before + over + SIZE))
        assert start_ms(events, protocol, way) == begin


def test_what_is_more_than_the_size_is_all_that_precedes_the_content() -> None:
    """A stream of little more than the content has a short opening, whatever another client needs."""
    events: list[Event] = [opened(), down(10, 100), up(20, 400)]
    for turn in range(1, 67):
        events += [down(100 * turn, 100 + 1000 * turn), up(100 * turn + 5, 400 + 60 * turn)]
    assert body(events, "sftp", size=66_000).start_ns == 100 * MS


@pytest.mark.parametrize(("run", "begin"), [(3072, 500), (3073, 40)])
def test_a_run_that_no_opening_has_is_content(run: int, begin: float) -> None:
    events = [opened(), down(20, 1000), up(30, 400), down(40, 1000 + run), up(50, 800), down(500, 1000 + run + SIZE)]
    assert start_ms(events, "https1", "get") == begin


@pytest.mark.parametrize(("run", "begin"), [(1536, 500), (1537, 60)])
def test_after_two_large_runs_the_opening_of_an_upload_over_ssh_has_small_ones(run: int, begin: float) -> None:
    passed = [1500, 3000, 3000 + run]
    events: list[Event] = [opened()]
    for turn, at in enumerate(passed):
        events += [up(20 * turn + 20, at), down(20 * turn + 25, 400 * (turn + 1))]
    # Opens the file, so that the write begins where its run does.
    events += [up(450, passed[-1] + 100), down(455, 2000)]
    events += [up(500, passed[-1] + 100 + SIZE)]
    assert start_ms(events, "sftp", "put") == begin
    assert start_ms([opened(1, 1), *events], "sftp", "put") == 500, "several connections may open at the same time"


@pytest.mark.parametrize(("run", "begin"), [(320, 200), (321, 100)])
def test_the_first_write_follows_the_opening_of_the_file(run: int, begin: float) -> None:
    """Runs of at most 320 bytes open the file; larger ones before the content are writes."""
    events = [opened(), up(10, 300), down(15, 400), up(100, 300 + run), down(105, 500), up(200, 1300 + run), down(205, 600)]
    assert start_ms([*events, up(300, 1300 + run + SIZE)], "sftp", "put") == begin


def test_without_a_small_run_an_upload_over_ssh_begins_with_its_large_one() -> None:
    events = [opened(), up(10, 400), down(15, 400), up(300, 400 + SIZE)]
    assert start_ms(events, "sftp", "put") == 300


@pytest.mark.parametrize(
    ("protocol", "way"), [("http1", "put"), ("https1", "put"), ("h2", "put"), ("other", "put"), ("sftp", "get")]
)
def test_what_follows_the_content_is_as_small_as_any_closing(protocol: str, way: str) -> None:
    """The end is in the run that reaches all but what may follow."""
    after = {"http1": 0, "https1": 256, "h2": 256, "sftp": 1024}.get(protocol, 8192)
    towards, back = (down, up) if way == "get" else (up, down)
    for over, end_ms in ((0, 500), (1, 600)):
        events: list[Event] = [opened(), back(10, 40), towards(500, SIZE), Unread(501 * MS, 0), back(510, 80)]
        # Where nothing follows there is no run.
        if after + over:
            events += [towards(600, SIZE + after + over), Unread(601 * MS, 0), back(610, 90)]
        assert body(events, protocol, way).end_ns == end_ms * MS + 7


@pytest.mark.parametrize(("write", "end"), [(320, 500), (321, 600)])
def test_a_late_write_of_an_upload_over_ssh_is_larger_than_a_closing(write: int, end: float) -> None:
    events = [
        opened(),
        up(10, 100),
        down(15, 400),
        up(500, 100 + SIZE),
        down(510, 500),
        up(600, 100 + SIZE + write),
        down(610, 600),
    ]
    assert body(events, "sftp", "put").end_ns == end * MS + 7


@pytest.mark.parametrize(("paused_ms", "error_s"), [(50, 0.0), (50.001, 0.050001), (700, 0.7)])
def test_a_rest_within_the_first_run_makes_its_beginning_uncertain(paused_ms: float, error_s: float) -> None:
    found = body([opened(), up(100, 400), up(100 + paused_ms, 400 + SIZE)], way="put")
    assert found.start_ns == 100 * MS
    assert found.error_s == pytest.approx(error_s)


def test_only_waits_of_a_program_during_the_body_count() -> None:
    for at_ms, counts in ((99.9, False), (100, True), (300, True), (400.000007, True), (400.1, False)):
        events = [opened(), up(100, SIZE // 2), up(400, SIZE), Woken(round(at_ms * MS), 3 * MS)]
        assert body(events, way="put").error_s == (0.003 if counts else 0)


def test_the_longest_wait_counts_and_not_their_sum() -> None:
    waits = [Woken(200 * MS, 2 * MS), Woken(210 * MS, 5 * MS), Woken(220 * MS, 1 * MS)]
    assert body([opened(), up(100, SIZE // 2), up(400, SIZE), *waits], way="put").error_s == 0.005


def test_the_first_of_several_connections_opens_the_body() -> None:
    events = [opened(5, 1), opened(3, 0), opened(9, 2), up(100, SIZE // 2, 1), up(101, SIZE // 2, 2)]
    assert body(events, way="put").opened_ns == 3 * MS


def test_content_counts_once_and_by_connection() -> None:
    part = [opened(), opened(1, 1), up(100, 600_000), up(101, 300_000, 1), up(102, 700_000), up(103, SIZE - 700_000, 1)]
    assert body(part, way="put").end_ns == 103 * MS + 7
    assert time_body(part[:-1], "http1", "put", SIZE, 10_000 * MS) is None


@pytest.mark.parametrize(("size", "timed"), [(65_535, False), (65_536, True)])
def test_a_small_body_is_not_timed(size: int, timed: bool) -> None:
    events = [opened(), up(100, size)]
    assert (time_body(events, "http1", "put", size, 10_000 * MS) is not None) == timed


def taken(looks: Sequence[tuple[float, int]], *acts: Event, exit_ms: float = 10_000) -> tuple[float, float]:
    """End in ms and error in ms of a download whose last segment passes at 500 ms; a look is (ms, bytes that wait)."""
    queue = [Unread(round(t_ms * MS), waiting) for t_ms, waiting in looks]
    last = Content(0, False, 100 * MS, 500 * MS, SIZE)
    found = body([opened(), up(10, 40), last, *queue, *acts], exit_ms=exit_ms)
    return found.end_ns / MS, found.error_s * 1e3


def test_a_program_that_takes_everything_as_it_comes_has_taken_the_last_byte() -> None:
    assert taken([(490, 0), (510, 0)]) == (500, pytest.approx(10))
    assert taken([(510, 0)]) == (500, pytest.approx(10)), "no look before"
    assert taken([]) == (500, pytest.approx(9500)), "the next that is known is its end"


def test_between_two_looks_it_is_taken_in_the_middle() -> None:
    assert taken([(490, 9), (510, 0)]) == (505, pytest.approx(5))
    assert taken([(490, 0), (500, 9), (520, 0)]) == (510, pytest.approx(10))
    assert taken([(490, 0), (510, 9), (520, 4), (560, 0), (600, 7)]) == (540, pytest.approx(20))


def test_an_act_of_the_program_says_when() -> None:
    looks = [(490, 9), (510, 4), (530, 0)]
    assert taken(looks, up(515, 80)) == (515, pytest.approx(15))
    assert taken(looks, up(511, 80), up(525, 90)) == (525, pytest.approx(15)), "the last of them"
    assert taken(looks, up(510, 80)) == (510, pytest.approx(20))
    assert taken(looks, up(530, 80)) == (530, pytest.approx(20))
    assert taken(looks, up(509, 80), up(531, 90)) == (520, pytest.approx(10)), "none is between the looks"
    assert taken(looks, Mark(0, 528 * MS, opened=False)) == (528, pytest.approx(18))
    assert taken(looks, opened(528, 1)) == (520, pytest.approx(10)), "a new connection is no end"


def test_the_end_of_the_client_is_the_latest_that_it_can_be() -> None:
    assert taken([(490, 9), (510, 0)], exit_ms=508) == (508, pytest.approx(8))
    assert taken([(490, 9)], exit_ms=640) == (640, pytest.approx(140)), "the queue was never seen empty"
    assert taken([(490, 9), (600, 3)], exit_ms=550) == (600, pytest.approx(0)), "a look after its end"
