"""What ended a sender's pause, from what its port and its kernel saw: one connection written by hand for each rule."""

from __future__ import annotations

import pytest

from lab.net.sockets import Look
from lab.net.tap import Content
from lab.run.pauses import Connection, Pauses, chosen

MS = 1_000_000
RTT_MS = 100
FIXED, OWN = 100_000, 46_080
"""A size that SO_SNDBUF set, and one that the kernel chose."""
START = 1 << 20
"""Content before what is looked at: the opening is over."""


def look(t_ms: float, *, buffered: int = 0, send_buffer: int = FIXED, unsent: int = 0) -> Look:
    zeros = dict.fromkeys(Look._fields, 0)
    known = {"mss": 1448, "cwnd": 1000, "unacked": 10, "rtt_us": RTT_MS * 1000}
    return Look(
        **{**zeros, **known, "t_ns": round(t_ms * MS), "buffered": buffered, "send_buffer": send_buffer, "unsent": unsent}
    )


def content(t_ms: float, position: int) -> Content:
    return Content(0, from_opener=False, t0_ns=round(t_ms * MS), t_ns=round(t_ms * MS), position=START + position)


def pauses(
    out: list[Content], looks: list[Look], *, back: tuple[Content, ...] = (), acks: tuple[tuple[float, int], ...] = ()
) -> Pauses:
    acked = [(round(t_ms * MS), START + position) for t_ms, position in acks]
    return Pauses(Connection(0, 10_000 * MS, looks, [content(-1, 0), *out], back, [(0, START), *acked]), RTT_MS * 1000)


def answer(found: Pauses, t_ms: float) -> str:
    (part,) = found.cut(round(t_ms * MS), round(t_ms * MS) + 1, waits_for_network=False)
    return part.answer


def full(*, woken_ms: float, acked: int, before: int, send_buffer: int = FIXED, later: int | None = None) -> Pauses:
    """91,000 bytes leave at 10 ms and take 100,100 of memory; more leaves at `woken_ms`, just after `acked` are acknowledged."""
    looks = [look(20, buffered=100_100, send_buffer=send_buffer), look(120, buffered=96_910, send_buffer=later or send_buffer)]
    out = [content(10, 91_000), content(woken_ms, 120_000)]
    return pauses(out, looks, acks=((109, before), (110, acked)))


def test_a_full_buffer_that_comes_down_to_two_thirds() -> None:
    assert answer(full(woken_ms=110.01, before=29_000, acked=31_900), 60) == "room"


def test_what_the_kernel_has_not_sent_yet_is_in_the_buffer_too() -> None:
    looks = [look(20, buffered=122_100, unsent=20_000), look(120, buffered=96_910)]
    found = pauses([content(10, 91_000), content(110.01, 120_000)], looks, acks=((109, 29_000), (110, 31_900)))
    assert answer(found, 60) == "room"


@pytest.mark.parametrize(
    "found",
    [
        full(woken_ms=110.01, before=2_900, acked=5_800),
        full(woken_ms=110.01, before=61_000, acked=63_900),
        full(woken_ms=112, before=29_000, acked=31_900),
        full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=200_000),
        full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=92_160),
    ],
    ids=("still full", "had room before", "not at once", "never full", "would have grown"),
)
def test_a_program_that_writes_for_its_own_reasons(found: Pauses) -> None:
    assert answer(found, 60) == "none"


def test_a_buffer_of_the_kernels_own_grows_where_a_program_waits() -> None:
    assert answer(full(woken_ms=110.01, before=29_000, acked=31_900, send_buffer=92_160, later=184_320), 60) == "room"


def test_which_sizes_the_kernel_chooses() -> None:
    assert chosen(OWN, 1448)
    assert chosen(2 * OWN, 1348)
    assert not chosen(2 * 65_536, 1448)
    assert not chosen(4 << 20, 1448), "the most that tcp_wmem allows"


def test_a_message_answers_content_of_a_round_trip_before_or_comes_late() -> None:
    asked = content(110.1, 0)._replace(from_opener=True)
    for sent_ms, expected in ((10, "at once"), (60, "late")):
        found = pauses([content(sent_ms, 1_000), content(110.2, 2_000)], [look(80)], back=(asked,))
        assert answer(found, 100) == expected


def test_what_tcp_sends_while_its_program_pauses_is_the_programs_time() -> None:
    out = [content(10, 14_480), content(110, 60_000), content(500, 75_000)]
    looks = [look(t, unsent=60_000 - 14_480 if t < 110 else 0) for t in range(20, 510, 10)]
    parts = pauses(out, looks).cut(10 * MS, 500 * MS, waits_for_network=True)
    assert [(part.start_ns // MS, part.end_ns // MS, part.idle) for part in parts] == [(10, 20, False), (20, 500, True)]


def test_less_than_a_segment_that_tcp_held_back_was_not_written_then() -> None:
    out = [content(10, 14_480), content(500, 14_980)]
    looks = [look(t, unsent=500) for t in range(20, 500, 10)]
    assert not any(part.idle for part in pauses(out, looks).cut(10 * MS, 500 * MS, waits_for_network=True))
